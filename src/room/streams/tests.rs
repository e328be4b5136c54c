//! Streams as strangers may send them: in pieces, compressed, too large, too many, in another's name.

use super::*;
use flate2::{Compression, write::DeflateEncoder};
use livekit_protocol::data_stream::{ByteHeader, TextHeader};
use std::io::Write;
use std::time::Duration;

const LIMITS: StreamLimits =
    StreamLimits { bytes: 100_000, open_per_participant: 2, idle: Duration::from_secs(10) };

fn streams() -> Streams {
    Streams::new(LIMITS, ByteBudget::new(1_000_000))
}

fn envelope(id: &str) -> Header {
    Header {
        stream_id: id.to_owned(),
        topic: ENVELOPE_TOPIC.to_owned(),
        content_header: Some(ContentHeader::ByteHeader(ByteHeader::default())),
        ..Header::default()
    }
}

fn chat(id: &str) -> Header {
    Header {
        topic: CHAT_TOPIC.to_owned(),
        content_header: Some(ContentHeader::TextHeader(TextHeader::default())),
        ..envelope(id)
    }
}

fn chunk(id: &str, index: u64, content: &[u8]) -> Chunk {
    Chunk { stream_id: id.to_owned(), chunk_index: index, content: content.to_vec(), ..Chunk::default() }
}

fn trailer(id: &str) -> Trailer {
    Trailer { stream_id: id.to_owned(), ..Trailer::default() }
}

fn deflate(content: &[u8]) -> Vec<u8> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(content).expect("memory takes it");
    encoder.finish().expect("memory takes it")
}

#[track_caller]
fn complete(progress: Progress) -> Content {
    match progress {
        Progress::Complete(content, _) => content,
        other => panic!("not complete: {other:?}"),
    }
}

#[track_caller]
fn refused(progress: Progress) -> String {
    match progress {
        Progress::Refused(Refusal { reason, for_now: false }) => reason,
        other => panic!("not refused for good: {other:?}"),
    }
}

#[track_caller]
fn refused_for_now(progress: Progress) -> String {
    match progress {
        Progress::Refused(Refusal { reason, for_now: true }) => reason,
        other => panic!("not refused for now: {other:?}"),
    }
}

#[track_caller]
fn pending(progress: impl std::borrow::Borrow<Progress>) {
    let progress = progress.borrow();
    assert!(matches!(progress, Progress::Pending), "{progress:?}");
}

#[test]
fn chunks_become_an_envelope() {
    let (mut streams, now) = (streams(), Instant::now());
    pending(streams.header("anna", envelope("1"), now));
    pending(streams.chunk("anna", &chunk("1", 0, b"hel"), now));
    pending(streams.chunk("anna", &chunk("1", 0, b"hel"), now));
    pending(streams.chunk("anna", &chunk("1", 1, b"lo"), now));
    assert_eq!(complete(streams.trailer("anna", &trailer("1"))), Content::Envelope(b"hello".to_vec()));
    pending(streams.trailer("anna", &trailer("1")));
}

#[test]
fn a_chat_message_keeps_its_streams_id() {
    let (mut streams, now) = (streams(), Instant::now());
    let header = Header { inline_content: Some("grüß dich".into()), ..chat("m1") };
    let message = Content::Chat { id: "m1".to_owned(), text: "grüß dich".to_owned() };
    assert_eq!(complete(streams.header("anna", header, now)), message);

    let broken = Header { inline_content: Some(vec![0xff]), ..chat("m2") };
    assert!(refused(streams.header("anna", broken, now)).contains("UTF-8"));
}

#[test]
fn other_topics_and_kinds_are_not_ours() {
    let (mut streams, now) = (streams(), Instant::now());
    pending(streams.header("anna", Header { topic: "files".to_owned(), ..envelope("1") }, now));
    pending(streams.header("anna", Header { topic: CHAT_TOPIC.to_owned(), ..envelope("2") }, now));
    pending(streams.header("anna", Header { topic: ENVELOPE_TOPIC.to_owned(), ..chat("3") }, now));
    assert_eq!(streams.next_expiry(), None);
}

