//! One envelope of every type, as `fixtures/golden.py` writes them.

use crate::wire::Envelope;
use crate::wire::body::{
    Acknowledgement, AssistantMessage, AssistantSentence, AudioChunk, Body, Commentary, Configuration,
    ControlStop, ControlVariation, ErrorMessage, Execution, MemoryTrace, OfferedTool, ReasoningDelta,
    ReasoningStep, StartAnswer, StopType, ToolConsent, ToolConsentRequest, ToolUseRequest, ToolUseResult,
    Transcription, TurnMeta, UserMessage, VariationMode,
};
use serde_json::{Map, Value, json};

pub(super) fn map(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => panic!("not a map"),
    }
}

fn s(text: &str) -> String {
    text.to_owned()
}

/// With all options, then without any.
pub(super) fn envelopes() -> Vec<(String, Envelope)> {
    let pairs = whole().into_iter().map(|whole| (whole.clone(), bare(whole)));
    let envelopes = pairs.flat_map(|(whole, bare)| {
        let kind = whole.kind();
        let meta = map(json!({"messaging.trace_id": "t1", "sotto.prev": -3}));
        [
            (format!("{kind}-whole"), -i32::from(kind), meta, whole),
            (format!("{kind}-bare"), 100_000 + i32::from(kind), Map::new(), bare),
        ]
    });
    envelopes
        .map(|(name, stanza, meta, body)| {
            (name, Envelope { stanza, conversation: Some(s("room")), meta, body })
        })
        .collect()
}

#[expect(clippy::too_many_lines, reason = "a table")]
fn whole() -> Vec<Body> {
    let conversation_id = s("room");
    let c = || conversation_id.clone();
    vec![
        Body::ErrorMessage(ErrorMessage {
            id: s("err_1"),
            conversation_id: c(),
            code: 429,
            message: s("too many"),
            severity: 2,
            recoverable: true,
            originating_id: Some(s("m1")),
        }),
        Body::UserMessage(UserMessage {
            id: s("m1"),
            previous_id: Some(s("am_0")),
            conversation_id: c(),
            content: s("Grüße, 世界 👋"),
            timestamp: Some(1_763_287_200_123),
            attachments: Some(json!([{"name": "a.txt", "size": 3}])),
        }),
        Body::AssistantMessage(AssistantMessage {
            id: s("am_1"),
            previous_id: s("m1"),
            conversation_id: c(),
            content: s("Hello."),
            timestamp: Some(1_763_287_201_000),
        }),
        Body::AudioChunk(AudioChunk {
            conversation_id: c(),
            format: s("opus"),
            sequence: 7,
            duration_ms: 20,
            track_sid: Some(s("TR_1")),
            data: Some(vec![0, 255, 16]),
            is_last: Some(true),
            timestamp: Some(0),
        }),
        Body::ReasoningStep(ReasoningStep {
            id: s("ar_1"),
            conversation_id: c(),
            previous_id: s("m1"),
            content: s("Think."),
            step_index: 1,
            total_steps: Some(5),
        }),
        Body::ToolUseRequest(ToolUseRequest {
            id: s("atu_1"),
            message_id: s("m1"),
            conversation_id: c(),
            tool_name: s("time"),
            parameters: map(json!({"zone": "UTC", "at": [1, -1, 1.5, null, true, {}]})),
            execution: Execution::Server,
            timeout_ms: Some(30_000),
        }),
        Body::ToolUseResult(ToolUseResult {
            id: s("atr_1"),
            request_id: s("atu_1"),
            conversation_id: c(),
            success: false,
            result: Some(json!({"partial": 12.25})),
            error_code: Some(s("timeout")),
            error_message: Some(s("too slow")),
        }),
        Body::Acknowledgement(Acknowledgement {
            conversation_id: c(),
            acknowledged_stanza_id: 1,
            success: true,
        }),
        Body::Transcription(Transcription {
            id: s("m2"),
            previous_id: Some(s("am_1")),
            conversation_id: c(),
            text: s("hi"),
            is_final: true,
            confidence: Some(0.5),
            language: Some(s("en")),
        }),
        Body::ControlStop(ControlStop {
            conversation_id: c(),
            target_id: Some(s("am_1")),
            reason: Some(s("enough")),
            stop_type: StopType::All,
        }),
        Body::ControlVariation(ControlVariation {
            conversation_id: c(),
            target_id: s("m1"),
            mode: VariationMode::Edit,
            new_content: Some(s("rather this")),
        }),
        Body::Configuration(Configuration {
            conversation_id: Some(c()),
            last_sequence_seen: Some(-40),
            client_version: Some(s("x/1")),
            preferred_language: Some(s("de")),
            device: Some(s("web")),
            features: Some(vec![s("streaming"), s("turn_meta")]),
            tools: Some(vec![OfferedTool {
                name: s("light"),
                description: s("switches it"),
                parameters: json!({"type": "object"}),
            }]),
        }),
        Body::StartAnswer(StartAnswer {
            id: s("am_1"),
            previous_id: s("m1"),
            conversation_id: c(),
            answer_type: Some(s("text")),
            planned_sentence_count: Some(2),
        }),
        Body::MemoryTrace(MemoryTrace {
            id: s("amem_1"),
            message_id: s("m1"),
            conversation_id: c(),
            memory_id: s("x"),
            content: s("likes tea"),
            relevance: 0.25,
        }),
        Body::Commentary(Commentary {
            id: s("aucc_1"),
            message_id: s("m1"),
            conversation_id: c(),
            content: s("nice"),
            commentary_type: Some(s("note")),
        }),
        Body::AssistantSentence(AssistantSentence {
            id: Some(s("ams_1")),
            previous_id: s("am_1"),
            conversation_id: c(),
            sequence: 1,
            text: s("Hello. "),
            is_final: Some(true),
            audio: Some(vec![1]),
        }),
        Body::ReasoningDelta(ReasoningDelta {
            id: s("ar_1"),
            previous_id: s("m1"),
            conversation_id: c(),
            step_index: 1,
            delta: s("Thi"),
        }),
        Body::TurnMeta(TurnMeta {
            message_id: s("m1"),
            conversation_id: c(),
            answer_id: Some(s("am_1")),
            input_tokens: Some(70_000),
            output_tokens: Some(20),
            reasoning_tokens: Some(5),
            exact: true,
            effort: Some(s("low")),
            thinking_ms: 1_200,
            total_ms: 5_000_000_000,
            interrupted: false,
        }),
        Body::ToolConsentRequest(ToolConsentRequest {
            id: s("atc_1"),
            request_id: s("atu_1"),
            message_id: s("m1"),
            conversation_id: c(),
            tool_name: s("mail"),
            parameters: Map::new(),
            reason: Some(s("sends mail")),
            timeout_ms: 60_000,
        }),
        Body::ToolConsent(ToolConsent { request_id: s("atu_1"), conversation_id: c(), allow: true }),
    ]
}

