//! The members of a batch, as many as may be.
//!
//! Owns the bound; must not know what a member is.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::{Code, Invalid};

/// The members of an array that is a batch.
pub(super) fn members(text: &str) -> Result<Vec<&RawValue>, Invalid> {
    let FirstMembers(members) = serde_json::from_str(text).map_err(|e| Invalid {
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

/// The members of an array, up to one more than may be.
struct FirstMembers<'a>(Vec<&'a RawValue>);

impl<'de> Deserialize<'de> for FirstMembers<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;

        impl<'de> Visitor<'de> for Members {
            type Value = FirstMembers<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while members.len() <= MAX_BATCH
                    && let Some(member) = seq.next_element()?
                {
                    members.push(member);
                }
                while seq.next_element::<IgnoredAny>()?.is_some() {}
                Ok(FirstMembers(members))
            }
        }

        deserializer.deserialize_seq(Members)
    }
}
