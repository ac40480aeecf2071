//! Authorities that a user trusts beside those of the system.

use std::fmt;
use std::path::Path;

use tokio_rustls::rustls::RootCertStore;
use tokio_rustls::rustls::pki_types::CertificateDer;

use super::pem::{self, Pem};
use crate::error::{Error, Result};

/// Certificates of authorities whose servers are trusted: those of a company, say, or the one that a
/// server has signed itself. They are trusted beside the roots of the system, by a hub with
/// `AgentHubClientBuilder::extra_roots` and by a model with `OpenAiLlmBuilder::extra_roots`.
///
/// Needs the feature `tls`. Cheap to clone.
///
/// ```no_run
/// # fn f() -> agent_hub_kit::Result<()> {
/// use agent_hub_kit::{AgentHubClient, RootCertificates};
///
/// let roots = RootCertificates::from_pem_file("/etc/agents/company-ca.pem")?;
/// let hub = AgentHubClient::builder().extra_roots(&roots).build();
/// # let _ = hub;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct RootCertificates(Vec<CertificateDer<'static>>);

impl RootCertificates {
    /// Takes all certificates in a text in PEM, one at least.
    ///
    /// ```
    /// let error = agent_hub_kit::RootCertificates::from_pem("nothing").unwrap_err();
    /// assert!(error.to_string().contains("there is no certificate"));
    /// ```
    ///
    /// # Errors
    /// [`Error::Config`] if there is none, or one that cannot be trusted for what is wrong with it.
    pub fn from_pem(pem: impl AsRef<[u8]>) -> Result<Self> {
        Self::named(pem.as_ref(), "the PEM text of the roots")
    }

    /// Takes all certificates in a file in PEM, one at least. The file is read once, now.
    ///
    /// ```
    /// let error = agent_hub_kit::RootCertificates::from_pem_file("/no/such/file").unwrap_err();
    /// assert!(error.to_string().contains("/no/such/file"));
    /// ```
    ///
    /// # Errors
    /// Those of [`from_pem`](Self::from_pem), and [`Error::Config`] if the file cannot be read.
    pub fn from_pem_file(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        Self::named(&pem::read(path)?, &pem::named(path))
    }

    fn named(text: &[u8], name: &str) -> Result<Self> {
        let certificates = Pem { text, name }.certificates()?;
        let mut store = RootCertStore::empty();
        for (index, certificate) in certificates.iter().enumerate() {
            store.add(certificate.clone()).map_err(|error| {
                let place = index + 1;
                Error::config(format!(
                    "certificate {place} in {name} cannot be a root: {error}"
                ))
            })?;
        }
        Ok(Self(certificates))
    }

    pub(super) fn certificates(&self) -> impl Iterator<Item = CertificateDer<'static>> {
        self.0.iter().cloned()
    }
}

impl fmt::Debug for RootCertificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RootCertificates")
            .field(&self.0.len())
            .finish()
    }
}
