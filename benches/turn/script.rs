//! What the scripted model says, how fast, and which of its pieces completes which sentence.

use crate::relay;
use serde_json::{Value, json};
use sotto_core::engine::sentence::Splitter;
use sotto_harness::endpoint::{Endpoint, Reply, Request};
use std::time::Duration;

/// How questions begin, so that the model can tell them from what the agent itself wants to know.
const QUESTION: &str = "Question";
/// How fast a paced model speaks.
pub(crate) const TOKENS_PER_SECOND: f64 = 30.0;
/// Between two tokens, for so many of them: timers take about a millisecond more than they are told.
pub(crate) const PACE: Duration = Duration::from_millis(32);

/// An answer that never changes.
#[derive(Clone)]
pub(crate) struct Script {
    /// How long until the model begins.
    before: Duration,
    /// How long between two tokens.
    pace: Duration,
    tokens: Vec<String>,
}

impl Script {
    /// So many sentences of twelve tokens, a word each.
    pub(crate) fn of_sentences(count: usize, pace: Duration) -> Self {
        let words = "It takes about twelve small tokens until each of these sentences ends.";
        let tokens = (0..count).flat_map(|_| words.split(' ')).map(|word| format!("{word} ")).collect();
        Self { before: Duration::ZERO, pace, tokens }
    }

    /// The same, from a model that takes its time to begin.
    pub(crate) fn after(self, before: Duration) -> Self {
        Self { before, ..self }
    }

    /// Lets the endpoint answer every question so.
    pub(crate) fn play(&self, endpoint: &Endpoint) {
        let script = self.clone();
        endpoint.reply_by(move |request| {
            if is_question(request) {
                script.reply(request)
            } else {
                relay::reply(request).unwrap_or_else(|| Reply::text("Yes."))
            }
        });
    }

    /// For each sentence, the piece of the reply (as the endpoint counts what it writes) that makes it certain: the agent
    /// itself must wait for the word after a full stop, and at the end for the end.
    pub(crate) fn completing_pieces(&self) -> Vec<usize> {
        let mut splitter = Splitter::new();
        let mut pieces = Vec::new();
        for (token, text) in self.tokens.iter().enumerate() {
            // The first piece only tells the role.
            pieces.extend(splitter.push(text).iter().map(|_| token + 1));
        }
        pieces.extend(splitter.finish().map(|_| self.tokens.len() + 1));
        pieces
    }

    fn reply(&self, request: &Request) -> Reply {
        let role = chunk(&json!({"role": "assistant", "content": ""}), None);
        let reply = Reply::stream().pause(self.before).event(&role);
        let told = self.tokens.iter().map(|token| chunk(&json!({ "content": token }), None));
        let mut reply = told.fold(reply, |reply, event| reply.event(&event));
        if !self.pace.is_zero() {
            reply = reply.paced(self.pace);
        }
        // A token is about 4 bytes; the agent learns from these figures how much fits.
        let (input, output) = (request.prompt / 4, self.tokens.len());
        let usage = json!({
            "prompt_tokens": input, "completion_tokens": output, "total_tokens": input + output,
            "prompt_tokens_details": {"cached_tokens": request.cached / 4}
        });
        reply.event(&chunk(&json!({}), Some("stop"))).event(&json!({"choices": [], "usage": usage})).done()
    }
}

/// A question that is told apart from all others.
pub(crate) fn question_text(room: &str, number: usize) -> String {
    format!("{QUESTION} {number} of {room}: what would you say about it, in a few words?")
}

/// Whether someone asks, and not the agent for itself.
pub(crate) fn is_question(request: &Request) -> bool {
    question(request).starts_with(QUESTION)
}

/// What was asked last.
pub(crate) fn question(request: &Request) -> &str {
    let messages = request.body["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
    messages.last().and_then(|message| message["content"].as_str()).unwrap_or_default()
}

fn chunk(delta: &Value, finish: Option<&str>) -> Value {
    json!({
        "id": "chatcmpl-scripted", "object": "chat.completion.chunk", "created": 0, "model": "scripted",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]
    })
}
