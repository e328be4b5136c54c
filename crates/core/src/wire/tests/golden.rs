//! Exact bytes: every type, both ways, against Python's msgpack (`fixtures/golden.py`) and by hand.

use super::samples::envelopes;
use super::{bytes, fixture, read};
use crate::wire::body::{Body, ReasoningStep};
use crate::wire::{Envelope, encode};
use serde_json::Map;

const GOLDEN: &str = include_str!("../fixtures/golden.txt");

#[test]
fn every_type_is_written_as_another_implementation_writes_it() {
    let golden: Vec<_> = fixture(GOLDEN).collect();
    let envelopes = envelopes();
    assert_eq!(golden.len(), envelopes.len());
    for ((golden_name, bytes), (name, envelope)) in golden.iter().zip(&envelopes) {
        assert_eq!(golden_name, name);
        assert_eq!(&encode(envelope), bytes, "{name}");
    }
}

#[test]
fn every_type_is_read_as_another_implementation_wrote_it() {
    for ((name, bytes), (_, envelope)) in fixture(GOLDEN).zip(envelopes()) {
        assert_eq!(read(&bytes), Ok(envelope), "{name}");
    }
}

#[test]
fn the_types_are_the_sixteen_and_our_four() {
    let mut kinds: Vec<_> = envelopes().iter().map(|(_, envelope)| envelope.body.kind()).collect();
    kinds.dedup();
    assert_eq!(kinds, (1..=16).chain(64..=67).collect::<Vec<u16>>());
}

/// The example of the page on type 5, by hand.
#[test]
fn a_reasoning_step_byte_by_byte() {
    let written = bytes(concat!(
        "85",                                     // a map of 5
        "a8",                                     // a text of 8
        "7374616e7a614964",                       // stanzaId
        "ff",                                     // -1
        "ae",                                     // a text of 14
        "636f6e766572736174696f6e4964",           // conversationId
        "aa636f6e765f374839336b",                 // conv_7H93k
        "a474797065",                             // type
        "05",                                     // 5
        "a46d657461",                             // meta
        "80",                                     // {}
        "a4626f6479",                             // body
        "85",                                     // a map of 5
        "a26964",                                 // id
        "a77273315f7a5a30",                       // rs1_zZ0
        "ae636f6e766572736174696f6e4964",         // conversationId
        "aa636f6e765f374839336b",                 // conv_7H93k
        "aa70726576696f75734964",                 // previousId
        "a96d73675f7531413242",                   // msg_u1A2B
        "a7636f6e74656e74",                       // content
        "b2416e616c797a696e67207265717565737473", // Analyzing requests
        "a973746570496e646578",                   // stepIndex
        "01",                                     // 1
    ));
    let envelope = Envelope {
        stanza: -1,
        conversation: Some("conv_7H93k".to_owned()),
        meta: Map::new(),
        body: Body::ReasoningStep(ReasoningStep {
            id: "rs1_zZ0".to_owned(),
            conversation_id: "conv_7H93k".to_owned(),
            previous_id: "msg_u1A2B".to_owned(),
            content: "Analyzing requests".to_owned(),
            step_index: 1,
            total_steps: None,
        }),
    };
    assert_eq!(encode(&envelope), written);
    assert_eq!(read(&written), Ok(envelope));
}

#[test]
fn integers_take_as_few_bytes_as_they_can() {
    for (stanza, hex) in [
        (0, "00"),
        (127, "7f"),
        (128, "cc80"),
        (256, "cd0100"),
        (65_536, "ce00010000"),
        (i32::MAX, "ce7fffffff"),
        (-32, "e0"),
        (-33, "d0df"),
        (-129, "d1ff7f"),
        (-32_769, "d2ffff7fff"),
        (i32::MIN, "d280000000"),
    ] {
        let envelope = Envelope { stanza, conversation: None, meta: Map::new(), body: Body::Unknown(300) };
        let written = bytes(&format!(
            "85a87374616e7a614964{hex}ae636f6e766572736174696f6e4964a0a474797065cd012ca46d65746180a4626f647980"
        ));
        assert_eq!(encode(&envelope), written, "{stanza}");
        assert_eq!(read(&written), Ok(envelope), "{stanza}");
    }
}
