//! Whom a model's client trusts.

use super::openai::OpenAiLlmBuilder;
use crate::transport::tls::RootCertificates;

impl OpenAiLlmBuilder {
    /// Trusts further authorities for `https`, beside those of the system; given again, those as
    /// well. Needs the feature `tls`.
    ///
    /// ```
    /// # fn f(pem: &str) -> agent_hub_kit::Result<()> {
    /// use agent_hub_kit::{OpenAiLlm, RootCertificates};
    ///
    /// let roots = RootCertificates::from_pem(pem)?;
    /// let model = OpenAiLlm::builder("https://models.example/v1", "some-model")
    ///     .extra_roots(&roots)
    ///     .build()?;
    /// # let _ = model;
    /// # Ok(())
    /// # }
    /// ```
    pub fn extra_roots(mut self, roots: &RootCertificates) -> Self {
        self.trust = self.trust.with(roots);
        self
    }
}
