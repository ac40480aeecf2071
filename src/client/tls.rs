//! Whom a hub trusts.

use super::config::AgentHubClientBuilder;
use crate::transport::tls::RootCertificates;

impl AgentHubClientBuilder {
    /// Trusts further authorities for `https`, beside those of the system; given again, those as
    /// well. All servers of the hub are held against the same ones, which are read once, for the
    /// first server with `https`. Needs the feature `tls`.
    ///
    /// ```
    /// # fn f(pem: &str) -> agent_hub_kit::Result<()> {
    /// use agent_hub_kit::{AgentHubClient, RootCertificates};
    ///
    /// let roots = RootCertificates::from_pem(pem)?;
    /// let hub = AgentHubClient::builder().extra_roots(&roots).build();
    /// # let _ = hub;
    /// # Ok(())
    /// # }
    /// ```
    pub fn extra_roots(mut self, roots: &RootCertificates) -> Self {
        self.trust = self.trust.with(roots);
        self
    }
}
