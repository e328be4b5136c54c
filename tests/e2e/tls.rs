//! Signalling over TLS: whom we trust. The private authority comes by `SSL_CERT_FILE`.

use livekit::prelude::*;
use sotto_harness::{
    PATIENCE,
    authority::{SignedBy, TlsProxy},
    server::{Server, new_room},
};
use tokio::time::timeout;

async fn join_through(proxy: &TlsProxy, server: &Server) -> RoomResult<Room> {
    let token = server.token(&new_room(), "anna");
    let mut options = RoomOptions::default();
    options.join_retries = 0;
    let joined = timeout(PATIENCE, Room::connect(&proxy.url(), &token, options)).await;
    Ok(joined.expect("joining ends")?.0)
}

pub(crate) async fn wss_with_a_private_authority() {
    let server = Server::shared().await;
    let proxy = TlsProxy::before(&server, SignedBy::TrustedAuthority).await;
    let room = join_through(&proxy, &server).await.expect("the authority is trusted");
    assert_eq!(room.connection_state(), ConnectionState::Connected);
    room.close().await.expect("a connected room can be left");
}

pub(crate) async fn wss_refuses_a_stranger() {
    let server = Server::shared().await;
    let proxy = TlsProxy::before(&server, SignedBy::Stranger).await;
    let refused = join_through(&proxy, &server).await.expect_err("nobody vouches for it");
    let text = format!("{refused:?}").to_lowercase();
    assert!(
        text.contains("certificate") || text.contains("issuer"),
        "refused for another reason: {refused:?}"
    );
}
