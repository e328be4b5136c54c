//! What a session tells whoever runs it: a span and figures for each turn, and what was said where that is wanted.

use super::Session;
use sotto_core::engine::event::{Count, TurnReport};
use sotto_core::engine::hook::Ruled;
use sotto_core::engine::record::{self, Record};
use std::time::Duration;
use tracing::{info, info_span, warn};

impl Session {
    /// What was said, for those who want it in their log.
    pub(super) fn log_content(&self, record: &Record) {
        let conversation = &self.room.name;
        match record {
            Record::Message(record::Message { id, from, text, .. }) => {
                info!(conversation, message_id = id, from, text, "asked");
            }
            Record::Answer(record::Answer { message, text, .. }) => {
                info!(conversation, message_id = message, text, "answered");
            }
            _ => {}
        }
    }

    pub(super) fn count(&self, what: Count, times: u32) {
        self.ports.metrics.count(what, times);
        // Other troubles of a hook are told by whoever asked it; that its time is over only the engine knows.
        if let Count::Hook(hook, Ruled::Late) = what {
            let (conversation, hook) = (&self.room.name, hook.name());
            warn!(conversation, hook, "the hook counts as away: it did not answer in time");
        }
    }

    pub(super) fn report(&self, report: &TurnReport) {
        self.ports.metrics.turn(report);
        let millis = |duration: Option<Duration>| duration.map(|duration| duration.as_millis() as u64);
        let span = info_span!(
            "turn",
            conversation = self.room.name,
            message_id = report.message,
            answer = report.answer,
            end = ?report.end,
            first_token_ms = millis(report.first_token),
            first_step_ms = millis(report.first_step),
            first_sentence_ms = millis(report.first_sentence),
            total_ms = millis(Some(report.total)),
            steps = report.steps,
            sentences = report.sentences,
            tools = report.tools,
            input_tokens = report.usage.input,
            output_tokens = report.usage.output,
        );
        span.in_scope(|| info!("turn ended"));
    }
}