/// The same without its options.
fn bare(mut body: Body) -> Body {
    match &mut body {
        Body::ErrorMessage(body) => body.originating_id = None,
        Body::UserMessage(body) => (body.previous_id, body.timestamp, body.attachments) = (None, None, None),
        Body::AssistantMessage(body) => body.timestamp = None,
        Body::AudioChunk(body) => {
            (body.track_sid, body.data, body.is_last, body.timestamp) = (None, None, None, None);
        }
        Body::ReasoningStep(body) => body.total_steps = None,
        Body::ToolUseRequest(body) => body.timeout_ms = None,
        Body::ToolUseResult(body) => (body.result, body.error_code, body.error_message) = (None, None, None),
        Body::Transcription(body) => (body.previous_id, body.confidence, body.language) = (None, None, None),
        Body::ControlStop(body) => (body.target_id, body.reason) = (None, None),
        Body::ControlVariation(body) => body.new_content = None,
        Body::Configuration(body) => *body = Configuration::default(),
        Body::StartAnswer(body) => (body.answer_type, body.planned_sentence_count) = (None, None),
        Body::Commentary(body) => body.commentary_type = None,
        Body::AssistantSentence(body) => (body.id, body.is_final, body.audio) = (None, None, None),
        Body::TurnMeta(body) => {
            (body.answer_id, body.effort) = (None, None);
            (body.input_tokens, body.output_tokens, body.reasoning_tokens) = (None, None, None);
        }
        Body::ToolConsentRequest(body) => body.reason = None,
        Body::Acknowledgement(_)
        | Body::MemoryTrace(_)
        | Body::ReasoningDelta(_)
        | Body::ToolConsent(_)
        | Body::Unknown(_) => {}
    }
    body
}
