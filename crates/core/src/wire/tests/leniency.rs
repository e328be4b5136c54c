//! What is accepted beside the exact form.

use super::{Pack, read};
use crate::wire::Envelope;
use crate::wire::body::{Body, StopType, UserMessage};
use serde_json::{Value, json};

fn body(pack: &Pack) -> Body {
    read(&pack.0).expect("readable").body
}

fn user(pack: &Pack) -> UserMessage {
    match body(pack) {
        Body::UserMessage(user) => user,
        other => panic!("{other:?}"),
    }
}

/// How a value reads where anything may stand.
fn any(pack: &Pack) -> Option<Value> {
    user(&Pack::user(1).text("attachments").raw(&pack.0)).attachments
}

#[test]
fn stanza_and_type_may_be_integers_of_any_width_and_whole_floats() {
    let integers: [&[u8]; 11] = [
        &[5],
        &[0xcc, 5],
        &[0xcd, 0, 5],
        &[0xce, 0, 0, 0, 5],
        &[0xcf, 0, 0, 0, 0, 0, 0, 0, 5],
        &[0xd0, 5],
        &[0xd1, 0, 5],
        &[0xd2, 0, 0, 0, 5],
        &[0xd3, 0, 0, 0, 0, 0, 0, 0, 5],
        &[0xca, 0x40, 0xa0, 0, 0],
        &[0xcb, 0x40, 0x14, 0, 0, 0, 0, 0, 0],
    ];
    for integer in integers {
        let pack = Pack::new().map(3).text("stanzaId").raw(integer).text("type").raw(integer);
        let pack = pack.text("body").map(4).text("id").text("ar_1").text("previousId").text("m1");
        let envelope =
            read(&pack.text("content").text("x").text("stepIndex").raw(integer).0).expect("readable");
        let Body::ReasoningStep(step) = envelope.body else { panic!("type 5") };
        assert_eq!((envelope.stanza, step.step_index), (5, 5), "{integer:02x?}");
    }
}

#[test]
fn keys_come_in_any_order_and_unknown_ones_are_skipped() {
    let pack = Pack::new().map(6).text("body").map(5).text("content").text("Hello");
    let pack = pack.text("mood").map(1).int(1).array(2).nil().text("x").int(3).nil().text("id").text("m1");
    // A key that is not even a text, and one that is not UTF-8.
    let pack = pack.raw(&[0xa1, 0xff]).nil().text("type").int(2).map(1).nil().nil().nil();
    let pack = pack.text("extra").raw(&[0xc4, 1, 0]).text("stanzaId").int(9).text("meta").map(0);
    let envelope = read(&pack.0).expect("readable");
    assert_eq!((envelope.stanza, envelope.body.id()), (9, Some("m1")));
}

#[test]
fn nil_and_undefined_are_as_if_not_written() {
    for absent in [Pack::new().nil(), Pack::new().undefined(), Pack::new().raw(&[0xc7, 0, 0])] {
        let pack = Pack::new().map(5).text("stanzaId").int(1).text("conversationId").raw(&absent.0);
        let pack = pack.text("meta").raw(&absent.0).text("type").int(2).text("body").map(6);
        let pack = pack.text("id").text("m1").text("content").text("x").text("conversationId").raw(&absent.0);
        let pack = pack.text("previousId").raw(&absent.0).text("timestamp").raw(&absent.0);
        let envelope = read(&pack.text("attachments").raw(&absent.0).0).expect("readable");
        assert_eq!(envelope.conversation, None);
        assert!(envelope.meta.is_empty());
        let Body::UserMessage(user) = envelope.body else { panic!("type 2") };
        assert_eq!((user.previous_id, user.timestamp, user.attachments), (None, None, None));
        assert_eq!(user.conversation_id, "");
    }
}

#[test]
fn a_blank_conversation_is_none() {
    for (blank, expected) in [("", None), (" \t", None), (" x ", Some(" x "))] {
        let pack = Pack::new().map(4).text("conversationId").text(blank).text("stanzaId").int(1);
        let envelope = read(&pack.text("type").int(12).text("body").map(0).0).expect("readable");
        assert_eq!(envelope.conversation.as_deref(), expected);
    }
}

