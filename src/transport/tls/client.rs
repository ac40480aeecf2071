//! The beginning of a connection to a server, and whom to trust there.

use std::fmt;
use std::io;
use std::sync::Arc;

use rustls_native_certs::load_native_certs;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::OnceCell;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{
    self, CertificateError, ClientConfig, InvalidMessage, RootCertStore,
    crypto::ring::default_provider,
};

use super::{HTTP_1_1, RootCertificates};
use crate::error::Error;

/// Whom a client trusts: the roots of this system, read when the first connection is made, and those
/// that were given. Clones share them, and the TLS sessions that can be taken up again.
#[derive(Clone, Default)]
pub(crate) struct Trust(Arc<Shared>);

#[derive(Default)]
struct Shared {
    extra: Vec<CertificateDer<'static>>,
    connector: OnceCell<TlsConnector>,
}

/// # Errors
/// None; a build without TLS has one.
pub(crate) fn check() -> Result<(), &'static str> {
    Ok(())
}

impl Trust {
    /// Trusts these as well. Whoever shares it so far does not.
    pub(crate) fn with(self, roots: &RootCertificates) -> Self {
        let known = self.0.extra.iter().cloned();
        Self(Arc::new(Shared {
            extra: known.chain(roots.certificates()).collect(),
            connector: OnceCell::new(),
        }))
    }

    #[cfg(test)]
    pub(in super::super) fn only(roots: &RootCertificates) -> Self {
        Self(Arc::new(Shared {
            extra: Vec::new(),
            connector: OnceCell::new_with(Some(connector(roots.certificates()).unwrap())),
        }))
    }

    /// Agrees on TLS with the server `name`, which is a host name or an IP address without brackets.
    ///
    /// # Errors
    /// [`Error::Transport`] says what about the other side, or about our roots, is not as it has to
    /// be.
    pub(crate) async fn connect<S>(
        &self,
        name: &str,
        port: u16,
        stream: S,
    ) -> Result<TlsStream<S>, Error>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let Shared { extra, connector } = &*self.0;
        let connector = connector.get_or_try_init(|| with_those_of_this_system(extra));
        let connector = connector.await?;
        let server = ServerName::try_from(name.to_owned()).map_err(|error| {
            Error::transport_by(format!("no certificate can be for the name {name}"), error)
        })?;
        let agreed = connector.connect(server, stream).await;
        agreed.map_err(|error| Error::transport_by(failure(name, port, &error), error))
    }
}

