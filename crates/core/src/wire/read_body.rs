//! One function per message type: its keys, its aliases, and what must be there.
//!
//! A body's `conversationId` may be missing everywhere: the envelope's counts. Types that only the agent sends are
//! read too; our own terminal client is at the other end.

use super::Limits;
use super::body::{
    Acknowledgement, AssistantMessage, AssistantSentence, AudioChunk, Body, Commentary, Configuration,
    ControlStop, ControlVariation, ErrorMessage, MemoryTrace, OfferedTool, ReasoningDelta, ReasoningStep,
    StartAnswer, ToolConsent, ToolConsentRequest, ToolUseRequest, ToolUseResult, Transcription, TurnMeta,
    UserMessage,
};
use super::fault::Fault;
use super::fields::Fields;
use super::value::{
    any, binary, execution, flag, float32, int32, int64, object, stop_type, text, texts, timestamp,
    variation_mode,
};

/// Reads the fields of a body.
type Reader = fn(&Fields<'_>, &Limits) -> Result<Body, Fault>;

/// How the bodies of a type are read; `None` for a type that nobody here knows.
pub(super) fn reader_of(kind: u16) -> Option<Reader> {
    Some(match kind {
        1 => error_message,
        2 => user_message,
        3 => assistant_message,
        4 => audio_chunk,
        5 => reasoning_step,
        6 => tool_use_request,
        7 => tool_use_result,
        8 => acknowledgement,
        9 => transcription,
        10 => control_stop,
        11 => control_variation,
        12 => configuration,
        13 => start_answer,
        14 => memory_trace,
        15 => commentary,
        16 => assistant_sentence,
        64 => reasoning_delta,
        65 => turn_meta,
        66 => tool_consent_request,
        67 => tool_consent,
        _ => return None,
    })
}

fn conversation(body: &Fields<'_>) -> Result<String, Fault> {
    Ok(body.optional_text("conversationId")?.unwrap_or_default())
}

fn error_message(body: &Fields<'_>, _: &Limits) -> Result<Body, Fault> {
    Ok(Body::ErrorMessage(ErrorMessage {
        id: body.text("id")?,
        conversation_id: conversation(body)?,
        code: body.required("code", int32)?,
        message: body.text("message")?,
        severity: body.required("severity", int32)?,
        recoverable: body.required("recoverable", flag)?,
        originating_id: body.optional_text("originatingId")?,
    }))
}

fn user_message(body: &Fields<'_>, limits: &Limits) -> Result<Body, Fault> {
    let content = body.content("content", limits.content_bytes)?;
    let content = content.ok_or_else(|| Fault::Missing(body.name("content")))?;
    if content.is_empty() {
        return Err(Fault::Blank(body.name("content")));
    }
    Ok(Body::UserMessage(UserMessage {
        id: body.text("id")?,
        previous_id: body.optional_text("previousId")?,
        conversation_id: conversation(body)?,
        content,
        timestamp: body.optional("timestamp", timestamp)?,
        attachments: body.optional("attachments", any)?,
    }))
}

fn assistant_message(body: &Fields<'_>, _: &Limits) -> Result<Body, Fault> {
    Ok(Body::AssistantMessage(AssistantMessage {
        id: body.text("id")?,
        previous_id: body.text("previousId")?,
        conversation_id: conversation(body)?,
        content: body.text("content")?,
        timestamp: body.optional("timestamp", timestamp)?,
    }))
}

fn audio_chunk(body: &Fields<'_>, _: &Limits) -> Result<Body, Fault> {
    Ok(Body::AudioChunk(AudioChunk {
        conversation_id: conversation(body)?,
        format: body.text("format")?,
        sequence: body.aliased("sequence", "seq", int32)?,
        duration_ms: body.aliased("durationMs", "duration", int32)?,
        track_sid: body.optional_text("trackSid")?,
        data: body.optional("data", binary)?,
        is_last: body.optional("isLast", flag)?,
        timestamp: body.optional("timestamp", timestamp)?,
    }))
}

fn reasoning_step(body: &Fields<'_>, _: &Limits) -> Result<Body, Fault> {
    Ok(Body::ReasoningStep(ReasoningStep {
        id: body.text("id")?,
        conversation_id: conversation(body)?,
        previous_id: body.aliased("previousId", "messageId", text)?,
        content: body.text("content")?,
        step_index: body.aliased("stepIndex", "sequence", int32)?,
        total_steps: body.optional("totalSteps", int32)?,
    }))
}

fn tool_use_request(body: &Fields<'_>, _: &Limits) -> Result<Body, Fault> {
    Ok(Body::ToolUseRequest(ToolUseRequest {
        id: body.text("id")?,
        message_id: body.text("messageId")?,
        conversation_id: conversation(body)?,
        tool_name: body.text("toolName")?,
        parameters: body.required("parameters", object)?,
        execution: body.required("execution", execution)?,
        timeout_ms: body.optional("timeoutMs", int32)?,
    }))
}

fn tool_use_result(body: &Fields<'_>, _: &Limits) -> Result<Body, Fault> {
    let id = body.text("id")?;
    Ok(Body::ToolUseResult(ToolUseResult {
        // Some clients answer under the request's own id.
        request_id: body.optional_text("requestId")?.unwrap_or_else(|| id.clone()),
        id,
        conversation_id: conversation(body)?,
        success: body.required("success", flag)?,
        result: body.optional("result", any)?,
        error_code: body.optional_text("errorCode")?,
        error_message: body.optional_text("errorMessage")?,
    }))
}

fn acknowledgement(body: &Fields<'_>, _: &Limits) -> Result<Body, Fault> {
    Ok(Body::Acknowledgement(Acknowledgement {
        conversation_id: conversation(body)?,
        acknowledged_stanza_id: body.aliased("acknowledgedStanzaId", "lastSeenStanzaId", int32)?,
        success: body.required("success", flag)?,
    }))
}

fn transcription(body: &Fields<'_>, _: &Limits) -> Result<Body, Fault> {
    Ok(Body::Transcription(Transcription {
        id: body.text("id")?,
        previous_id: body.optional_text("previousId")?,
        conversation_id: conversation(body)?,
        text: body.text("text")?,
        is_final: body.required("final", flag)?,
        confidence: body.optional("confidence", float32)?,
        language: body.optional_text("language")?,
    }))
}

fn control_stop(body: &Fields<'_>, _: &Limits) -> Result<Body, Fault> {
    Ok(Body::ControlStop(ControlStop {
        conversation_id: conversation(body)?,
        target_id: body.optional_text("targetId")?,
        reason: body.optional_text("reason")?,
        stop_type: body.optional("stopType", stop_type)?.unwrap_or_default(),
    }))
}

fn control_variation(body: &Fields<'_>, limits: &Limits) -> Result<Body, Fault> {
    Ok(Body::ControlVariation(ControlVariation {
        conversation_id: conversation(body)?,
        target_id: body.text("targetId")?,
        mode: body.required("mode", variation_mode)?,
        new_content: body.content("newContent", limits.content_bytes)?,
    }))
}

fn configuration(body: &Fields<'_>, _: &Limits) -> Result<Body, Fault> {
    let tools = body.list("tools", "body.tools.")?;
    let tools = tools.map(|tools| tools.iter().map(offered_tool).collect::<Result<_, _>>()).transpose()?;
    Ok(Body::Configuration(Configuration {
        conversation_id: body.optional_text("conversationId")?,
        last_sequence_seen: body.optional("lastSequenceSeen", int32)?,
        client_version: body.optional_text("clientVersion")?,
        preferred_language: body.optional_text("preferredLanguage")?,
        device: body.optional_text("device")?,
        features: body.optional("features", texts)?,
        tools,
    }))
}

fn offered_tool(tool: &Fields<'_>) -> Result<OfferedTool, Fault> {
    Ok(OfferedTool {
        name: tool.text("name")?,
        description: tool.text("description")?,
        parameters: tool.required("parameters", any)?,
    })
}

fn start_answer(body: &Fields<'_>, _: &Limits) -> Result<Body, Fault> {
    Ok(Body::StartAnswer(StartAnswer {
        id: body.text("id")?,
        previous_id: body.text("previousId")?,
        conversation_id: conversation(body)?,
        answer_type: body.optional_text("answerType")?,
        planned_sentence_count: body.optional("plannedSentenceCount", int32)?,
    }))
}

fn memory_trace(body: &Fields<'_>, _: &Limits) -> Result<Body, Fault> {
    Ok(Body::MemoryTrace(MemoryTrace {
        id: body.text("id")?,
        message_id: body.text("messageId")?,
        conversation_id: conversation(body)?,
        memory_id: body.text("memoryId")?,
        content: body.text("content")?,
        relevance: body.required("relevance", float32)?,
    }))
}

fn commentary(body: &Fields<'_>, limits: &Limits) -> Result<Body, Fault> {
    let content = body.content("content", limits.content_bytes)?;
    Ok(Body::Commentary(Commentary {
        id: body.text("id")?,
        message_id: body.text("messageId")?,
        conversation_id: conversation(body)?,
        content: content.ok_or_else(|| Fault::Missing(body.name("content")))?,
        commentary_type: body.optional_text("commentaryType")?,
    }))
}

fn assistant_sentence(body: &Fields<'_>, _: &Limits) -> Result<Body, Fault> {
    Ok(Body::AssistantSentence(AssistantSentence {
        id: body.optional_text("id")?,
        previous_id: body.text("previousId")?,
        conversation_id: conversation(body)?,
        // Others count from 0, which is theirs to know.
        sequence: body.required("sequence", int32)?,
        text: body.text("text")?,
        is_final: body.optional("isFinal", flag)?,
        audio: body.optional("audio", binary)?,
    }))
}

fn reasoning_delta(body: &Fields<'_>, _: &Limits) -> Result<Body, Fault> {
    Ok(Body::ReasoningDelta(ReasoningDelta {
        id: body.text("id")?,
        previous_id: body.text("previousId")?,
        conversation_id: conversation(body)?,
        step_index: body.required("stepIndex", int32)?,
        delta: body.text("delta")?,
    }))
}

fn turn_meta(body: &Fields<'_>, _: &Limits) -> Result<Body, Fault> {
    Ok(Body::TurnMeta(TurnMeta {
        message_id: body.text("messageId")?,
        conversation_id: conversation(body)?,
        answer_id: body.optional_text("answerId")?,
        input_tokens: body.optional("inputTokens", int64)?,
        output_tokens: body.optional("outputTokens", int64)?,
        reasoning_tokens: body.optional("reasoningTokens", int64)?,
        exact: body.required("exact", flag)?,
        effort: body.optional_text("effort")?,
        thinking_ms: body.required("thinkingMs", int64)?,
        total_ms: body.required("totalMs", int64)?,
        interrupted: body.required("interrupted", flag)?,
    }))
}

fn tool_consent_request(body: &Fields<'_>, _: &Limits) -> Result<Body, Fault> {
    Ok(Body::ToolConsentRequest(ToolConsentRequest {
        id: body.text("id")?,
        request_id: body.text("requestId")?,
        message_id: body.text("messageId")?,
        conversation_id: conversation(body)?,
        tool_name: body.text("toolName")?,
        parameters: body.required("parameters", object)?,
        reason: body.optional_text("reason")?,
        timeout_ms: body.required("timeoutMs", int32)?,
    }))
}

fn tool_consent(body: &Fields<'_>, _: &Limits) -> Result<Body, Fault> {
    Ok(Body::ToolConsent(ToolConsent {
        request_id: body.text("requestId")?,
        conversation_id: conversation(body)?,
        allow: body.required("allow", flag)?,
    }))
}
