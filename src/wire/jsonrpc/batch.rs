//! The members of a batch, as many as may be.
//!
//! Owns the bound; must not know what a member is.

use std::ops::ControlFlow;

use serde_json::value::RawValue;

use super::{Code, Invalid, elements};

/// The members of an array that is a batch.
pub(super) fn members(text: &str) -> Result<Vec<&RawValue>, Invalid> {
    let mut members = Vec::new();
    let read = elements(text, |member| {
        members.push(member);
        match members.len() > MAX_BATCH {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    });
    read.map_err(|e| Invalid {
        code: Code::PARSE,
        id: None,
        detail: format!("the message is not JSON: {e}").into(),
    })?;
    if members.is_empty() {
        return Err(Invalid::request(None, "an empty batch"));
    }
    if members.len() > MAX_BATCH {
        return Err(Invalid::request(
            None,
            "a batch of more than 1,000 messages",
        ));
    }
    Ok(members)
}

/// Messages in one batch. A member may be two bytes long, and costs a hundred here and as many in
/// its answer.
const MAX_BATCH: usize = 1_000;
