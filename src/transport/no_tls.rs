//! In place of TLS in a build without the feature: says so.

use crate::error::Error;

/// Whom a client would trust. No unit, so that it is made as the other one is.
#[derive(Debug, Clone, Default)]
pub(crate) struct Trust(());

/// What no server of this build has.
#[derive(Debug, Clone)]
pub(crate) enum ServerTls {}

/// # Errors
/// What to do to have it.
pub(crate) fn check() -> Result<(), &'static str> {
    Err("https needs this crate's feature `tls`, which this build is without")
}

impl Trust {
    pub(crate) async fn connect<S>(&self, _name: &str, _port: u16, _stream: S) -> Result<S, Error> {
        Err(Error::config(check().err().unwrap_or_default()))
    }
}

impl ServerTls {
    pub(crate) async fn accept<S>(&self, _stream: S) -> Result<S, Option<S>> {
        match *self {}
    }
}
