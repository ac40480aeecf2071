//! A tool list as it comes in, page by page.
//!
//! Owns the guards against a list without end and against bad entries; must not know how a page is
//! asked for.

use std::collections::HashSet;

use crate::error::Error;
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
    restarted: bool,
    warnings: Vec<String>,
}

/// What follows a page.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Page {
    Last,
    /// The cursor of the next one; an empty string is a cursor too.
    More(String),
}

impl Listing {
    pub(super) fn new() -> Self {
        Self::default()
    }

    /// Adds the tools of a page. The bounds count bad entries too, since each costs a warning.
    pub(super) fn add(
        &mut self,
        result: &RawJson,
        max_pages: usize,
        max_tools: usize,
    ) -> Result<Page, Error> {
        let page: ToolsPage<'_> = result
            .object()
            .map_err(|e| Error::protocol(format!("an odd answer to tools/list: {e}")))?;
        self.pages += 1;
        for (index, entry) in page.tools.iter().flatten().enumerate() {
            if self.entries >= max_tools {
                return Err(Error::limit("max_tools", max_tools));
            }
            self.entries += 1;
            match ToolDescription::read(result.part(entry)) {
                Ok(tool) if !self.names.insert(tool.name.clone()) => {
                    self.warnings
                        .push(format!("tool `{}` is listed twice", tool.name));
                }
                Ok(tool) => self.tools.push(tool),
                Err(why) => {
                    let page = self.pages;
                    self.warnings
                        .push(format!("tool {index} of page {page} is left out: {why}"));
                }
            }
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

    /// Forgets all pages, if there are any, since the peer no longer knows its own cursor. Once:
    /// a peer that never knows them would be asked for ever.
    pub(super) fn restart(&mut self) -> bool {
        let again = self.pages > 0 && !self.restarted;
        if again {
            *self = Self {
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

    pub(super) fn into_tools(self) -> Vec<ToolDescription> {
        self.tools
    }
}
