//! What is refused, with which words, and what is still known of it.

use super::samples::envelopes;
use super::{Pack, read, reason};
use crate::wire::{Malformed, encode};

fn known(malformed: &Malformed) -> (Option<i32>, Option<u16>, Option<&str>) {
    (malformed.stanza, malformed.kind, malformed.id.as_deref())
}

#[test]
fn stanza_type_body_and_content_must_be_there() {
    let all = [("stanzaId", Pack::new().int(7)), ("type", Pack::new().int(2)), ("body", Pack::new().map(0))];
    for (missing, _) in &all {
        for absent in [None, Some(Pack::new().nil()), Some(Pack::new().undefined())] {
            let mut pack = Pack::new().map(2 + u32::from(absent.is_some()));
            for (key, value) in &all {
                match &absent {
                    _ if key != missing => pack = pack.text(key).raw(&value.0),
                    Some(absent) => pack = pack.text(key).raw(&absent.0),
                    None => {}
                }
            }
            assert_eq!(reason(&pack.0), format!("{missing} is missing"));
        }
    }
    assert_eq!(reason(&Pack::envelope(2, 1).text("id").text("m1").0), "body.content is missing");
    assert_eq!(
        reason(&Pack::envelope(2, 2).text("id").text("m1").text("content").text("").0),
        "body.content is empty"
    );
    assert_eq!(reason(&Pack::envelope(2, 1).text("content").text("x").0), "body.id is missing");
}

#[test]
fn every_key_that_is_not_an_option_is_missed_by_its_name() {
    for (name, envelope) in envelopes().into_iter().filter(|(name, _)| name.ends_with("-bare")) {
        let kind = envelope.body.kind();
        let reason = read(&Pack::envelope(kind.into(), 0).0).map_err(|malformed| malformed.reason);
        // A Configuration and a stop need nothing.
        match kind {
            10 | 12 => assert!(reason.is_ok(), "{name}"),
            _ => assert!(reason.expect_err("malformed").ends_with(" is missing"), "{name}"),
        }
    }
}

#[test]
fn integers_that_do_not_fit_are_refused_rather_than_wrapped() {
    let wrong = [
        Pack::new().int(i64::from(i32::MAX) + 1),
        Pack::new().int(i64::from(i32::MIN) - 1),
        Pack::new().int(1 << 32),
        Pack::new().raw(&[0xcf, 255, 255, 255, 255, 255, 255, 255, 255]),
        Pack::new().float(1.5),
        Pack::new().float(1e300),
        Pack::new().float(f64::INFINITY),
        Pack::new().float(f64::NAN),
        Pack::new().text("1"),
        Pack::new().raw(&[0xc3]),
    ];
    for wrong in &wrong {
        let pack = Pack::new().map(3).text("stanzaId").raw(&wrong.0).text("type").int(12).text("body").map(0);
        assert_eq!(reason(&pack.0), "stanzaId must be a 32-bit integer");
        let pack = Pack::envelope(12, 1).text("lastSequenceSeen").raw(&wrong.0);
        assert_eq!(reason(&pack.0), "body.lastSequenceSeen must be a 32-bit integer");
        let pack = Pack::new().map(3).text("stanzaId").int(1).text("type").raw(&wrong.0).text("body").map(0);
        assert_eq!(reason(&pack.0), "type must be an integer from 0 to 65535");
    }
    for kind in [-1, 65_536] {
        assert_eq!(reason(&Pack::envelope(kind, 0).0), "type must be an integer from 0 to 65535");
    }
}

#[test]
fn a_wrong_kind_of_value_is_told_by_its_key() {
    let wrong = [
        (Pack::user(1).text("previousId").int(1), "body.previousId must be text"),
        (Pack::user(1).text("content").raw(&[0xa1, 0xff]), "body.content must be valid UTF-8"),
        (Pack::user(1).text("content").raw(&[0xc4, 1, 65]), "body.content must be text"),
        (
            Pack::envelope(8, 1).text("acknowledgedStanzaId").text("1"),
            "body.acknowledgedStanzaId must be a 32-bit integer",
        ),
        (Pack::envelope(12, 1).text("features").text("x"), "body.features must be a list of texts"),
        (Pack::envelope(12, 1).text("features").array(1).int(1), "body.features must be a list of texts"),
        (Pack::envelope(12, 1).text("tools").array(1).int(1), "body.tools must be a list of maps"),
        (Pack::envelope(12, 1).text("tools").array(1).map(0), "body.tools.name is missing"),
        (
            Pack::envelope(11, 2).text("targetId").text("m1").text("mode").text("?"),
            "body.mode must be \"regenerate\", \"edit\" or \"continue\"",
        ),
        (Pack::envelope(10, 1).text("stopType").int(1), "body.stopType must be text"),
        (
            Pack::envelope(67, 2).text("requestId").text("x").text("allow").int(1),
            "body.allow must be true or false",
        ),
        (
            Pack::new().map(3).text("stanzaId").int(1).text("type").int(2).text("body").array(0),
            "body must be a map",
        ),
        (
            Pack::new().map(3).text("stanzaId").int(1).text("type").int(2).text("meta").array(0),
            "meta must be a map",
        ),
        (
            Pack::new().map(3).text("stanzaId").int(1).text("type").int(2).text("conversationId").int(0),
            "conversationId must be text",
        ),
    ];
    for (pack, expected) in wrong {
        assert_eq!(reason(&pack.0), expected);
    }
    let times = [
        Pack::new().float(f64::NAN),
        Pack::new().float(1e300),
        Pack::new().text("now"),
        Pack::new().raw(&[0xd4, 0xff, 1]),
        // A billion nanoseconds; more seconds than there are milliseconds.
        Pack::new().raw(&[0xc7, 12, 0xff, 0x3b, 0x9a, 0xca, 0x00, 0, 0, 0, 0, 0, 0, 0, 0]),
        Pack::new().raw(&[0xc7, 12, 0xff, 0, 0, 0, 0, 0x7f, 255, 255, 255, 255, 255, 255, 255]),
    ];
    for time in times {
        assert!(
            reason(&Pack::user(1).text("timestamp").raw(&time.0).0)
                .starts_with("body.timestamp must be a time")
        );
    }
}