/// Reading the roots is file I/O and some parsing.
async fn with_those_of_this_system(
    extra: &[CertificateDer<'static>],
) -> Result<TlsConnector, Error> {
    let mut roots = extra.to_vec();
    let load = || {
        let found = load_native_certs();
        roots.extend(found.certs);
        if roots.is_empty() {
            let why = found.errors.into_iter().next();
            let text = "no root certificates were found on this system; install them, or let \
                        SSL_CERT_FILE name a file of them in PEM";
            return Err(match why {
                Some(error) => Error::transport_by(text, error),
                None => Error::transport(text),
            });
        }
        connector(roots)
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
    config.alpn_protocols = vec![HTTP_1_1.to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}

fn failure(name: &str, port: u16, error: &io::Error) -> String {
    let cause = error
        .get_ref()
        .and_then(|cause| cause.downcast_ref::<rustls::Error>());
    match cause {
        Some(rustls::Error::InvalidCertificate(fault)) => {
            format!("the certificate of {name}:{port} {}", advice(fault))
        }
        Some(rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType)) => {
            format!("{name}:{port} does not speak TLS; if it is meant so, write http://")
        }
        _ => format!("could not agree on TLS with {name}:{port}"),
    }
}

/// What is wrong with a certificate, and what to do.
fn advice(fault: &CertificateError) -> &'static str {
    use CertificateError::{
        BadSignature, Expired, ExpiredContext, NotValidForName, NotValidForNameContext,
        NotValidYet, NotValidYetContext, Other, UnknownIssuer,
        UnsupportedSignatureAlgorithmForPublicKeyContext,
    };
    match fault {
        NotValidForNameContext { presented, .. } if presented.is_empty() => {
            "is for no name: it has to hold its names as subjectAltName"
        }
        NotValidForName | NotValidForNameContext { .. } => "is for other names; check the URL",
        Expired | ExpiredContext { .. } => {
            "is out of date: it has expired, or the clock of this machine is wrong"
        }
        NotValidYet | NotValidYetContext { .. } => {
            "is out of date: it is not valid yet, or the clock of this machine is wrong"
        }
        // The others are of one that has the name of an authority that is trusted, as a certificate
        // that was made anew has: with a key of the same kind, and of another.
        UnknownIssuer | BadSignature | UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => {
            "is not trusted; if it is of an authority of your own, trust its root by \
             `extra_roots`, or let SSL_CERT_FILE name a file of all roots to trust"
        }
        // webpki has its own error for it, which rustls has no name for.
        Other(other) if other.to_string().contains("CaUsedAsEndEntity") => {
            "is that of an authority, which no server may show: issue one for the server with \
             basicConstraints CA:FALSE"
        }
        _ => "is not accepted",
    }
}

impl fmt::Debug for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trust")
            .field("extra", &self.0.extra.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{
        BasicConstraints, CertificateParams, CertifiedKey, DnType, IsCa, KeyPair, date_time_ymd,
    };
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
    use tokio_rustls::TlsAcceptor;
    use tokio_rustls::rustls::ServerConfig;
    use tokio_rustls::rustls::pki_types::PrivateKeyDer;

    use super::*;

    fn certified(subject: &str, names: &[&str]) -> CertifiedKey<KeyPair> {
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name.push(DnType::CommonName, subject);
        let signing_key = KeyPair::generate().unwrap();
        let cert = params.self_signed(&signing_key).unwrap();
        CertifiedKey { cert, signing_key }
    }

    fn roots(certified: &CertifiedKey<KeyPair>) -> RootCertificates {
        RootCertificates::from_pem(certified.cert.pem()).unwrap()
    }

    /// Accepts one connection as who `certified` is, and answers with the protocol and an echo.
    async fn serve(certified: &CertifiedKey<KeyPair>, stream: DuplexStream) -> io::Result<()> {
        let key = PrivateKeyDer::try_from(certified.signing_key.serialize_der()).unwrap();
        let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certified.cert.der().clone()], key)
            .unwrap();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let mut stream = TlsAcceptor::from(Arc::new(config)).accept(stream).await?;
        let agreed = stream
            .get_ref()
            .1
            .alpn_protocol()
            .unwrap_or_default()
            .to_vec();
        stream.write_all(&agreed).await?;
        stream.shutdown().await
    }

    #[tokio::test]
    async fn a_trusted_server_is_spoken_to_in_http_1_1() {
        for name in ["localhost", "127.0.0.1", "::1"] {
            let server = certified("server", &["localhost", "127.0.0.1", "::1"]);
            let tls = Trust::only(&roots(&server));
            let (ours, theirs) = duplex(64 * 1024);
            let asked = async {
                let mut stream = tls.connect(name, 443, ours).await.unwrap();
                let mut text = String::new();
                stream.read_to_string(&mut text).await.unwrap();
                text
            };
            let (text, served) = tokio::join!(asked, serve(&server, theirs));
            served.unwrap();
            assert_eq!(text, "http/1.1", "{name}");
        }
    }

    #[tokio::test]
    async fn a_server_that_is_not_who_it_should_be_is_refused() {
        let server = certified("server", &["localhost"]);
        let other = certified("other", &["localhost"]);
        let dated = |year| {
            let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
            params.not_before = date_time_ymd(year, 1, 1);
            params.not_after = date_time_ymd(year + 1, 1, 1);
            let signing_key = KeyPair::generate().unwrap();
            let cert = params.self_signed(&signing_key).unwrap();
            CertifiedKey { cert, signing_key }
        };
        let (old, early) = (dated(1990), dated(4000));
        let authority = {
            let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            let signing_key = KeyPair::generate().unwrap();
            let cert = params.self_signed(&signing_key).unwrap();
            CertifiedKey { cert, signing_key }
        };
        let nameless = certified("localhost", &[]);
        let anew = {
            let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
            params.distinguished_name.push(DnType::CommonName, "server");
            let signing_key = KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap();
            let cert = params.self_signed(&signing_key).unwrap();
            CertifiedKey { cert, signing_key }
        };
        let (own, names, date) = ("SSL_CERT_FILE", "check the URL", "out of date");
        // who answers, root, name, part of the text, part of the cause
        let table = [
            (&server, &other, "localhost", own, "UnknownIssuer"),
            (&anew, &server, "localhost", own, "UnsupportedSignature"),
            (&server, &server, "example.org", names, "not valid for name"),
            (&server, &server, "127.0.0.1", names, "not valid for name"),
            (&old, &old, "localhost", date, "expired"),
            (&early, &early, "localhost", date, "not valid yet"),
            (
                &authority,
                &authority,
                "localhost",
                "CA:FALSE",
                "CaUsedAsEndEntity",
            ),
            (
                &nameless,
                &nameless,
                "localhost",
                "subjectAltName",
                "not valid for name",
            ),
        ];
        for (server, root, name, advice, part) in table {
            let tls = Trust::only(&roots(root));
            let (ours, theirs) = duplex(64 * 1024);
            let (agreed, _) = tokio::join!(tls.connect(name, 443, ours), serve(server, theirs));
            let error = agreed.unwrap_err();
            let text = error.to_string();
            assert!(
                text.contains(&format!("the certificate of {name}:443")),
                "{text}"
            );
            assert!(text.contains(advice), "{text}");
            let cause = std::error::Error::source(&error).unwrap().to_string();
            assert!(cause.contains(part), "{cause}");
        }
    }

    #[tokio::test]
    async fn roots_are_read_once_for_all_who_share_them() {
        let server = certified("server", &["localhost"]);
        let trust = Trust::default().with(&roots(&server));
        let shared = trust.clone();
        let (ours, theirs) = duplex(64 * 1024);
        let (agreed, _) = tokio::join!(
            trust.connect("localhost", 443, ours),
            serve(&server, theirs)
        );
        agreed.unwrap();
        assert!(shared.0.connector.initialized());
        let more = shared.with(&roots(&certified("other", &["h"])));
        assert!(!more.0.connector.initialized(), "others are trusted there");
        assert_eq!((trust.0.extra.len(), more.0.extra.len()), (1, 2));
    }

    #[tokio::test]
    async fn what_is_no_tls_is_named() {
        let tls = Trust::only(&roots(&certified("server", &["h"])));
        // what the other side says, part of the text
        let table = [
            ("HTTP/1.1 400 Bad Request\r\n\r\n", "does not speak TLS"),
            ("", "could not agree on TLS with h:443"),
        ];
        for (says, part) in table {
            let (ours, mut theirs) = duplex(64 * 1024);
            let peer = async {
                theirs.write_all(says.as_bytes()).await.unwrap();
                theirs.shutdown().await.unwrap();
            };
            let (agreed, ()) = tokio::join!(tls.connect("h", 443, ours), peer);
            let text = agreed.unwrap_err().to_string();
            assert!(text.contains(part), "{text}");
        }
        let text = tls.connect("a b", 443, duplex(1).0).await.unwrap_err();
        assert!(
            text.to_string().contains("no certificate can be for"),
            "{text}"
        );
    }
}