#[test]
fn where_a_key_comes_twice_the_last_one_counts() {
    assert_eq!(user(&Pack::user(1).text("content").text("Bye")).content, "Bye");
    // `nil` is as if it was not written, here too.
    assert_eq!(user(&Pack::user(1).text("content").nil()).content, "Hello");
    assert_eq!(any(&Pack::new().map(2).text("a").int(1).text("a").int(2)), Some(json!({"a": 2})));
}

#[test]
fn a_time_may_be_an_integer_a_float_or_the_timestamp_extension() {
    let times: [(Pack, i64); 9] = [
        (Pack::new().int(1_763_287_200_123), 1_763_287_200_123),
        (Pack::new().int(-1), -1),
        (Pack::new().float(1_763_287_200_123.0), 1_763_287_200_123),
        (Pack::new().float(1_763_287_200_123.9), 1_763_287_200_123),
        (Pack::new().float(-0.5), -1),
        // 32 bits of seconds.
        (Pack::new().raw(&[0xd6, 0xff, 0x69, 0x19, 0xa0, 0xa0]), 1_763_287_200_000),
        // 30 bits of nanoseconds, 34 of seconds.
        (Pack::new().raw(&[0xd7, 0xff, 0x1d, 0x53, 0x53, 0x00, 0x69, 0x19, 0xa0, 0xa0]), 1_763_287_200_123),
        // 32 bits of nanoseconds, 64 of seconds.
        (
            Pack::new().raw(&[0xc7, 12, 0xff, 0x07, 0x54, 0xd4, 0xc0, 0, 0, 0, 0, 0x69, 0x19, 0xa0, 0xa0]),
            1_763_287_200_123,
        ),
        (Pack::new().raw(&[0xc7, 12, 0xff, 0, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255]), -1_000),
    ];
    for (time, expected) in times {
        assert_eq!(user(&Pack::user(1).text("timestamp").raw(&time.0)).timestamp, Some(expected));
    }
}

#[test]
fn reasoning_steps_may_use_the_older_names() {
    let pack = Pack::envelope(5, 4).text("id").text("ar_1").text("messageId").text("m1");
    let Body::ReasoningStep(step) = body(&pack.text("content").text("x").text("sequence").int(3)) else {
        panic!("type 5")
    };
    assert_eq!((step.previous_id.as_str(), step.step_index), ("m1", 3));
}

#[test]
fn a_tool_result_may_come_under_the_requests_own_id() {
    let pack = Pack::envelope(7, 2).text("id").text("atu_1").text("success").raw(&[0xc3]);
    let Body::ToolUseResult(result) = body(&pack) else { panic!("type 7") };
    assert_eq!((result.id.as_str(), result.request_id.as_str()), ("atu_1", "atu_1"));
}

#[test]
fn audio_may_use_the_shorter_names() {
    let pack = Pack::envelope(4, 3).text("format").text("opus").text("seq").int(4).text("duration").int(20);
    let Body::AudioChunk(chunk) = body(&pack) else { panic!("type 4") };
    assert_eq!((chunk.sequence, chunk.duration_ms), (4, 20));
}

#[test]
fn an_acknowledgement_may_name_the_last_stanza_seen() {
    let pack = Pack::envelope(8, 2).text("lastSeenStanzaId").int(-4).text("success").raw(&[0xc2]);
    let Body::Acknowledgement(seen) = body(&pack) else { panic!("type 8") };
    assert_eq!((seen.acknowledged_stanza_id, seen.success), (-4, false));
}

#[test]
fn where_both_names_are_there_the_protocols_own_counts() {
    let pack = Pack::envelope(8, 3).text("acknowledgedStanzaId").int(1).text("lastSeenStanzaId").int(2);
    let Body::Acknowledgement(seen) = body(&pack.text("success").raw(&[0xc3])) else { panic!("type 8") };
    assert_eq!(seen.acknowledged_stanza_id, 1);
}

#[test]
fn sentences_may_count_from_zero() {
    let pack =
        Pack::envelope(16, 3).text("previousId").text("am_1").text("sequence").int(0).text("text").text("");
    let Body::AssistantSentence(sentence) = body(&pack) else { panic!("type 16") };
    assert_eq!((sentence.sequence, sentence.is_final), (0, None));
}

