//! Those who send too much, too large, too slowly, or in another's name.

use std::time::Duration;

use livekit::prelude::{PerformRpcData, RpcErrorCode};
use livekit::{SendByteOptions, SendTextOptions, StreamByteOptions, StreamWriter};
use livekit_protocol::{
    DataPacket as RawPacket, Transcription,
    data_packet::Value,
    data_stream::{Chunk, Trailer},
};
use sotto::ports::RoomEvent;
use sotto_harness::{
    agent::Agent as Program,
    participant::Participant,
    server::{Server, new_room},
};

use super::arrival::join_as_other_agent;
use super::{AGENT, Agent, joined, options, packet};

pub(crate) async fn a_flood_is_counted_and_harms_nobody_else() {
    const FLOOD: u32 = 3_000;
    let server = Server::shared().await;
    let room = new_room();
    let mut agent = Agent::join(&server, &room).await;
    let flood = Participant::join(&server, &room, "flood").await;
    let mut quiet = Participant::join(&server, &room, "quiet").await;
    agent.meets("flood").await;
    agent.meets("quiet").await;
    // The session is busy with other things meanwhile.
    for number in 0..FLOOD {
        flood.send(number.to_be_bytes().to_vec(), "", true).await;
    }
    // The last of the flood is there: what follows on the same way has overtaken nothing.
    while agent.counts.overflowed.get() + (agent.room.events.len() as u64) < u64::from(FLOOD) {
        tokio::task::yield_now().await;
    }
    quiet.meets(AGENT).await;
    quiet.send(b"and me?".to_vec(), "", true).await;
    agent.happens(packet("quiet", "and me?")).await;

    let (mut heard, mut dropped, mut last) = (0, 0, None);
    while heard + dropped < FLOOD {
        match agent.next().await {
            RoomEvent::Packet { from, bytes } => {
                assert_eq!(from, "flood");
                assert!(last < Some(bytes.clone()), "out of order");
                last = Some(bytes);
                heard += 1;
            }
            RoomEvent::Overflowed { from, packets } => {
                assert_eq!(from, "flood");
                dropped += packets;
            }
            other => panic!("unexpected: {other:?}"),
        }
    }
    assert_eq!(heard + dropped, FLOOD);
    assert!(heard >= 64, "its share was heard: {heard}");
    assert_eq!(agent.counts.overflowed.get(), u64::from(dropped));
    flood.send(b"sorry".to_vec(), "", true).await;
    agent.happens(packet("flood", "sorry")).await;
}

pub(crate) async fn too_many_and_too_large_streams_are_refused() {
    let server = Server::shared().await;
    let room = new_room();
    let mut agent = Agent::join(&server, &room).await;
    let anna = Participant::join(&server, &room, "anna").await;
    let speaker = anna.room.local_participant();
    let mut writers = Vec::new();
    for number in 0..5 {
        let options = StreamByteOptions::new_with_topic("envelope").with_id(format!("stream {number}"));
        writers.push(speaker.stream_bytes(options).await.expect("anna is connected"));
    }
    assert_eq!(agent.next().await, joined("anna"));
    assert!(refusal(&mut agent, "anna").await.contains("at most 4 streams"));
    for (number, writer) in writers.into_iter().enumerate() {
        writer.write(format!("content {number}").as_bytes()).await.expect("anna is connected");
        writer.close().await.expect("anna is connected");
    }
    for number in 0..4 {
        assert_eq!(agent.next().await, packet("anna", format!("content {number}")));
    }

    // By what its header says, and by what comes without a word.
    let large = vec![7; 1024 * 1024 + 1];
    speaker.send_bytes(&large, SendByteOptions::new_with_topic("envelope")).await.expect("anna is connected");
    assert!(refusal(&mut agent, "anna").await.contains("at most 1048576 bytes"));
    let options = StreamByteOptions::new_with_topic("envelope");
    let writer = speaker.stream_bytes(options).await.expect("anna is connected");
    writer.write(&large).await.expect("anna is connected");
    writer.close().await.expect("anna is connected");
    assert!(refusal(&mut agent, "anna").await.contains("at most 1048576 bytes"));
    assert_eq!(agent.counts.refused_streams.get(), 3);
    anna.send(b"still heard".to_vec(), "", true).await;
    assert_eq!(agent.next().await, packet("anna", "still heard"));
}

