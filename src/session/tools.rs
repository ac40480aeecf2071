//! A tool list as it comes in, page by page.
//!
//! Owns the guards against a list without end and against bad entries; must not know how a page is
//! asked for.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::time::Duration;

use crate::error::Error;
use crate::limits::Limits;
use crate::mcp::param::ParamHeader;
use crate::mcp::types::{ToolDescription, ToolsPage};
use crate::wire::jsonrpc::RawJson;

#[derive(Debug, Default)]
pub(super) struct Listing {
    tools: Vec<ToolDescription>,
    names: HashSet<String>,
    cursors: HashSet<String>,
    pages: usize,
    /// Entries seen, bad ones as well.
    entries: usize,
    bytes: usize,
    /// The shortest time that a page is good for.
    ttl: Option<Duration>,
    /// Headers repeat arguments, so that a tool has to say rightly which.
    mirrors: bool,
    restarted: bool,
    warnings: Vec<String>,
}

/// All tools of a server.
#[derive(Debug)]
pub(crate) struct ToolList {
    pub(crate) tools: Vec<ToolDescription>,
    /// For how long the list is good, as the server says.
    pub(crate) ttl: Duration,
}

/// What follows a page.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Page {
    Last,
    /// The cursor of the next one; an empty string is a cursor too.
    More(String),
}

impl Listing {
    pub(super) fn new(mirrors: bool) -> Self {
        Self {
            mirrors,
            ..Self::default()
        }
    }

    /// Adds the tools of a page, which is good for `ttl`. The bounds count bad entries too, since
    /// each costs a warning, and what is no tool at all, since a tool keeps its page alive.
    pub(super) fn add(
        &mut self,
        result: &RawJson,
        ttl: Duration,
        limits: &Limits,
    ) -> Result<Page, Error> {
        self.bytes = self.bytes.saturating_add(result.as_str().len());
        if self.bytes > limits.max_list_bytes {
            return Err(Error::limit("max_list_bytes", limits.max_list_bytes));
        }
        let (max_pages, max_tools) = (limits.max_tool_pages, limits.max_tools);
        let odd = |e| Error::protocol(format!("an odd answer to tools/list: {e}"));
        let page: ToolsPage<'_> = result.object().map_err(odd)?;
        self.pages += 1;
        self.ttl = Some(self.ttl.map_or(ttl, |least| least.min(ttl)));
        let (mut index, mut is_over) = (0, false);
        let read = page.tools(|entry| {
            is_over = self.entries >= max_tools;
            if is_over {
                return ControlFlow::Break(());
            }
            self.entries += 1;
            self.take(index, result.part(entry));
            index += 1;
            ControlFlow::Continue(())
        });
        read.map_err(odd)?;
        if is_over {
            return Err(Error::limit("max_tools", max_tools));
        }
        let Some(cursor) = page.next_cursor else {
            return Ok(Page::Last);
        };
        if !self.cursors.insert(cursor.clone()) {
            self.warnings
                .push("the tool list has a cursor twice and is cut there".to_owned());
            return Ok(Page::Last);
        }
        if self.pages >= max_pages {
            return Err(Error::limit("max_tool_pages", max_pages));
        }
        Ok(Page::More(cursor))
    }

    fn take(&mut self, index: usize, entry: RawJson) {
        match self.read(entry) {
            Ok(tool) if !self.names.insert(tool.name.clone()) => {
                self.warnings
                    .push(format!("tool `{}` is listed twice", tool.name));
            }
            Ok(tool) => self.tools.push(tool),
            Err(Unfit::Entry(why)) => {
                let page = self.pages;
                self.warnings
                    .push(format!("tool {index} of page {page} is left out: {why}"));
            }
            Err(Unfit::Tool(name, why)) => {
                self.warnings
                    .push(format!("tool `{name}` is left out: {why}"));
            }
        }
    }

    fn read(&self, entry: RawJson) -> Result<ToolDescription, Unfit> {
        let mut tool = ToolDescription::read(entry).map_err(Unfit::Entry)?;
        if self.mirrors
            && let Some(schema) = &tool.input_schema
        {
            match ParamHeader::read_all(schema) {
                Ok(mirrored) => tool.mirrored = mirrored.into(),
                Err(why) => return Err(Unfit::Tool(tool.name, why)),
            }
        }
        Ok(tool)
    }

    /// Forgets all pages, if there are any, since the peer no longer knows its own cursor. Once:
    /// a peer that never knows them would be asked for ever.
    pub(super) fn restart(&mut self) -> bool {
        let again = self.pages > 0 && !self.restarted;
        if again {
            *self = Self {
                mirrors: self.mirrors,
                restarted: true,
                ..Self::default()
            };
        }
        again
    }

    /// No page was added, and none was forgotten.
    pub(super) fn is_new(&self) -> bool {
        self.pages == 0 && !self.restarted
    }

    pub(super) fn take_warnings(&mut self) -> Vec<String> {
        std::mem::take(&mut self.warnings)
    }

    pub(super) fn into_tools(self) -> ToolList {
        ToolList {
            tools: self.tools,
            ttl: self.ttl.unwrap_or_default(),
        }
    }
}

/// Why a tool cannot be used.
enum Unfit {
    /// It cannot be read.
    Entry(&'static str),
    /// It can, and has this name.
    Tool(String, String),
}
