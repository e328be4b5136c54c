//! Envelopes for scripts: one JSON object per line.

use super::terminal::escape_controls;
use serde::Serialize;
use serde_json::{Map, Value};
use sotto_core::wire::Envelope;
use sotto_core::wire::body::Body;

/// An envelope as JSON has it, with the name of its type.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Readable<'a> {
    r#type: &'static str,
    stanza_id: i32,
    conversation_id: Option<&'a str>,
    meta: &'a Map<String, Value>,
    body: &'a Body,
}

impl<'a> Readable<'a> {
    pub(super) fn of(envelope: &'a Envelope) -> Self {
        Self {
            r#type: name(&envelope.body),
            stanza_id: envelope.stanza,
            conversation_id: envelope.conversation.as_deref(),
            meta: &envelope.meta,
            body: &envelope.body,
        }
    }
}

/// The envelope with the name of its type, and a line break.
pub(super) fn line(envelope: &Envelope) -> String {
    let json = serde_json::to_string(&Readable::of(envelope))
        .expect("bodies have text keys alone, and strings take all bytes");
    escape_controls(&json) + "\n"
}

/// How the protocol calls a type.
pub(super) fn name(body: &Body) -> &'static str {
    match body {
        Body::ErrorMessage(_) => "ErrorMessage",
        Body::UserMessage(_) => "UserMessage",
        Body::AssistantMessage(_) => "AssistantMessage",
        Body::AudioChunk(_) => "AudioChunk",
        Body::ReasoningStep(_) => "ReasoningStep",
        Body::ToolUseRequest(_) => "ToolUseRequest",
        Body::ToolUseResult(_) => "ToolUseResult",
        Body::Acknowledgement(_) => "Acknowledgement",
        Body::Transcription(_) => "Transcription",
        Body::ControlStop(_) => "ControlStop",
        Body::ControlVariation(_) => "ControlVariation",
        Body::Configuration(_) => "Configuration",
        Body::StartAnswer(_) => "StartAnswer",
        Body::MemoryTrace(_) => "MemoryTrace",
        Body::Commentary(_) => "Commentary",
        Body::AssistantSentence(_) => "AssistantSentence",
        Body::ReasoningDelta(_) => "ReasoningDelta",
        Body::TurnMeta(_) => "TurnMeta",
        Body::ToolConsentRequest(_) => "ToolConsentRequest",
        Body::ToolConsent(_) => "ToolConsent",
        Body::Unknown(_) => "Unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sotto_core::wire::body::AssistantSentence;

    #[test]
    fn an_envelope_is_one_line_with_the_name_of_its_type() {
        let body = Body::AssistantSentence(AssistantSentence {
            id: None,
            previous_id: "am_1".to_owned(),
            conversation_id: "room".to_owned(),
            sequence: 1,
            text: "One.\nTwo\u{9b}.".to_owned(),
            is_final: Some(true),
            audio: None,
        });
        let envelope = Envelope { stanza: -3, conversation: Some("room".to_owned()), meta: Map::new(), body };
        assert_eq!(
            line(&envelope),
            concat!(
                r#"{"type":"AssistantSentence","stanzaId":-3,"conversationId":"room","meta":{},"body":"#,
                r#"{"previousId":"am_1","conversationId":"room","sequence":1,"text":"One.\nTwo\u009b.","isFinal":true}}"#,
                "\n"
            )
        );
    }
}