pub(crate) async fn a_silent_stream_is_refused() {
    let server = Server::shared().await;
    let room = new_room();
    let mut options = options(&server, &room);
    options.limits.idle = Duration::from_millis(300);
    let mut agent = Agent::join_with(options).await;
    let anna = Participant::join(&server, &room, "anna").await;
    let options = StreamByteOptions::new_with_topic("envelope");
    let writer = anna.room.local_participant().stream_bytes(options).await.expect("anna is connected");
    writer.write(b"to be contin").await.expect("anna is connected");
    agent.meets("anna").await;
    assert!(refusal(&mut agent, "anna").await.contains("silent"));
}

/// Everybody in the room sees a stream's id; only its sender may write into it.
pub(crate) async fn nobody_writes_into_anothers_stream() {
    let server = Server::shared().await;
    let room = new_room();
    let mut agent = Agent::join(&server, &room).await;
    let victim = Participant::join(&server, &room, "victim").await;
    let thief = Participant::join(&server, &room, "thief").await;
    agent.meets("victim").await;
    agent.meets("thief").await;
    let options = StreamByteOptions::new_with_topic("envelope").with_id("known to all");
    let writer =
        victim.room.local_participant().stream_bytes(options).await.expect("the victim is connected");
    writer.write(b"pay ").await.expect("the victim is connected");

    let stream_id = "known to all".to_owned();
    let evil =
        Chunk { stream_id: stream_id.clone(), chunk_index: 1, content: b"50".to_vec(), ..Chunk::default() };
    let end = Trailer { stream_id, ..Trailer::default() };
    for value in [Value::StreamChunk(evil), Value::StreamTrailer(end)] {
        let raw = RawPacket {
            participant_identity: "victim".to_owned(),
            value: Some(value),
            ..RawPacket::default()
        };
        thief.room.local_participant().publish_raw_data(raw, true).await.expect("the thief is connected");
    }
    thief.send(b"done".to_vec(), "", true).await;
    agent.happens(packet("thief", "done")).await;
    writer.write(b"5").await.expect("the victim is connected");
    writer.close().await.expect("the victim is connected");
    agent.happens(packet("victim", "pay 5")).await;
    assert_eq!(agent.counts.refused_streams.get(), 0);
}

/// The SDK would answer calls by itself without any limit, and panic at such a transcription. In a process of its own:
/// other tests of this one do make calls.
pub(crate) async fn calls_and_transcriptions_do_not_reach_the_agent() {
    let server = Server::shared().await;
    let room = new_room();
    let agent = Program::join(env!("CARGO_BIN_EXE_sotto"), &server, &room, &[]).await;
    let mut anna = Participant::join(&server, &room, "anna").await;
    anna.meets(agent.identity()).await;
    let speaker = anna.room.local_participant();
    // The server takes transcriptions from agents only.
    let transcriber = join_as_other_agent(&server, &room).await;
    let bad = Transcription { track_id: "no track".to_owned(), ..Transcription::default() };
    // To the agent alone: the others in this room would panic.
    let raw = RawPacket {
        destination_identities: vec![agent.identity().to_owned()],
        value: Some(Value::Transcription(bad)),
        ..RawPacket::default()
    };
    let sent = transcriber.room.local_participant().publish_raw_data(raw, true).await;
    sent.expect("the transcriber is connected");
    let call = PerformRpcData::new(agent.identity().to_owned(), "anything").with_payload("x");
    let unheard = speaker.perform_rpc(call).await.expect_err("nobody offers it");
    assert_eq!(unheard.code, RpcErrorCode::ConnectionTimeout as u32, "{unheard:?}");

    speaker.send_text("hello", SendTextOptions::new_with_topic("lk.chat")).await.expect("anna is connected");
    anna.happens("an answer", |event| {
        matches!(event, livekit::RoomEvent::TextStreamOpened { topic, .. } if topic == "lk.transcription")
    })
    .await;
}

/// That no rule was broken is told apart.
async fn refusal(agent: &mut Agent, who: &str) -> String {
    agent
        .event("a refusal", |event| match event {
            RoomEvent::Refused { from, reason, for_now } if from == who => {
                assert_eq!(*for_now, reason.contains("silent"), "{reason}");
                Some(reason.clone())
            }
            _ => None,
        })
        .await
}
