//! In place of TLS in a build without the feature: says so.

use crate::error::Error;

/// TLS, which this build is without.
pub(super) struct Tls;

/// # Errors
/// What to do to have it.
pub(super) fn check() -> Result<(), &'static str> {
    Err("https needs this crate's feature `tls`, which this build is without")
}

impl Tls {
    pub(super) fn new() -> Self {
        Self
    }

    pub(super) async fn connect<S>(&self, _name: &str, _port: u16, _stream: S) -> Result<S, Error> {
        Err(Error::config(check().err().unwrap_or_default()))
    }
}
