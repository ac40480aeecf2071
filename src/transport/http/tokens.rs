//! The bearer tokens of a server, and whose each is.
//!
//! Knows bytes; must not know headers. How long a look takes tells nothing of any token but the
//! length of the longest: each is compared, in full, and none ends the look.

use std::fmt;

use subtle::{ConditionallySelectable, ConstantTimeEq};

use crate::error::Error;
use crate::mcp::frame::Principal;

/// At least one token.
#[derive(Clone)]
pub(crate) struct Tokens {
    tokens: Vec<Token>,
    /// The length of the longest.
    width: usize,
}

#[derive(Clone)]
struct Token {
    /// Filled up with zeros to the width of all.
    padded: Box<[u8]>,
    length: u64,
    principal: Option<Principal>,
}

impl Tokens {
    /// # Errors
    /// [`Error::Config`] for a list without any, and for a token that no header can carry, or that
    /// two principals have. It is told by its place.
    pub(crate) fn new(tokens: &[(Option<Principal>, String)]) -> Result<Self, Error> {
        if tokens.is_empty() {
            return Err(Error::config(
                "bearer_tokens were asked for, and there is none that anybody could send",
            ));
        }
        for (index, (principal, token)) in tokens.iter().enumerate() {
            let place = index + 1;
            if token.is_empty() {
                return Err(Error::config(format!("bearer token {place} is empty")));
            }
            if !token.bytes().all(|b| b.is_ascii_graphic()) {
                return Err(Error::config(format!(
                    "bearer token {place} has a character that is not visible ASCII, \
                     such as a space or the end of a line"
                )));
            }
            let earlier = tokens.iter().take(index);
            if earlier.clone().any(|(p, t)| t == token && p != principal) {
                return Err(Error::config(format!(
                    "bearer token {place} is also that of another principal"
                )));
            }
        }
        let width = tokens.iter().map(|(_, token)| token.len()).max();
        let width = width.unwrap_or_default();
        let tokens = tokens.iter().map(|(principal, token)| Token {
            padded: padded(token.as_bytes(), width),
            length: token.len() as u64,
            principal: principal.clone(),
        });
        Ok(Self {
            tokens: tokens.collect(),
            width,
        })
    }

    /// Whose token it is: `Some(None)` if it has no name, `None` if it is none.
    pub(crate) fn find(&self, sent: &[u8]) -> Option<Option<Principal>> {
        let (padded, length) = (padded(sent, self.width), sent.len() as u64);
        let mut found = NONE;
        for (index, token) in (0..).zip(&self.tokens) {
            let is_same = token.padded.ct_eq(&padded) & token.length.ct_eq(&length);
            found.conditional_assign(&index, is_same);
        }
        let token = self.tokens.get(usize::try_from(found).ok()?)?;
        Some(token.principal.clone())
    }
}

/// The place of no token.
const NONE: u64 = u64::MAX;

/// The bytes, or the first of them, and zeros.
fn padded(bytes: &[u8], width: usize) -> Box<[u8]> {
    let zeros = std::iter::repeat(0);
    bytes.iter().copied().chain(zeros).take(width).collect()
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokens")
            .field("count", &self.tokens.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(list: &[(&str, &str)]) -> Result<Tokens, Error> {
        let named = |name: &str| Some(name).filter(|n| !n.is_empty()).map(Principal::new);
        let list: Vec<_> = list
            .iter()
            .map(|(name, token)| (named(name), (*token).to_owned()))
            .collect();
        Tokens::new(&list)
    }

    // Covers R-1703.
    #[test]
    fn a_token_is_known_by_all_of_its_bytes() {
        let tokens = tokens(&[("a", "abc"), ("b", "abcd"), ("", "z"), ("a", "other")]).unwrap();
        for (sent, whose) in [
            ("abc", Some("a")),
            ("abcd", Some("b")),
            ("other", Some("a")),
            ("z", Some("")),
            ("", None),
            ("ab", None),
            ("abd", None),
            ("ABC", None),
            ("abc\0", None),
            ("abcde", None),
            ("otherr", None),
            ("other\0\0", None),
            ("z\0\0\0\0", None),
        ] {
            let found = tokens.find(sent.as_bytes());
            let whose = whose.map(|name| Some(name).filter(|n| !n.is_empty()).map(Principal::new));
            assert_eq!(found, whose, "{sent:?}");
        }
    }

    #[test]
    fn what_cannot_be_a_token_is_told_and_not_shown() {
        for (list, says) in [
            (&[][..], "there is none"),
            (&[("a", "")], "token 1 is empty"),
            (&[("a", "ok"), ("a", "s3cret\n")], "token 2 has a character"),
            (&[("a", "s3 cret")], "token 1 has a character"),
            (&[("a", "s3crét")], "token 1 has a character"),
            (&[("a", "s3cret"), ("b", "s3cret")], "token 2 is also"),
            (&[("", "s3cret"), ("b", "s3cret")], "token 2 is also"),
        ] {
            let error = tokens(list).unwrap_err();
            assert!(matches!(error, Error::Config { .. }), "{list:?}");
            assert!(error.to_string().contains(says), "{error}");
            assert!(!format!("{error} {error:?}").contains("s3"), "{error:?}");
        }
        let twice = tokens(&[("a", "s3cret"), ("a", "s3cret")]).unwrap();
        assert!(!format!("{twice:?}").contains("s3cret"));
    }
}
