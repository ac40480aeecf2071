//! What a server proves itself with, and the beginning of a connection to it.

use std::fmt;
use std::future::poll_fn;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::server::Acceptor;
use tokio_rustls::rustls::{self, ServerConfig};
use tokio_rustls::server::TlsStream;

use super::HTTP_1_1;
use super::pem::{self, Pem};
use crate::error::{Error, Result};

/// The certificate that a server shows, and its private key. Given to `McpServerBuilder::tls`.
///
/// TLS 1.2 and 1.3 are spoken; clients are not asked for a certificate. Needs the feature `tls`.
/// Cheap to clone; clones are the same certificate, also after it was [renewed](Self::renew). The key is in no output of `Debug` and in no error.
///
/// ```no_run
/// # async fn f(server: agent_hub_kit::McpServerBuilder) -> agent_hub_kit::Result<()> {
/// use agent_hub_kit::ServerTls;
///
/// let tls = ServerTls::from_pem_files("/etc/agents/cert.pem", "/etc/agents/key.pem")?;
/// server.tls(tls).build().serve_http("0.0.0.0:8443").await
/// # }
/// ```
///
/// To try it, a certificate for this machine that has signed itself:
///
/// ```sh
/// openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 \
///   -keyout key.pem -out cert.pem -subj /CN=my-app \
///   -addext subjectAltName=DNS:localhost,IP:127.0.0.1 -addext basicConstraints=critical,CA:FALSE
/// ```
///
/// Without the last words it is that of an authority, which clients refuse as a server's. A hub trusts it
/// by `RootCertificates::from_pem_file("cert.pem")`, and the command `agent-hub` by
/// `SSL_CERT_FILE=cert.pem`.
#[derive(Clone)]
pub struct ServerTls(Arc<Mutex<Arc<ServerConfig>>>);

impl ServerTls {
    /// Takes the certificate and its key as texts in PEM. The server's own certificate comes first,
    /// then those that lead from it to a root, as authorities hand them out. The key is in PKCS#8,
    /// PKCS#1 or SEC1, and not encrypted.
    ///
    /// ```
    /// let error = agent_hub_kit::ServerTls::from_pem("nothing", "nothing").unwrap_err();
    /// assert!(error.to_string().contains("there is no certificate"));
    /// ```
    ///
    /// # Errors
    /// [`Error::Config`] if one of them is not there or cannot be used, or if the key is that of
    /// another certificate.
    pub fn from_pem(certificates: impl AsRef<[u8]>, key: impl AsRef<[u8]>) -> Result<Self> {
        let certificates = Pem {
            text: certificates.as_ref(),
            name: "the PEM text of the certificates",
        };
        let key = Pem {
            text: key.as_ref(),
            name: "the PEM text of the key",
        };
        Self::new(&certificates, &key)
    }

    /// As [`from_pem`](Self::from_pem), from files, which may be one and the same. They are read
    /// once, now; [`renew`](Self::renew) takes what has become of them later.
    ///
    /// ```
    /// let error = agent_hub_kit::ServerTls::from_pem_files("/no/cert", "/no/key").unwrap_err();
    /// assert!(error.to_string().contains("/no/cert"));
    /// ```
    ///
    /// # Errors
    /// Those of [`from_pem`](Self::from_pem), and [`Error::Config`] if a file cannot be read. They
    /// name the file.
    pub fn from_pem_files(certificates: impl AsRef<Path>, key: impl AsRef<Path>) -> Result<Self> {
        let (certificates, key) = (certificates.as_ref(), key.as_ref());
        let certificates = (pem::read(certificates)?, pem::named(certificates));
        let key = (pem::read(key)?, pem::named(key));
        let pem = |(text, name)| Pem { text, name };
        Self::new(
            &pem((&certificates.0, &certificates.1)),
            &pem((&key.0, &key.1)),
        )
    }

    /// Shows another certificate from now on, in every server that was given this value or a clone of
    /// it. Connections that are open go on with the one they began with.
    ///
    /// ```no_run
    /// # fn f(tls: agent_hub_kit::ServerTls) -> agent_hub_kit::Result<()> {
    /// use agent_hub_kit::ServerTls;
    ///
    /// // Once a day, say. If that fails, the one before stays.
    /// tls.renew(&ServerTls::from_pem_files("/etc/agents/cert.pem", "/etc/agents/key.pem")?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn renew(&self, by: &Self) {
        // One after the other: they may be the same.
        let newer = by.config().clone();
        *self.config() = newer;
    }

    fn config(&self) -> MutexGuard<'_, Arc<ServerConfig>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn new(certificates: &Pem<'_>, key: &Pem<'_>) -> Result<Self> {
        let (chain, secret) = (certificates.certificates()?, key.key()?);
        let unfit = |error| {
            let (certificates, key) = (certificates.name, key.name);
            Error::config(match error {
                rustls::Error::InconsistentKeys(_) => format!(
                    "the private key in {key} is not that of the first certificate in \
                     {certificates}; the server's own certificate has to come first"
                ),
                error => format!(
                    "the certificate in {certificates} and the key in {key} cannot be used: {error}"
                ),
            })
        };
        let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(unfit)?
            .with_no_client_auth()
            .with_single_cert(chain, secret)
            .map_err(unfit)?;
        config.alpn_protocols = vec![HTTP_1_1.to_vec()];
        Ok(Self(Arc::new(Mutex::new(Arc::new(config)))))
    }

    /// Agrees on TLS with a client; not bounded in time.
    ///
    /// # Errors
    /// Gives the stream back, without its first byte, if the client speaks in letters; `None` for
    /// whatever else is no TLS that can be agreed on.
    ///
    /// # Cancel safety
    /// Dropping the future closes the stream.
    pub(crate) async fn accept<S>(&self, mut stream: S) -> Result<TlsStream<S>, Option<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let mut first = [0];
        let read = poll_fn(|cx| {
            let mut buf = ReadBuf::new(&mut first);
            Pin::new(&mut stream).poll_read(cx, &mut buf)
        });
        read.await.map_err(|_| None)?;
        if first[0].is_ascii_alphabetic() {
            return Err(Some(stream));
        }
        let mut acceptor = Acceptor::default();
        acceptor.read_tls(&mut &first[..]).map_err(|_| None)?;
        let hello = LazyConfigAcceptor::new(acceptor, stream)
            .await
            .map_err(|_| None)?;
        let config = self.config().clone();
        hello.into_stream(config).await.map_err(|_| None)
    }
}

impl fmt::Debug for ServerTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerTls").finish_non_exhaustive()
    }
}
