//! What a server offers at one moment: its tools and what runs when they are called.
//!
//! Owns that both lists have the same order; must not know who calls. A change makes a new offer,
//! so a message is judged by one from its beginning to its end.

use std::sync::Arc;

use super::context::{Running, ToolContext};
use super::work::{Handler, Work};
use crate::error::{Error, Result};
use crate::mcp::frame::Principal;
use crate::mcp::tool::Tool;
use crate::session::outbox::Outbox;
use crate::session::server::{CallRequest, ServerFacts};

#[derive(Clone)]
pub(super) struct Offer {
    pub(super) facts: ServerFacts,
    handlers: Vec<(Arc<str>, Arc<dyn Handler>)>,
}

impl Offer {
    pub(super) fn new(facts: ServerFacts, handlers: Vec<Arc<dyn Handler>>) -> Self {
        let names = facts.tools.iter().map(|tool| Arc::from(Tool::name(tool)));
        let handlers = names.zip(handlers).collect();
        Self { facts, handlers }
    }

    /// The handler of a call, ready to run for whoever called; `None` if there is none.
    pub(super) fn work(
        &self,
        call: CallRequest,
        outbox: &Arc<Outbox>,
        principal: Option<&Principal>,
    ) -> Option<Work> {
        let (name, handler) = self.handlers.get(call.tool)?;
        let running = Running::new(outbox.clone(), principal.cloned());
        let ctx = ToolContext::new(Arc::new(running), name.clone());
        let handler = handler.call(call.arguments, ctx);
        Some(Work::new(handler, name.clone(), call.reply))
    }

    fn place(&self, name: &str) -> Option<usize> {
        self.facts.tools.iter().position(|tool| tool.name() == name)
    }

    /// Adds a tool at the end.
    pub(super) fn add(&mut self, tool: &Tool, handler: &Arc<dyn Handler>) -> Result<()> {
        tool.check()?;
        if self.place(tool.name()).is_some() {
            return Err(taken(tool.name()));
        }
        self.handlers.push((tool.name().into(), handler.clone()));
        self.facts.tools.push(tool.clone());
        Ok(())
    }

    /// Takes a tool out; the others keep their order.
    pub(super) fn remove(&mut self, name: &str) -> Result<()> {
        let place = self
            .place(name)
            .ok_or_else(|| Error::config(format!("there is no tool `{name}`")))?;
        self.facts.tools.remove(place);
        self.handlers.remove(place);
        Ok(())
    }
}

pub(super) fn taken(name: &str) -> Error {
    Error::config(format!("the tool name `{name}` is taken"))
}
