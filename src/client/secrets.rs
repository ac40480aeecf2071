//! Keeps our credentials out of what is shown, also where a server quotes them.
//!
//! Owns what must not be shown; must not know how it is sent.

use std::borrow::Cow;
use std::sync::Arc;

use crate::error::Error;
use crate::event::StreamEvent;
use crate::mcp::frame::SessionId;

/// What is sent to one server and is nobody else's business.
pub(super) struct Secrets<'a> {
    /// Of the link: credentials in headers and in the URL.
    pub(super) of_link: Arc<[Arc<str>]>,
    pub(super) session: Option<&'a SessionId>,
}

impl Secrets<'_> {
    /// A text of the server without them.
    pub(super) fn hide<'t>(&self, text: &'t str) -> Cow<'t, str> {
        /// A shorter value is no secret, and is part of many words.
        const MIN_BYTES: usize = 8;
        let of_link = self.of_link.iter().map(|secret| &**secret);
        let session = self.session.map(SessionId::as_str);
        let mut shown = Cow::Borrowed(text);
        for secret in of_link.chain(session) {
            if secret.len() >= MIN_BYTES && shown.contains(secret) {
                shown = Cow::Owned(shown.replace(secret, "[hidden]"));
            }
        }
        shown
    }

    pub(super) fn hide_in(&self, error: Error) -> Error {
        error.map_quoted(&|text| self.hide(text).into_owned())
    }

    /// What a tool says, also of its failure, is its caller's own and stays as it is.
    pub(super) fn hide_in_event(&self, event: StreamEvent) -> StreamEvent {
        match event.error() {
            Some(error @ (Error::Rpc { .. } | Error::Protocol { .. })) => {
                StreamEvent::failure(self.hide_in(error.clone()))
            }
            _ => event,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_secret_is_hidden_wherever_it_stands() {
        let of_link = ["Bearer t0ken-t0ken", "t0ken-t0ken", "red"].map(Arc::from);
        let session = SessionId::parse("s3ss10n-1").unwrap();
        let secrets = Secrets {
            of_link: of_link.into(),
            session: Some(&session),
        };
        let table = [
            ("nothing of ours", "nothing of ours"),
            ("sent Bearer t0ken-t0ken.", "sent [hidden]."),
            ("t0ken-t0kent0ken-t0ken", "[hidden][hidden]"),
            ("no session s3ss10n-1", "no session [hidden]"),
            ("a red herring", "a red herring"),
            ("", ""),
        ];
        for (text, shown) in table {
            assert_eq!(secrets.hide(text), shown);
        }
    }
}
