//! Encrypted connections: whose cryptography does the work, and whom we trust. One answer for the whole process.
//!
//! **Provider.** Two providers are compiled in: `livekit` brings ring, str0m brings aws-lc-rs. With both there and none
//! chosen, rustls panics at the first connection, so [`choose_provider`] comes first in every command. It chooses
//! aws-lc-rs, which does DTLS as well. (The HTTP client inside `livekit-api` insists on ring whatever is chosen.)
//!
//! **Trust.** A certificate is good if it leads to
//! - a root of Mozilla's list that is compiled in (so a container without `ca-certificates` works), or
//! - a root of the platform's store; where `SSL_CERT_FILE` or `SSL_CERT_DIR` is set, the roots found there stand in for
//!   the platform's store, as with OpenSSL.
//!
//! [`client_config`] and [`http_client`] follow this rule for all that is ours. `livekit`, with both of its root features
//! on, follows the same rule for signalling, for its region requests and for the server API, with one exception: when
//! `wss://` goes through `HTTPS_PROXY` it takes the platform's store (or `SSL_CERT_FILE`) alone, without the list that is
//! compiled in. It also sends signalling through `HTTP_PROXY`/`HTTPS_PROXY` without regard to `NO_PROXY`.
//!
//! Media does not come here: DTLS in a room is checked by the fingerprint that came over signalling.
//! This module never turns verification off.

use rustls::crypto::aws_lc_rs;
use rustls::{ClientConfig, RootCertStore};
use std::sync::Arc;

/// Chooses rustls's provider for the process. Call it before the first connection; calling it again does no harm.
pub fn choose_provider() {
    // The error only says that a provider was chosen before, by us or by a program that embeds us.
    let _ = aws_lc_rs::default_provider().install_default();
}

/// TLS for connections we make, with the trust rule above. Reads the platform's store each time, so make one and share.
pub fn client_config() -> ClientConfig {
    let mut roots = RootCertStore::empty();
    roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    let platform = rustls_native_certs::load_native_certs();
    for error in &platform.errors {
        tracing::warn!("a part of the platform's certificates (or of SSL_CERT_FILE) cannot be read: {error}");
    }
    let (_, unusable) = roots.add_parsable_certificates(platform.certs);
    if unusable > 0 {
        tracing::debug!("{unusable} of the platform's certificates cannot be used as roots");
    }
    ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("aws-lc-rs implements the cipher suites of TLS 1.2 and 1.3")
        .with_root_certificates(roots)
        .with_no_client_auth()
}

/// An HTTP client with the trust rule above. It holds a pool of connections: make one and clone it.
pub fn http_client() -> Result<reqwest::Client, reqwest::Error> {
    reqwest::Client::builder().tls_backend_preconfigured(client_config()).build()
}

#[cfg(test)]
mod tests;
