//! What is said, both ways: envelopes of all sizes, chat, transcription.

use livekit::{SendTextOptions, StreamReader, StreamTextOptions, StreamWriter};
use serde_json::json;
use sotto::ports::{RoomCommand, RoomEvent};
use sotto_core::engine::event::{Recipients, Transcript};
use sotto_harness::{
    participant::Participant,
    peer::{Peer, sha256, stream_content},
    server::{Server, new_room},
};

use super::{AGENT, Agent, packet};

const MEGABYTE: usize = 1_000_000;

pub(crate) async fn a_megabyte_both_ways() {
    let server = Server::shared().await;
    let room = new_room();
    let mut agent = Agent::join(&server, &room).await;
    let mut python = Peer::join(&server, &room, "python").await;
    let mut anna = Participant::join(&server, &room, "anna").await;
    anna.meets(AGENT).await;
    agent.meets("python").await;

    // Compressed by its sender, if the SDK thinks that all can read it.
    let content = stream_content(MEGABYTE, 8);
    python
        .call("send_stream", json!({"kind": "bytes", "length": MEGABYTE, "seed": 8, "topic": "envelope"}))
        .await;
    agent.happens(packet("python", content)).await;
    let noise = noise(MEGABYTE);
    let options = livekit::SendByteOptions::new_with_topic("envelope");
    anna.room.local_participant().send_bytes(&noise, options).await.expect("anna is connected");
    agent.happens(packet("anna", noise.clone())).await;

    let content = stream_content(MEGABYTE, 9);
    agent.sends(content.clone()).await;
    let stream = python.event("stream", |event| event["topic"] == "envelope" && event["from"] == AGENT).await;
    assert_eq!(stream["sha256"], sha256(content.as_bytes()));
    assert!(envelope(&mut anna).await == content.as_bytes());
}

/// Nothing that deflate could make smaller.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x2545_F491_4F6C_DD1D_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..length).map(|_| next()).collect()
}

async fn envelope(reader: &mut Participant) -> Vec<u8> {
    let stream = reader.event("an envelope", |event| match event {
        livekit::RoomEvent::ByteStreamOpened { reader, topic, participant_identity }
            if topic == "envelope" && participant_identity.as_str() == AGENT =>
        {
            reader.take()
        }
        _ => None,
    });
    stream.await.read_all().await.expect("the stream is complete").to_vec()
}

/// The border between packet and stream, and the order of what goes on either side of it.
pub(crate) async fn packets_and_streams_keep_their_order() {
    let server = Server::shared().await;
    let room = new_room();
    let agent = Agent::join(&server, &room).await;
    let mut anna = Participant::join(&server, &room, "anna").await;
    anna.meets(AGENT).await;
    for length in [15_000, 15_001, 1, 40_000, 2] {
        agent.sends(vec![7; length]).await;
    }
    let mut order = Vec::new();
    while order.len() < 5 {
        let seen = anna.event("a packet or a stream", |event| match event {
            livekit::RoomEvent::DataReceived { payload, .. } => Some(payload.len()),
            #[allow(deprecated)] // What else tells the order on the wire?
            livekit::RoomEvent::StreamHeaderReceived { header, .. } => {
                header.total_length.map(|length| length as usize)
            }
            _ => None,
        });
        order.push(seen.await);
    }
    assert_eq!(order, [15_000, 15_001, 1, 40_000, 2]);
}

/// The same the other way round: what follows a stream is heard after it, and any number may follow each other.
pub(crate) async fn what_was_begun_first_is_heard_first() {
    let server = Server::shared().await;
    let room = new_room();
    let mut agent = Agent::join(&server, &room).await;
    let mut anna = Participant::join(&server, &room, "anna").await;
    anna.meets(AGENT).await;
    agent.meets("anna").await;
    let speaker = anna.room.local_participant();
    for round in 0..20_u8 {
        let large = noise(20_000 + usize::from(round));
        let options = livekit::SendByteOptions::new_with_topic("envelope");
        speaker.send_bytes(&large, options).await.expect("anna is connected");
        if round % 2 == 0 {
            anna.send(vec![round], "", true).await;
        }
    }
    for round in 0..20_u8 {
        match agent.next().await {
            RoomEvent::Packet { bytes, .. } => assert_eq!(bytes.len(), 20_000 + usize::from(round)),
            other => panic!("unexpected: {other:?}"),
        }
        if round % 2 == 0 {
            assert_eq!(agent.next().await, packet("anna", [round]));
        }
    }
    assert_eq!(agent.counts.refused_streams.get(), 0);
}

pub(crate) async fn only_those_meant_get_it() {
    let server = Server::shared().await;
    let room = new_room();
    let agent = Agent::join(&server, &room).await;
    let mut anna = Participant::join(&server, &room, "anna").await;
    let mut boris = Participant::join(&server, &room, "boris").await;
    for participant in [&mut anna, &mut boris] {
        participant.meets(AGENT).await;
    }
    for length in [100, 20_000] {
        let to = Recipients::Only(vec!["anna".to_owned()]);
        agent.does(RoomCommand::Send { to, bytes: vec![1; length] }).await;
    }
    let nobody = Recipients::Only(Vec::new());
    agent.does(RoomCommand::Send { to: nobody, bytes: b"for nobody".to_vec() }).await;
    agent.sends("for all").await;
    assert_eq!(anna.data().await.payload.len(), 100);
    assert_eq!(envelope(&mut anna).await.len(), 20_000);
    assert_eq!(anna.data().await.payload.as_slice(), b"for all");
    assert_eq!(boris.data().await.payload.as_slice(), b"for all");
    assert!(!boris.has_seen(|event| matches!(event, livekit::RoomEvent::ByteStreamOpened { .. })));
}