#[test]
fn what_is_no_envelope_at_all_is_told_in_words() {
    for (bytes, expected) in [
        (&b""[..], "the packet is empty"),
        (&[0x90], "the packet must be one MessagePack map"),
        (&[0xc0], "the packet must be one MessagePack map"),
        (&[0xc1], "the packet is not MessagePack"),
        (&[0x81, 0xa1, b'a'], "the packet ends in the middle"),
        (&[0xdb, 255, 255, 255, 255, 0], "the packet ends in the middle"),
        (&[0x80, 0x80], "there are bytes after the envelope"),
        (b"{\"stanzaId\": 1}", "the packet must be one MessagePack map"),
        (b"hello", "the packet must be one MessagePack map"),
    ] {
        assert!(reason(bytes).starts_with(expected), "{}", reason(bytes));
    }
}

#[test]
fn a_malformed_packet_still_says_which_it_was() {
    let malformed = read(&Pack::envelope(2, 2).text("id").text("m1").text("content").text("").0).unwrap_err();
    assert_eq!(known(&malformed), (Some(7), Some(2), Some("m1")));
    let malformed = read(&Pack::envelope(11, 1).text("targetId").text("am_1").0).unwrap_err();
    assert_eq!(known(&malformed), (Some(7), Some(11), Some("am_1")));
    let malformed = read(&Pack::envelope(67, 1).text("requestId").text("atu_1").0).unwrap_err();
    assert_eq!(known(&malformed), (Some(7), Some(67), Some("atu_1")));
    // The body's own id counts, wherever it stands.
    let pack =
        Pack::envelope(66, 3).text("requestId").text("r").text("targetId").text("t").text("id").text("i");
    assert_eq!(known(&read(&pack.0).unwrap_err()), (Some(7), Some(66), Some("i")));
    // One of them wrong, the others readable.
    let pack =
        Pack::new().map(3).text("body").map(1).text("id").int(1).text("type").int(-1).text("stanzaId").int(4);
    assert_eq!(known(&read(&pack.0).unwrap_err()), (Some(4), None, None));
    // Bytes behind it.
    assert_eq!(known(&read(&Pack::user(0).nil().0).unwrap_err()), (Some(7), Some(2), Some("m1")));
}

#[test]
fn a_packet_that_is_cut_off_says_what_it_had_said() {
    let (_, envelope) = envelopes().swap_remove(2);
    let bytes = encode(&envelope);
    let mut last = (None, None, None);
    for length in 0..bytes.len() {
        let malformed = read(&bytes[..length]).unwrap_err();
        let now = (malformed.stanza.is_some(), malformed.kind.is_some(), malformed.id.is_some());
        let before = (last.0.is_some(), last.1.is_some(), last.2.is_some());
        assert!(now >= before, "something was forgotten at {length}");
        last = (malformed.stanza, malformed.kind, malformed.id);
    }
    assert_eq!(
        last,
        (Some(envelope.stanza), Some(envelope.body.kind()), envelope.body.id().map(str::to_owned))
    );
}

#[test]
fn a_very_long_id_is_not_repeated() {
    for (length, repeated) in [(128, true), (129, false)] {
        let malformed = read(&Pack::envelope(2, 1).text("id").text(&"x".repeat(length)).0).unwrap_err();
        assert_eq!(malformed.id.is_some(), repeated);
    }
}

#[test]
fn reasons_never_quote_what_was_sent() {
    const SECRET: &str = "kept-secret";
    let values = [
        Pack::new().text(SECRET),
        Pack::new().map(1).text(SECRET).text(SECRET),
        Pack::new().array(1).text(SECRET),
    ];
    let keys = [
        "id",
        "previousId",
        "messageId",
        "conversationId",
        "content",
        "timestamp",
        "format",
        "sequence",
        "stepIndex",
        "toolName",
        "parameters",
        "execution",
        "success",
        "final",
        "confidence",
        "mode",
        "stopType",
        "features",
        "tools",
        "relevance",
        "exact",
        "allow",
        "code",
        SECRET,
    ];
    for kind in (1..=16).chain(64..=67) {
        for value in &values {
            for key in keys {
                let pack = Pack::envelope(kind, 1).text(key).raw(&value.0);
                if let Err(malformed) = read(&pack.0) {
                    assert!(!malformed.reason.contains(SECRET), "{}", malformed.reason);
                }
            }
        }
    }
}
