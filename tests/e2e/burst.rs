//! As much data as possible at once: complete, in order, and without a wrong word about buffered bytes.

use livekit::{SendByteOptions, StreamReader, prelude::*};
use sotto_harness::{
    participant::Participant,
    server::{Server, new_room},
};

const PACKET: usize = 10_000;
const PACKETS: u32 = 2_000;

async fn pair() -> (Participant, Participant) {
    let server = Server::shared().await;
    let room = new_room();
    let mut anna = Participant::join(&server, &room, "anna").await;
    let mut boris = Participant::join(&server, &room, "boris").await;
    anna.meets("boris").await;
    boris.meets("anna").await;
    (anna, boris)
}

pub(crate) async fn twenty_megabytes_of_packets() {
    let (anna, mut boris) = pair().await;
    let packet = |number: u32| {
        let mut payload = number.to_be_bytes().to_vec();
        payload.resize(PACKET, number as u8);
        payload
    };
    let sending = async {
        for number in 0..PACKETS {
            anna.send(packet(number), "", true).await;
        }
    };
    let receiving = async {
        for number in 0..PACKETS {
            assert!(
                *boris.data().await.payload == packet(number),
                "packet {number} differs or is out of order"
            );
        }
    };
    tokio::join!(sending, receiving);
}

pub(crate) async fn twenty_megabytes_of_stream() {
    let (anna, mut boris) = pair().await;
    let content: Vec<u8> = (0..PACKETS * PACKET as u32).map(|index| (index ^ index >> 11) as u8).collect();
    let mut options = SendByteOptions::new_with_topic("bytes");
    options.compress = Some(false);
    let sending = anna.room.local_participant();
    let sending = sending.send_bytes(&content, options);
    let receiving = async {
        let reader = boris
            .event("a byte stream", |event| match event {
                RoomEvent::ByteStreamOpened { reader, .. } => reader.take(),
                _ => None,
            })
            .await;
        reader.read_all().await.expect("the stream is complete")
    };
    let (sent, received) = tokio::join!(sending, receiving);
    sent.expect("a connected participant can send");
    assert!(received == content, "the stream differs");
}