pub(crate) async fn chat_of_all_kinds_is_heard() {
    let server = Server::shared().await;
    let room = new_room();
    let mut agent = Agent::join(&server, &room).await;
    let mut python = Peer::join(&server, &room, "python").await;
    let mut anna = Participant::join(&server, &room, "anna").await;
    anna.meets(AGENT).await;
    agent.meets("anna").await;

    let text = "Wie weit ist es von hier bis zum Mond? ".repeat(20);
    let sent = python.call("send_text", json!({"text": text, "topic": "lk.chat"})).await;
    let id = sent["id"].as_str().expect("a stream has an id");
    agent.happens(chat("python", id, &text)).await;

    let speaker = anna.room.local_participant();
    let options = StreamTextOptions::new_with_topic("lk.chat").with_id("by pieces");
    let writer = speaker.stream_text(options).await.expect("anna is connected");
    for piece in ["Wie ", "weit", "?"] {
        writer.write(piece).await.expect("anna is connected");
    }
    writer.close().await.expect("anna is connected");
    agent.happens(chat("anna", "by pieces", "Wie weit?")).await;

    let options = SendTextOptions::new_with_topic("lk-chat-topic").with_id("old topic");
    speaker.send_text("still heard", options).await.expect("anna is connected");
    agent.happens(chat("anna", "old topic", "still heard")).await;

    let sent =
        speaker.send_chat_message("older still".to_owned(), None, None).await.expect("anna is connected");
    agent.happens(chat("anna", &sent.id, "older still")).await;

    // What LiveKit's components send beside a stream, and to servers that know no streams.
    for legacy in [
        json!({"id": "1", "timestamp": 1, "message": "also as a stream", "ignoreLegacy": true}),
        json!({"id": "2", "timestamp": 2, "message": "only so"}),
    ] {
        anna.send(legacy.to_string().into_bytes(), "lk-chat-topic", true).await;
    }
    agent.happens(chat("anna", "2", "only so")).await;
    assert!(
        !agent
            .unclaimed
            .iter()
            .any(|event| matches!(event, RoomEvent::Chat { .. } | RoomEvent::Packet { .. }))
    );
}

fn chat(from: &str, id: &str, text: &str) -> RoomEvent {
    RoomEvent::Chat { from: from.to_owned(), id: id.to_owned(), text: text.to_owned() }
}

pub(crate) async fn stock_clients_read_the_transcript() {
    let server = Server::shared().await;
    let room = new_room();
    let mut python = Peer::join(&server, &room, "python").await;
    let agent = Agent::join(&server, &room).await;
    let words: Vec<String> = (0..200).map(|number| format!("Wort {number}, äöü. ")).collect();
    for segment in ["one", "two"] {
        let id = segment.to_owned();
        agent.does(RoomCommand::Transcript(Transcript::Begin { segment: id.clone() })).await;
        // The SDK adds the closing attributes as soon as they come, so it is asked before there are any.
        let begun = python.event("transcription_begins", |_| true).await;
        assert_eq!(begun["from"], AGENT);
        let opening = json!({"lk.segment_id": segment, "lk.transcription_final": "false"});
        assert_eq!(begun["attributes"], opening);
        for text in words.clone() {
            agent.does(RoomCommand::Transcript(Transcript::Delta { segment: id.clone(), text })).await;
        }
        agent.does(RoomCommand::Transcript(Transcript::End { segment: id })).await;
        let read = python.event("transcription", |_| true).await;
        assert_eq!(read["text"], words.concat());
        let closing = json!({"lk.segment_id": segment, "lk.transcription_final": "true"});
        assert_eq!(read["attributes"], closing);
    }
    assert_eq!(agent.counts.failed_transcripts.get(), 0);
}

/// Each piece is on its way before the next one is known.
pub(crate) async fn the_transcript_is_live() {
    let server = Server::shared().await;
    let room = new_room();
    let agent = Agent::join(&server, &room).await;
    let mut anna = Participant::join(&server, &room, "anna").await;
    anna.meets(AGENT).await;
    let segment = "live".to_owned();
    agent.does(RoomCommand::Transcript(Transcript::Begin { segment: segment.clone() })).await;
    let reader = anna.event("a transcript", |event| match event {
        livekit::RoomEvent::TextStreamOpened { reader, topic, .. } if topic == "lk.transcription" => {
            reader.take()
        }
        _ => None,
    });
    let mut reader = reader.await;
    for text in ["Guten", " Morgen"] {
        let segment = segment.clone();
        agent.does(RoomCommand::Transcript(Transcript::Delta { segment, text: text.to_owned() })).await;
        let read = futures_util::StreamExt::next(&mut reader).await.expect("the stream goes on");
        assert_eq!(read.expect("the stream is whole"), text);
    }
    agent.does(RoomCommand::Transcript(Transcript::End { segment })).await;
    assert!(futures_util::StreamExt::next(&mut reader).await.is_none());
}
