//! TLS over a byte stream to a server.
//!
//! Owns whom we trust; must not know HTTP, beyond the name of the version that we speak.

use std::io;
use std::sync::Arc;

use rustls_native_certs::load_native_certs;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::OnceCell;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{
    self, ClientConfig, InvalidMessage, RootCertStore, crypto::ring::default_provider,
};

use crate::error::Error;

/// The roots of this system, read when the first connection is made, and the sessions that can be
/// taken up again.
pub(super) struct Tls(OnceCell<TlsConnector>);

/// # Errors
/// None; a build without TLS has one.
pub(super) fn check() -> Result<(), &'static str> {
    Ok(())
}

impl Tls {
    pub(super) fn new() -> Self {
        Self(OnceCell::new())
    }

    #[cfg(test)]
    pub(super) fn trusting(root: CertificateDer<'static>) -> Self {
        Self(OnceCell::new_with(Some(connector([root]).unwrap())))
    }

    /// Agrees on TLS with the server `name`, which is a host name or an IP address without brackets.
    ///
    /// # Errors
    /// [`Error::Transport`] says what about the other side, or about our roots, is not as it has to
    /// be.
    pub(super) async fn connect<S>(
        &self,
        name: &str,
        port: u16,
        stream: S,
    ) -> Result<TlsStream<S>, Error>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let connector = self.0.get_or_try_init(of_this_system).await?;
        let server = ServerName::try_from(name.to_owned()).map_err(|error| {
            Error::transport_by(format!("no certificate can be for the name {name}"), error)
        })?;
        let agreed = connector.connect(server, stream).await;
        agreed.map_err(|error| Error::transport_by(failure(name, port, &error), error))
    }
}

/// Reading the roots is file I/O and some parsing.
async fn of_this_system() -> Result<TlsConnector, Error> {
    let load = || {
        let found = load_native_certs();
        if found.certs.is_empty() {
            let why = found.errors.into_iter().next();
            let text = "no root certificates were found on this system; install them, or let \
                        SSL_CERT_FILE name a file of them in PEM";
            return Err(match why {
                Some(error) => Error::transport_by(text, error),
                None => Error::transport(text),
            });
        }
        connector(found.certs)
    };
    tokio::task::spawn_blocking(load)
        .await
        .unwrap_or_else(|error| {
            Err(Error::transport_by(
                "root certificates were not read",
                error,
            ))
        })
}

fn connector(
    roots: impl IntoIterator<Item = CertificateDer<'static>>,
) -> Result<TlsConnector, Error> {
    let mut store = RootCertStore::empty();
    // Systems have some that nobody can read any more.
    store.add_parsable_certificates(roots);
    let mut config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::transport_by("TLS could not be set up", error))?
        .with_root_certificates(store)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}

fn failure(name: &str, port: u16, error: &io::Error) -> String {
    let cause = error
        .get_ref()
        .and_then(|cause| cause.downcast_ref::<rustls::Error>());
    match cause {
        Some(rustls::Error::InvalidCertificate(_)) => format!(
            "the certificate of {name}:{port} is not trusted; if it is of an authority of your \
             own, let SSL_CERT_FILE name a file of the roots to trust"
        ),
        Some(rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType)) => {
            format!("{name}:{port} does not speak TLS; if it is meant so, write http://")
        }
        _ => format!("could not agree on TLS with {name}:{port}"),
    }
}
