//! A certificate authority of this test process alone, and the TLS-terminating proxy it signs for.
//!
//! The authority's certificate is given to the process as `SSL_CERT_FILE` before it starts, which is how an
//! operator would add a private one. Nothing else on the machine trusts it.

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};
use tokio_rustls::TlsAcceptor;

use crate::{isolation, server::Server};

const TRUSTED: &str = "Sotto test authority";

/// Who signed the proxy's certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignedBy {
    /// The authority in `SSL_CERT_FILE`.
    TrustedAuthority,
    /// One that nobody has heard of.
    Stranger,
}

/// Terminates TLS in front of a server, as a load balancer would.
pub struct TlsProxy {
    address: SocketAddr,
    accepting: JoinHandle<()>,
}

impl TlsProxy {
    /// Listens on a free port and forwards to `server`.
    pub async fn before(server: &Server, signed_by: SignedBy) -> Self {
        let acceptor = TlsAcceptor::from(Arc::new(tls_config(signed_by)));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has free ports");
        let address = listener.local_addr().expect("a bound listener has an address");
        let upstream = server.signal_address();
        let accepting = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    let Ok(mut client) = acceptor.accept(client).await else { return };
                    let Ok(mut server) = TcpStream::connect(upstream).await else { return };
                    // Either side may end it at any time; the tests judge what `livekit` makes of that.
                    let _ = copy_bidirectional(&mut client, &mut server).await;
                });
            }
        });
        Self { address, accepting }
    }

    /// Where participants connect.
    pub fn url(&self) -> String {
        format!("wss://{}", self.address)
    }
}

impl Drop for TlsProxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

pub(crate) fn certificate(directory: &Path) -> PathBuf {
    directory.join("authority.pem")
}

fn key(directory: &Path) -> PathBuf {
    directory.join("authority-key.pem")
}

pub(crate) fn create(directory: &Path) {
    fs::create_dir_all(directory).expect("the temporary directory is writable");
    let new_key = KeyPair::generate().expect("the system has randomness");
    let authority = authority_named(TRUSTED).self_signed(&new_key).expect("the parameters are complete");
    fs::write(certificate(directory), authority.pem()).expect("just created the directory");
    fs::write(key(directory), new_key.serialize_pem()).expect("just created the directory");
}

fn authority_named(name: &str) -> CertificateParams {
    let mut params = CertificateParams::new(Vec::new()).expect("no names to get wrong");
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params
}

fn tls_config(signed_by: SignedBy) -> rustls::ServerConfig {
    let leaf_key = KeyPair::generate().expect("the system has randomness");
    let leaf = CertificateParams::new(vec!["127.0.0.1".to_owned(), "localhost".to_owned()])
        .expect("both names are well-formed");
    let issuer = match signed_by {
        SignedBy::TrustedAuthority => {
            let pem = fs::read_to_string(key(&isolation::directory())).expect("create() wrote it");
            Issuer::new(authority_named(TRUSTED), KeyPair::from_pem(&pem).expect("create() wrote a key"))
        }
        SignedBy::Stranger => {
            let key = KeyPair::generate().expect("the system has randomness");
            Issuer::new(authority_named("A stranger"), key)
        }
    };
    let certificate = leaf.signed_by(&leaf_key, &issuer).expect("the parameters are complete");
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(leaf_key.serialize_der()));
    rustls::ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)
        .expect("the key belongs to the certificate")
}