#[test]
fn whatever_a_stop_says_something_stops() {
    for (word, expected) in [
        ("generation", StopType::Generation),
        ("speech", StopType::Speech),
        ("all", StopType::All),
        ("??", StopType::Generation),
    ] {
        let Body::ControlStop(stop) = body(&Pack::envelope(10, 1).text("stopType").text(word)) else {
            panic!("type 10")
        };
        assert_eq!(stop.stop_type, expected);
    }
    let Body::ControlStop(stop) = body(&Pack::envelope(10, 0)) else { panic!("type 10") };
    assert_eq!(stop.stop_type, StopType::Generation);
}

#[test]
fn an_unknown_type_is_no_error_whatever_its_body_is() {
    let bodies = [
        Pack::new().nil(),
        Pack::new().int(1),
        Pack::new().text("?"),
        Pack::new().map(0),
        Pack::new().array(0),
    ];
    for body in bodies {
        let pack = Pack::new().map(3).text("stanzaId").int(1).text("type").int(300).text("body").raw(&body.0);
        let Envelope { stanza, body, .. } = read(&pack.0).expect("readable");
        assert_eq!((stanza, body), (1, Body::Unknown(300)));
    }
    assert_eq!(
        read(&Pack::new().map(2).text("stanzaId").int(1).text("type").int(0).0)
            .expect("readable")
            .body
            .kind(),
        0
    );
}

#[test]
fn numbers_for_floats_may_be_of_any_kind() {
    for number in [Pack::new().int(1), Pack::new().float(1.0), Pack::new().raw(&[0xca, 0x3f, 0x80, 0, 0])] {
        let pack =
            Pack::envelope(14, 5).text("id").text("").text("messageId").text("").text("memoryId").text("");
        let Body::MemoryTrace(trace) = body(&pack.text("content").text("").text("relevance").raw(&number.0))
        else {
            panic!("type 14")
        };
        assert!((trace.relevance - 1.0).abs() < f32::EPSILON);
    }
}

#[test]
fn anything_becomes_json() {
    let values = [
        (Pack::new().raw(&[0xc3]), json!(true)),
        (Pack::new().int(-5), json!(-5)),
        (Pack::new().raw(&[0xcf, 255, 255, 255, 255, 255, 255, 255, 255]), json!(u64::MAX)),
        (Pack::new().int(i64::MIN), json!(i64::MIN)),
        (Pack::new().float(2.0), json!(2.0)),
        // So does msgpackr write integers of more than 32 bits.
        (Pack::new().float(-5_000_000_000.0), json!(-5_000_000_000_i64)),
        (Pack::new().float(1e300), json!(1e300)),
        (Pack::new().float(f64::NAN), json!(null)),
        (Pack::new().float(f64::NEG_INFINITY), json!(null)),
        (Pack::new().raw(&[0xc4, 3, 1, 2, 3]), json!("AQID")),
        (Pack::new().raw(&[0xd4, 9, 1]), json!(null)),
        (Pack::new().raw(&[0xd6, 0xff, 0, 0, 0, 1]), json!(null)),
        (Pack::new().raw(&[0xa2, b'a', 0xff]), json!("a\u{fffd}")),
        (Pack::new().array(3).nil().undefined().int(1), json!([null, null, 1])),
        (Pack::new().map(2).text("a").nil().text("b").undefined(), json!({"a": null})),
        (
            Pack::new()
                .map(5)
                .int(1)
                .nil()
                .raw(&[0xc2])
                .nil()
                .nil()
                .nil()
                .float(0.5)
                .nil()
                .raw(&[0xc4, 1, 0])
                .nil(),
            json!({"1": null, "false": null, "null": null, "0.5": null, "AA==": null}),
        ),
        // Keys that have no text: an array, a map, an extension.
        (
            Pack::new()
                .map(4)
                .array(1)
                .int(0)
                .nil()
                .map(1)
                .nil()
                .nil()
                .nil()
                .raw(&[0xd4, 9, 1])
                .nil()
                .text("k")
                .int(1),
            json!({"k": 1}),
        ),
    ];
    for (pack, expected) in values {
        assert_eq!(any(&pack), Some(expected));
    }
}