#[test]
fn texts_in_a_participants_name_are_not_the_participants() {
    let (mut streams, now) = (streams(), Instant::now());
    let generated = TextHeader { generated: true, ..TextHeader::default() };
    let header = Header {
        content_header: Some(ContentHeader::TextHeader(generated)),
        inline_content: Some(b"pay 50".to_vec()),
        ..chat("1")
    };
    assert!(!Streams::is_ours(&header));
    pending(streams.header("anna", header, now));
}

#[test]
fn nobody_writes_into_anothers_stream() {
    let (mut streams, now) = (streams(), Instant::now());
    pending(streams.header("anna", envelope("1"), now));
    pending(streams.chunk("mallory", &chunk("1", 0, b"evil"), now));
    pending(streams.trailer("mallory", &trailer("1")));
    pending(streams.header("mallory", envelope("1"), now));
    pending(streams.chunk("anna", &chunk("1", 0, b"good"), now));
    assert_eq!(complete(streams.trailer("anna", &trailer("1"))), Content::Envelope(b"good".to_vec()));
}

#[test]
fn compressed_streams_are_read_in_any_pieces() {
    let content: Vec<u8> = (0..LIMITS.bytes as u32).flat_map(|i| [(i / 7) as u8]).collect();
    let packed = deflate(&content);
    for size in [1, 7, 1_000, packed.len()] {
        let (mut streams, now) = (streams(), Instant::now());
        let header = Header {
            compression: CompressionType::DeflateRaw.into(),
            total_length: Some(content.len() as u64),
            ..envelope("1")
        };
        pending(streams.header("anna", header, now));
        for (index, piece) in packed.chunks(size).enumerate() {
            pending(streams.chunk("anna", &chunk("1", index as u64, piece), now));
        }
        assert!(complete(streams.trailer("anna", &trailer("1"))) == Content::Envelope(content.clone()));
    }
}

#[test]
fn a_bomb_is_refused_before_it_is_stored() {
    let bomb = deflate(&vec![0; 50_000_000]);
    let budget = ByteBudget::new(LIMITS.bytes);
    let mut streams = Streams::new(LIMITS, budget.clone());
    let header = Header {
        compression: CompressionType::DeflateRaw.into(),
        inline_content: Some(bomb),
        ..envelope("1")
    };
    assert!(refused(streams.header("anna", header, Instant::now())).contains("at most 100000 bytes"));
    assert!(budget.reserve(LIMITS.bytes).is_some(), "what was reserved went back");

    let damaged = Header {
        compression: CompressionType::DeflateRaw.into(),
        inline_content: Some(vec![0xff; 100]),
        ..envelope("2")
    };
    assert!(refused(streams.header("anna", damaged, Instant::now())).contains("damaged"));
    let unknown = Header { compression: 77, ..envelope("3") };
    assert!(refused(streams.header("anna", unknown, Instant::now())).contains("compression"));
}

#[test]
fn too_large_is_refused_by_word_and_by_deed() {
    let (mut streams, now) = (streams(), Instant::now());
    let header = Header { total_length: Some(100_001), ..envelope("1") };
    assert!(refused(streams.header("anna", header, now)).contains("at most 100000 bytes"));

    pending(streams.header("anna", envelope("2"), now));
    for index in 0..10 {
        pending(streams.chunk("anna", &chunk("2", index, &[7; 10_000]), now));
    }
    assert!(refused(streams.chunk("anna", &chunk("2", 10, &[7]), now)).contains("at most 100000 bytes"));
    pending(streams.trailer("anna", &trailer("2")));
}

#[test]
fn length_and_order_must_be_as_announced() {
    let (mut streams, now) = (streams(), Instant::now());
    let of_three = |id| Header { total_length: Some(3), ..envelope(id) };
    pending(streams.header("anna", of_three("short"), now));
    pending(streams.chunk("anna", &chunk("short", 0, b"ab"), now));
    assert!(refused(streams.trailer("anna", &trailer("short"))).contains("shorter"));
    pending(streams.header("anna", of_three("long"), now));
    assert!(refused(streams.chunk("anna", &chunk("long", 0, b"abcd"), now)).contains("longer"));
    pending(streams.header("anna", envelope("gap"), now));
    assert!(refused(streams.chunk("anna", &chunk("gap", 1, b"b"), now)).contains("missing"));
    assert!(refused(streams.header("anna", envelope(&"x".repeat(257)), now)).contains("id"));
    assert!(refused(streams.header("anna", envelope(""), now)).contains("id"));
}

