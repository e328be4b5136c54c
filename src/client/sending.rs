//! What a client sends, one after the other: small envelopes as packets, large ones as byte streams, to everyone.

use super::ENVELOPE_TOPIC;
use livekit::prelude::DataPacket;
use livekit::{Room, SendByteOptions};
use std::sync::Arc;
use tokio::sync::mpsc;

/// Envelopes up to this size go as one packet, larger ones as a byte stream.
const LARGEST_PACKET: usize = 15_000;

/// Sends one after the other. What fails is sent again after the reconnect that follows, if it matters.
pub(super) async fn send_all(
    room: Arc<Room>,
    mut queue: mpsc::UnboundedReceiver<Vec<u8>>,
    topic: Option<String>,
) {
    while let Some(bytes) = queue.recv().await {
        let participant = room.local_participant();
        let sent = if bytes.len() <= LARGEST_PACKET {
            let packet =
                DataPacket { payload: bytes, topic: topic.clone(), reliable: true, ..DataPacket::default() };
            participant.publish_data(packet).await.map_err(|error| error.to_string())
        } else {
            let options = SendByteOptions::new_with_topic(ENVELOPE_TOPIC).with_compress(false);
            participant.send_bytes(bytes, options).await.map(drop).map_err(|error| error.to_string())
        };
        if let Err(error) = sent {
            tracing::warn!("a message could not be sent: {error}");
        }
    }
}
