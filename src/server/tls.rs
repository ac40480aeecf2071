//! Serving by TLS.

use super::builder::McpServerBuilder;
use crate::transport::tls::ServerTls;

impl McpServerBuilder {
    /// Serves by TLS, and by nothing else: over [`bind`](crate::McpServer::bind),
    /// [`serve_http`](crate::McpServer::serve_http) and
    /// [`serve_listener`](crate::McpServer::serve_listener). A client that comes without is told so.
    /// Agreeing on it has to be done within
    /// [`Limits::tls_handshake_timeout`](crate::Limits::tls_handshake_timeout). Needs the feature
    /// `tls`.
    ///
    /// Which names may be asked for is the same as without; see
    /// [`allowed_hosts`](Self::allowed_hosts). A service that is mounted into another server
    /// ([`into_service`](crate::McpServer::into_service)) leaves TLS to that one.
    ///
    /// ```no_run
    /// # async fn f() -> agent_hub_kit::Result<()> {
    /// use agent_hub_kit::{McpServer, ServerTls};
    ///
    /// let tls = ServerTls::from_pem_files("cert.pem", "key.pem")?;
    /// let server = McpServer::builder("my-app", "0.1.0").tls(tls).build();
    /// let bound = server.bind("127.0.0.1:0").await?;
    /// assert!(bound.url().starts_with("https://127.0.0.1:"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn tls(mut self, tls: ServerTls) -> Self {
        self.settings.tls = Some(tls);
        self
    }
}
