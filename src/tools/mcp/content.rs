//! What MCP tools answer, as something that a model can read.

use rmcp::ErrorData;
use rmcp::model::{
    CallToolResult, ContentBlock, ErrorCode, ProgressNotificationParam, Resource, ResourceContents,
};
use serde_json::Value;
use sotto_core::engine::event::ToolOutcome;

/// What a call came to.
pub(super) fn outcome(result: &CallToolResult) -> ToolOutcome {
    let text = || {
        let blocks: Vec<_> = result.content.iter().map(text_of).collect();
        blocks.join("\n")
    };
    if result.is_error == Some(true) {
        let text = text();
        return ToolOutcome::Failed(if text.trim().is_empty() {
            "the tool failed and did not say why".to_owned()
        } else {
            text
        });
    }
    let has_only_text = result.content.iter().all(|block| matches!(block, ContentBlock::Text(_)));
    match &result.structured_content {
        // The same again, by the protocol's rule, so that the text may be left out; other things may not.
        Some(structured) if !structured.is_null() && has_only_text => ToolOutcome::Done(structured.clone()),
        _ => ToolOutcome::Done(Value::String(text())),
    }
}

/// What an error came to.
pub(super) fn refusal(error: &ErrorData) -> ToolOutcome {
    let reason = error.message.to_string();
    if error.code == ErrorCode::INVALID_PARAMS {
        ToolOutcome::InvalidParameters(reason)
    } else {
        ToolOutcome::Failed(reason)
    }
}

/// How far it is.
pub(super) fn progress(told: &ProgressNotificationParam) -> String {
    let count = match told.total {
        Some(total) => format!("{} of {total}", told.progress),
        None => told.progress.to_string(),
    };
    match told.message.as_deref().map(str::trim) {
        None | Some("") => count,
        Some(message) => format!("{message} ({count})"),
    }
}

fn text_of(block: &ContentBlock) -> String {
    match block {
        ContentBlock::Text(text) => text.text.clone(),
        ContentBlock::Image(image) => unreadable("an image", &image.mime_type, &image.data),
        ContentBlock::Audio(audio) => unreadable("a sound", &audio.mime_type, &audio.data),
        ContentBlock::Resource(embedded) => match &embedded.resource {
            ResourceContents::TextResourceContents { uri, text, .. } => format!("[{uri}]\n{text}"),
            ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } => {
                let kind = mime_type.as_deref().unwrap_or("unknown");
                format!("[{uri}] {}", unreadable("a file", kind, blob))
            }
            _ => "[something of a kind that is not known here]".to_owned(),
        },
        ContentBlock::ResourceLink(resource) => link(resource),
        _ => "[something of a kind that is not known here]".to_owned(),
    }
}

/// What stands for bytes; four letters of base64 are three of them.
fn unreadable(what: &str, kind: &str, base64: &str) -> String {
    format!("[{what} of type {kind}, {} bytes, which cannot be shown here]", base64.len() / 4 * 3)
}

fn link(resource: &Resource) -> String {
    let title = resource.title.as_ref().unwrap_or(&resource.name);
    let description = resource.description.as_deref().map(|text| format!(": {text}")).unwrap_or_default();
    format!("[{title} is at {}{description}]", resource.uri)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn result(value: Value) -> CallToolResult {
        serde_json::from_value(value).expect("a result")
    }

    #[test]
    fn all_kinds_of_content_become_text() {
        let blocks = json!({"content": [
            {"type": "text", "text": "Here:"},
            {"type": "image", "data": "AAAAAAAA", "mimeType": "image/png"},
            {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"},
            {"type": "resource", "resource": {"uri": "demo://1", "mimeType": "text/plain", "text": "words"}},
            {"type": "resource", "resource": {"uri": "demo://2", "blob": "AAAA"}},
            {"type": "resource_link", "uri": "demo://3", "name": "three", "description": "the third"},
        ]});
        let expected = "Here:\n\
            [an image of type image/png, 6 bytes, which cannot be shown here]\n\
            [a sound of type audio/wav, 3 bytes, which cannot be shown here]\n\
            [demo://1]\nwords\n\
            [demo://2] [a file of type unknown, 3 bytes, which cannot be shown here]\n\
            [three is at demo://3: the third]";
        assert_eq!(outcome(&result(blocks)), ToolOutcome::Done(expected.into()));
    }

    #[test]
    fn what_is_structured_stays_so() {
        let structured =
            json!({"content": [{"type": "text", "text": "{\"a\": 1}"}], "structuredContent": {"a": 1}});
        assert_eq!(outcome(&result(structured)), ToolOutcome::Done(json!({"a": 1})));
    }

    #[test]
    fn a_tool_that_failed_says_so() {
        let failed = json!({"content": [{"type": "text", "text": "no such file"}], "isError": true});
        assert_eq!(outcome(&result(failed)), ToolOutcome::Failed("no such file".to_owned()));
        let silent = outcome(&result(json!({"content": [], "isError": true})));
        assert_eq!(silent, ToolOutcome::Failed("the tool failed and did not say why".to_owned()));
    }

    #[test]
    fn arguments_that_the_server_refuses_are_told_as_such() {
        let refused = refusal(&ErrorData::new(ErrorCode::INVALID_PARAMS, "a is missing", None));
        assert_eq!(refused, ToolOutcome::InvalidParameters("a is missing".to_owned()));
        let broken = refusal(&ErrorData::new(ErrorCode::INTERNAL_ERROR, "it broke", None));
        assert_eq!(broken, ToolOutcome::Failed("it broke".to_owned()));
    }

    #[test]
    fn progress_is_told_in_words() {
        let told = |value: Value| progress(&serde_json::from_value(value).expect("progress"));
        assert_eq!(told(json!({"progressToken": 1, "progress": 2, "total": 5})), "2 of 5");
        assert_eq!(told(json!({"progressToken": 1, "progress": 2})), "2");
        assert_eq!(
            told(json!({"progressToken": 1, "progress": 2, "total": 5, "message": "Reading"})),
            "Reading (2 of 5)"
        );
    }
}
