//! For all envelopes: what is written is read again. For all bytes: nothing breaks.

use super::samples::envelopes;
use crate::wire::body::Body;
use crate::wire::{Envelope, Limits, decode, encode};
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Map, Value};

const LIMITS: Limits = Limits { bytes: 1 << 20, depth: 128, keys: 100_000, content_bytes: 1 << 20 };

fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        // Large whole floats read as the integers that they are for JavaScript.
        (-1e9..1e9).prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 48, 6, |inner| {
        prop_oneof![vec(inner.clone(), 0..6).prop_map(Value::from), object(inner).prop_map(Value::from)]
    })
}

fn object(values: impl Strategy<Value = Value>) -> impl Strategy<Value = Map<String, Value>> {
    vec((".{0,8}", values), 0..6).prop_map(|pairs| pairs.into_iter().collect())
}

/// Any of the types with any values in it.
fn envelope() -> impl Strategy<Value = Envelope> {
    let samples = (0..envelopes().len()).prop_map(|at| envelopes().swap_remove(at).1.body);
    let unknown = prop_oneof![Just(0), 17..64_u16, 68..=u16::MAX].prop_map(Body::Unknown);
    let texts = (".{1,40}", ".{0,40}", proptest::option::of(".{0,10}"));
    let values = (any::<i32>(), any::<i64>(), any::<bool>(), any::<f32>(), vec(any::<u8>(), 0..300));
    let body = (prop_oneof![20 => samples, 1 => unknown], texts, values, json(), object(json()));
    let body = body.prop_map(|(mut body, texts, values, value, object)| {
        fill(&mut body, texts, values, value, object);
        body
    });
    let conversation = proptest::option::of("[a-z] ?.{0,20}");
    (any::<i32>(), conversation, object(json()), body)
        .prop_map(|(stanza, conversation, meta, body)| Envelope { stanza, conversation, meta, body })
}

type Texts = (String, String, Option<String>);
type Values = (i32, i64, bool, f32, Vec<u8>);

/// Puts the values wherever they fit.
fn fill(body: &mut Body, texts: Texts, values: Values, value: Value, object: Map<String, Value>) {
    let (content, id, option) = texts;
    let (int, long, flag, float, bytes) = values;
    let float = if float.is_nan() { 0.0 } else { float };
    let value = Some(value).filter(|value| !value.is_null());
    match body {
        Body::ErrorMessage(body) => (body.message, body.code, body.originating_id) = (content, int, option),
        Body::UserMessage(body) => {
            (body.id, body.content, body.timestamp, body.attachments) = (id, content, Some(long), value);
        }
        Body::AssistantMessage(body) => (body.content, body.timestamp) = (content, Some(long)),
        Body::AudioChunk(body) => (body.data, body.sequence, body.is_last) = (Some(bytes), int, Some(flag)),
        Body::ReasoningStep(body) => {
            (body.content, body.step_index, body.total_steps) = (content, int, Some(int));
        }
        Body::ToolUseRequest(body) => {
            (body.tool_name, body.parameters, body.timeout_ms) = (id, object, Some(int));
        }
        Body::ToolUseResult(body) => (body.result, body.success, body.error_code) = (value, flag, option),
        Body::Acknowledgement(body) => (body.acknowledged_stanza_id, body.success) = (int, flag),
        Body::Transcription(body) => {
            (body.text, body.is_final, body.confidence) = (content, flag, Some(float));
        }
        Body::ControlStop(body) => (body.target_id, body.reason) = (option, Some(content)),
        Body::ControlVariation(body) => (body.target_id, body.new_content) = (id, option),
        Body::Configuration(body) => {
            (body.features, body.last_sequence_seen) = (Some(vec![content, id]), Some(int));
        }
        Body::StartAnswer(body) => (body.id, body.planned_sentence_count) = (id, Some(int)),
        Body::MemoryTrace(body) => (body.content, body.relevance) = (content, float),
        Body::Commentary(body) => (body.content, body.commentary_type) = (content, option),
        Body::AssistantSentence(body) => (body.id, body.text, body.audio) = (option, content, Some(bytes)),
        Body::ReasoningDelta(body) => (body.delta, body.step_index) = (content, int),
        Body::TurnMeta(body) => {
            (body.total_ms, body.input_tokens, body.answer_id) = (long, Some(long), option);
        }
        Body::ToolConsentRequest(body) => (body.parameters, body.reason) = (object, option),
        Body::ToolConsent(body) => (body.request_id, body.allow) = (id, flag),
        Body::Unknown(_) => {}
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read_again(envelope in envelope()) {
        prop_assert_eq!(decode(&encode(&envelope), &LIMITS), Ok(envelope));
    }

    /// Another reader of `MessagePack` sees the same.
    #[test]
    fn what_is_written_is_what_serde_reads(meta in object(json())) {
        let envelope = Envelope { stanza: 1, conversation: None, meta, body: Body::Unknown(99) };
        let read: Value = rmp_serde::from_slice(&encode(&envelope)).expect("MessagePack");
        prop_assert_eq!(&read["meta"], &Value::from(envelope.meta));
    }

    #[test]
    fn arbitrary_bytes_break_nothing(bytes in vec(any::<u8>(), 0..400)) {
        let _ = decode(&bytes, &LIMITS);
        let _ = decode(&bytes, &Limits::default());
    }

    /// One that is nearly right gets further than noise does.
    #[test]
    fn mutated_envelopes_break_nothing(
        envelope in envelope(),
        changes in vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        cut in proptest::option::of(any::<prop::sample::Index>()),
    ) {
        let mut bytes = encode(&envelope);
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        // What is still readable can be written and is then read as the same.
        if let Ok(envelope) = decode(&bytes, &LIMITS) {
            let again = encode(&envelope);
            let reread = decode(&again, &LIMITS).expect("what we write is readable");
            prop_assert_eq!(encode(&reread), again);
        }
    }

    #[test]
    fn every_cut_is_malformed_and_no_panic(envelope in envelope()) {
        let bytes = encode(&envelope);
        for length in 0..bytes.len() {
            prop_assert!(decode(&bytes[..length], &LIMITS).is_err());
        }
    }
}
