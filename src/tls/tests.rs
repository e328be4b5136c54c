//! The trust rule, seen from the other side: a server with a certificate from an authority nobody knows, and every
//! kind of client in a process of its own, because `SSL_CERT_FILE` is a matter of the whole process.

use super::*;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::AlertDescription;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::process::Command;
use tokio_rustls::TlsAcceptor;

/// Set in the client's process: the port of the server.
const PORT: &str = "SOTTO_TEST_TLS_PORT";

enum Client {
    OurHttp,
    Signalling,
    ServerApi,
}

#[test]
fn choosing_the_provider_twice_is_harmless() {
    choose_provider();
    choose_provider();
    // Panics where two providers are compiled in and none is chosen.
    let _ = ClientConfig::builder();
}

#[tokio::test]
async fn our_http_client_trusts_what_ssl_cert_file_names_and_nobody_unknown() {
    assert_trust(
        Client::OurHttp,
        "tls::tests::our_http_client_trusts_what_ssl_cert_file_names_and_nobody_unknown",
    )
    .await;
}

#[tokio::test]
async fn signalling_trusts_what_ssl_cert_file_names_and_nobody_unknown() {
    assert_trust(
        Client::Signalling,
        "tls::tests::signalling_trusts_what_ssl_cert_file_names_and_nobody_unknown",
    )
    .await;
}

#[tokio::test]
async fn the_server_api_trusts_what_ssl_cert_file_names_and_nobody_unknown() {
    assert_trust(
        Client::ServerApi,
        "tls::tests::the_server_api_trusts_what_ssl_cert_file_names_and_nobody_unknown",
    )
    .await;
}

/// A server nobody knows is refused, and accepted as soon as `SSL_CERT_FILE` names its authority.
///
/// The client is this test once more, by its name, in a process of its own.
async fn assert_trust(client: Client, test: &str) {
    if let Ok(port) = std::env::var(PORT) {
        return connect(client, &port).await;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let authority_file = directory.path().join("authority.pem");
    let acceptor = unknown_authority(&authority_file);
    let refused = handshake(&acceptor, test, None).await.expect_err("accepted a certificate from nowhere");
    let alert = refused.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    assert_eq!(alert, Some(&rustls::Error::AlertReceived(AlertDescription::UnknownCA)), "{refused}");
    handshake(&acceptor, test, Some(&authority_file)).await.expect("SSL_CERT_FILE names the authority");
}

/// What comes after the handshake is of no interest: the server hangs up.
async fn connect(client: Client, port: &str) {
    choose_provider();
    match client {
        Client::OurHttp => {
            let client = http_client().expect("a client");
            let _ = client.get(format!("https://localhost:{port}/")).send().await;
        }
        Client::Signalling => {
            let url = format!("wss://localhost:{port}");
            let _ = livekit::Room::connect(&url, "token", livekit::RoomOptions::default()).await;
        }
        Client::ServerApi => {
            let url = format!("https://localhost:{port}");
            let rooms = livekit_api::services::room::RoomClient::with_api_key(&url, "key", "secret");
            let _ = rooms.list_rooms(Vec::new()).await;
        }
    }
}

/// A server for `localhost` whose authority is written to `authority_file` and known to nobody.
fn unknown_authority(authority_file: &Path) -> TlsAcceptor {
    let mut authority = CertificateParams::new(Vec::new()).expect("no names to be wrong");
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority =
        CertifiedIssuer::self_signed(authority, KeyPair::generate().expect("a key")).expect("an authority");
    std::fs::write(authority_file, authority.pem()).expect("the authority's file");

    let key = KeyPair::generate().expect("a key");
    let certificate = CertificateParams::new(vec!["localhost".into()])
        .and_then(|server| server.signed_by(&key, &authority))
        .expect("a certificate");
    let config = rustls::ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("the default versions")
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key.into())
        .expect("a certificate and its key");
    TlsAcceptor::from(Arc::new(config))
}

/// Starts a client process against a fresh port and says how the handshake went.
async fn handshake(acceptor: &TlsAcceptor, test: &str, authority_file: Option<&Path>) -> std::io::Result<()> {
    let listener = TcpListener::bind("localhost:0").await.expect("a port");
    let port = listener.local_addr().expect("its address").port();
    let mut command = Command::new(std::env::current_exe().expect("this test binary"));
    command.args(["--exact", test]).env(PORT, port.to_string()).stdout(Stdio::null()).kill_on_drop(true);
    for variable in ["SSL_CERT_FILE", "SSL_CERT_DIR", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"]
    {
        command.env_remove(variable);
    }
    if let Some(file) = authority_file {
        command.env("SSL_CERT_FILE", file);
    }
    let _client = command.spawn().expect("the client process");

    let (connection, _) = tokio::time::timeout(Duration::from_secs(60), listener.accept())
        .await
        .expect("the client never came")
        .expect("a connection");
    // In TLS 1.3 the server is done only when the client has accepted its certificate.
    acceptor.accept(connection).await.map(|_| ())
}