#[test]
fn each_participant_has_so_many_streams() {
    let (mut streams, now) = (streams(), Instant::now());
    pending(streams.header("anna", envelope("1"), now));
    pending(streams.header("anna", chat("2"), now));
    pending(streams.header("anna", envelope("3"), now));
    pending(streams.opened("anna", "1"));
    pending(streams.chunk("anna", &chunk("2", 0, b"a"), now));
    assert!(refused(streams.opened("anna", "3")).contains("at most 2 streams"));
    pending(streams.chunk("anna", &chunk("3", 0, b"a"), now));
    pending(streams.header("anna", envelope("3b"), now));
    assert!(refused(streams.chunk("anna", &chunk("3b", 0, b"a"), now)).contains("at most 2 streams"));
    pending(streams.header("boris", envelope("3"), now));
    assert!(refused(streams.header("boris", envelope("3"), now)).contains("already open"));
    // A short one is over before it counts.
    complete(streams.header("anna", Header { inline_content: Some(vec![1]), ..envelope("4") }, now));
    streams.forget("anna");
    pending(streams.header("anna", envelope("5"), now));
}

/// The SDK tells of the beginnings first; the readers and parts follow in step.
#[test]
fn any_number_may_be_sent_one_after_the_other() {
    let (mut streams, now) = (streams(), Instant::now());
    let ids: Vec<_> = (0..10).map(|number| number.to_string()).collect();
    for id in &ids {
        pending(streams.header("anna", envelope(id), now));
    }
    for id in &ids {
        pending(streams.opened("anna", id));
        pending(streams.chunk("anna", &chunk(id, 0, id.as_bytes()), now));
        assert_eq!(complete(streams.trailer("anna", &trailer(id))), Content::Envelope(id.clone().into()));
    }
}

#[test]
fn beginnings_alone_are_bounded_too() {
    let (mut streams, now) = (streams(), Instant::now());
    for number in 0..MOST_ANNOUNCED {
        pending(streams.header("anna", envelope(&number.to_string()), now));
    }
    assert!(refused_for_now(streams.header("anna", envelope("one more"), now)).contains("too many"));
    pending(streams.header("boris", envelope("1"), now));
}

#[test]
fn silence_ends_a_stream() {
    let (mut streams, start) = (streams(), Instant::now());
    pending(streams.header("anna", envelope("1"), start));
    pending(streams.header("boris", envelope("1"), start));
    let later = start + Duration::from_secs(9);
    pending(streams.chunk("boris", &chunk("1", 0, b"b"), later));
    assert_eq!(streams.next_expiry(), Some(start + LIMITS.idle));
    let expired = streams.expire(start + LIMITS.idle);
    assert_eq!(expired.len(), 1);
    assert_eq!((expired[0].0.as_str(), expired[0].1.as_str()), ("anna", "1"));
    assert!(expired[0].2.for_now, "it may come another time");
    assert_eq!(streams.next_expiry(), Some(later + LIMITS.idle));
    assert_eq!(complete(streams.trailer("boris", &trailer("1"))), Content::Envelope(b"b".to_vec()));
}

#[test]
fn the_process_has_one_budget_for_all() {
    let budget = ByteBudget::new(10);
    let mut rooms = [Streams::new(LIMITS, budget.clone()), Streams::new(LIMITS, budget)];
    let now = Instant::now();
    pending(rooms[0].header("anna", envelope("1"), now));
    pending(rooms[1].header("boris", envelope("1"), now));
    pending(rooms[0].chunk("anna", &chunk("1", 0, &[1; 8]), now));
    assert!(refused_for_now(rooms[1].chunk("boris", &chunk("1", 0, &[1; 3]), now)).contains("later"));
    complete(rooms[0].trailer("anna", &trailer("1")));
    complete(rooms[1].header("boris", Header { inline_content: Some(vec![1; 10]), ..envelope("2") }, now));
}

#[test]
fn a_stream_that_its_sender_gave_up_is_nobodys_fault() {
    let (mut streams, now) = (streams(), Instant::now());
    pending(streams.header("anna", envelope("1"), now));
    pending(streams.trailer("anna", &Trailer { reason: "error".to_owned(), ..trailer("1") }));
    assert_eq!(streams.next_expiry(), None);
}
