//! Certificates and keys as files hold them.
//!
//! Owns what is said when one cannot be read; must not know what it is for.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use tokio_rustls::rustls::pki_types::pem::{Error as PemError, PemObject as _};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::error::Error;

/// The text of a PEM, and how it is called in errors.
pub(super) struct Pem<'a> {
    pub(super) text: &'a [u8],
    pub(super) name: &'a str,
}

/// # Errors
/// [`Error::Config`] names the file.
pub(super) fn read(path: &Path) -> Result<Vec<u8>, Error> {
    /// The roots of a whole system take a quarter of a mebibyte.
    const MAX_BYTES: u64 = 16 * 1024 * 1024;
    let mut text = Vec::new();
    let mut load = || File::open(path)?.take(MAX_BYTES + 1).read_to_end(&mut text);
    match load() {
        Ok(read) if read as u64 > MAX_BYTES => Err(Error::config(format!(
            "{} is over {MAX_BYTES} bytes, which no file of certificates is",
            named(path)
        ))),
        Ok(_) => Ok(text),
        Err(error) => Err(Error::config(format!(
            "{} could not be read: {error}",
            named(path)
        ))),
    }
}

/// How a file is called in errors.
pub(super) fn named(path: &Path) -> String {
    format!("the file `{}`", path.display())
}

impl Pem<'_> {
    /// All certificates in it, in order; whatever else is in it is passed over.
    ///
    /// # Errors
    /// [`Error::Config`] if there is none, or one that is broken.
    pub(super) fn certificates(&self) -> Result<Vec<CertificateDer<'static>>, Error> {
        let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(self.text).collect();
        match found {
            Ok(found) if !found.is_empty() => Ok(found),
            Ok(_) => Err(self.lacks("certificate", "-----BEGIN CERTIFICATE-----")),
            Err(error) => Err(self.broken(&error)),
        }
    }

    /// The first private key in it.
    ///
    /// # Errors
    /// [`Error::Config`] if there is none, or one that is broken or encrypted. Nothing of it is
    /// shown.
    pub(super) fn key(&self) -> Result<PrivateKeyDer<'static>, Error> {
        // A newer and an older way to write so.
        let is_encrypted = ["BEGIN ENCRYPTED PRIVATE KEY", "Proc-Type: 4,ENCRYPTED"]
            .iter()
            .any(|sign| memchr::memmem::find(self.text, sign.as_bytes()).is_some());
        if is_encrypted {
            return Err(Error::config(format!(
                "the private key in {} is encrypted: write it without a passphrase, as \
                 `openssl pkey -in FILE` does",
                self.name
            )));
        }
        PrivateKeyDer::from_pem_slice(self.text).map_err(|error| match error {
            PemError::NoItemsFound => self.lacks("private key", "-----BEGIN PRIVATE KEY-----"),
            error => self.broken(&error),
        })
    }

    fn lacks(&self, what: &str, line: &str) -> Error {
        Error::config(format!(
            "there is no {what} in {}: one in PEM begins with the line {line}",
            self.name
        ))
    }

    fn broken(&self, error: &PemError) -> Error {
        let why = match error {
            // Would show bytes of it.
            PemError::IllegalSectionStart { .. } => "a line that begins a part is broken",
            PemError::MissingSectionEnd { .. } => "a part of it has no end",
            PemError::Base64Decode(_) => "what stands in it is not base64",
            _ => "it is no PEM",
        };
        Error::config(format!("{} is broken: {why}", self.name))
    }
}
