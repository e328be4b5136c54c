//! The bytes of `livekit-client`'s usual companions, msgpackr and `@msgpack/msgpack` (`fixtures/javascript.mjs`).

use super::{fixture, read, reason};
use crate::wire::Envelope;
use crate::wire::body::{AudioChunk, Body, ToolUseResult, UserMessage};
use serde_json::{Map, json};

const JAVASCRIPT: &str = include_str!("../fixtures/javascript.txt");

#[test]
fn messages_read_the_same_whoever_encoded_them_and_however() {
    let mut seen = 0;
    for (name, bytes) in fixture(JAVASCRIPT) {
        let (message, encoder) = name.split_once(' ').expect("message and encoder");
        let expected = match message {
            "user" | "user-date" => user(),
            "audio" => audio(),
            "result" => result(encoder),
            _ => continue,
        };
        assert_eq!(read(&bytes), Ok(expected), "{name}");
        seen += 1;
    }
    assert_eq!(seen, 35);
}

#[test]
fn records_are_refused_with_what_to_do() {
    let mut seen = 0;
    for (name, bytes) in fixture(JAVASCRIPT).filter(|(name, _)| name.starts_with("records ")) {
        assert!(reason(&bytes).contains("useRecords: false"), "{name}: {}", reason(&bytes));
        seen += 1;
    }
    assert_eq!(seen, 4);
}

fn user() -> Envelope {
    Envelope {
        stanza: 1,
        conversation: Some("room".to_owned()),
        meta: Map::new(),
        body: Body::UserMessage(UserMessage {
            id: "m1".to_owned(),
            previous_id: None,
            conversation_id: "room".to_owned(),
            content: "Grüße, 世界 👋".to_owned(),
            timestamp: Some(1_763_287_200_123),
            attachments: None,
        }),
    }
}

fn audio() -> Envelope {
    Envelope {
        stanza: 3,
        conversation: Some("room".to_owned()),
        meta: Map::new(),
        body: Body::AudioChunk(AudioChunk {
            conversation_id: "room".to_owned(),
            format: "opus".to_owned(),
            sequence: 300,
            duration_ms: 20,
            track_sid: None,
            data: Some(vec![0, 255]),
            is_last: Some(false),
            timestamp: None,
        }),
    }
}

fn result(encoder: &str) -> Envelope {
    let mut meta = Map::new();
    let mut result = json!({
        "at": 1_763_287_200_123_i64, "small": 3, "half": 0.5, "none": null, "list": [1, null], "nan": null,
        "bytes": "AQID"
    });
    // Where `undefined` was written as `nil`, nobody can tell it from `null` any more.
    if encoder.starts_with("msgpack")
        && !encoder.starts_with("msgpackr")
        && encoder != "msgpack-ignoreundefined"
    {
        result["gone"] = json!(null);
        meta.insert("undefinedHere".to_owned(), json!(null));
    }
    if encoder == "msgpack-allfloats" {
        result["small"] = json!(3.0);
        result["list"] = json!([1.0, null]);
    }
    Envelope {
        stanza: 70_000,
        conversation: None,
        meta,
        body: Body::ToolUseResult(ToolUseResult {
            id: "atr_1".to_owned(),
            request_id: "atu_1".to_owned(),
            conversation_id: String::new(),
            success: true,
            result: Some(result),
            error_code: None,
            error_message: None,
        }),
    }
}
