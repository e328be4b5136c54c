//! What an agent told someone, in one short line each: what a test compares.

use sotto_core::wire::body::Body;

/// One line for a message. Ids are left out: they are different each time, and [`super::exchange`] looks at them.
pub(super) fn told(body: &Body) -> String {
    match body {
        Body::ErrorMessage(body) => {
            let again = if body.recoverable { "recoverable" } else { "final" };
            format!("error {} {again}", body.code)
        }
        Body::AssistantMessage(body) => format!("answer: {}", body.content),
        Body::ReasoningStep(body) => format!("step {}: {}", body.step_index, body.content),
        Body::ToolUseRequest(body) => {
            format!("tool {} {}", body.tool_name, serde_json::Value::Object(body.parameters.clone()))
        }
        Body::ToolUseResult(body) => match (&body.result, &body.error_code) {
            (Some(result), _) => format!("result {result}"),
            (None, code) => format!("failed {}", code.as_deref().unwrap_or_default()),
        },
        Body::Acknowledgement(body) => {
            format!("{} {}", if body.success { "ack" } else { "refused" }, body.acknowledged_stanza_id)
        }
        Body::Configuration(_) => "configuration".to_owned(),
        Body::StartAnswer(_) => "start".to_owned(),
        Body::AssistantSentence(body) => {
            let end = if body.is_final == Some(true) { " (final)" } else { "" };
            format!("{}: {}{end}", body.sequence, body.text)
        }
        Body::ToolConsentRequest(body) => format!("may it use {}?", body.tool_name),
        Body::ReasoningDelta(body) => format!("delta {}: {}", body.step_index, body.delta),
        Body::TurnMeta(body) => format!("meta{}", if body.interrupted { " (interrupted)" } else { "" }),
        Body::Commentary(body) => format!("comment {}", body.content),
        other => format!("unexpected: {other:?}"),
    }
}
