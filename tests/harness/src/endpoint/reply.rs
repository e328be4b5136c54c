//! What an endpoint is to answer, as a script of bytes, waits and faults, and how the different servers would put an
//! answer into bytes.

use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};
use tokio::sync::Semaphore;

/// One reply, as a script. Pieces that follow each other are written one by one.
#[derive(Clone, Debug)]
pub struct Reply {
    pub(super) head: Option<Head>,
    pub(super) steps: Vec<Step>,
}

#[derive(Clone, Debug)]
pub(super) struct Head {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
}

#[derive(Clone, Debug)]
pub(super) enum Step {
    Write(Vec<u8>),
    Wait(Gate),
    Pause(Duration),
    /// Say this over and over until the client goes away.
    Repeat(Vec<u8>, Duration),
    Stall,
    Close,
}

/// Holds replies back until a test lets them go on.
#[derive(Clone, Debug)]
pub struct Gate(pub(super) Arc<Semaphore>);

impl Gate {
    /// A gate that is closed.
    #[allow(clippy::new_without_default, reason = "a default gate would not say that it is closed")]
    pub fn new() -> Self {
        Self(Arc::new(Semaphore::new(0)))
    }

    /// Lets so many pieces pass.
    pub fn pass(&self, pieces: usize) {
        self.0.add_permits(pieces);
    }

    /// Lets everything pass from now on.
    pub fn open(&self) {
        self.0.close();
    }
}

impl Reply {
    /// An answer that is not a stream.
    pub fn status(status: u16, body: &str) -> Self {
        let headers = vec![("content-type".to_owned(), "application/json".to_owned())];
        Self { head: Some(Head { status, headers }), steps: vec![Step::Write(body.as_bytes().to_vec())] }
    }

    /// A stream of events, still empty.
    pub fn stream() -> Self {
        let headers = vec![("content-type".to_owned(), "text/event-stream".to_owned())];
        Self { head: Some(Head { status: 200, headers }), steps: Vec::new() }
    }

    /// Never a word, with the connection open.
    pub fn silence() -> Self {
        Self { head: None, steps: vec![Step::Stall] }
    }

    /// The connection is closed without a word.
    pub fn hang_up() -> Self {
        Self { head: None, steps: vec![Step::Close] }
    }

    /// The whole answer, as this kind of server streams it.
    pub fn answer(style: Style, answer: &Answer) -> Self {
        answer.events(style).iter().fold(Self::stream(), Self::event).done()
    }

    /// A short answer, as vLLM streams it.
    pub fn text(text: &str) -> Self {
        Self::answer(Style::Vllm, &Answer::default().text(text))
    }

    /// Adds a header field.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        if let Some(head) = &mut self.head {
            head.headers.push((name.to_owned(), value.to_owned()));
        }
        self
    }

    /// Goes on with these bytes, whatever they are.
    #[must_use]
    pub fn raw(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.steps.push(Step::Write(bytes.into()));
        self
    }

    /// Goes on with an event.
    #[must_use]
    pub fn event(self, data: &Value) -> Self {
        self.raw(format!("data: {data}\n\n"))
    }

    /// Goes on with a comment, as servers send to keep a connection alive.
    #[must_use]
    pub fn comment(self) -> Self {
        self.raw(": ping\n\n")
    }

    /// Sends comments for ever, so often, and nothing else.
    #[must_use]
    pub fn comments_for_ever(mut self, every: Duration) -> Self {
        self.steps.push(Step::Repeat(b": ping\n\n".to_vec(), every));
        self
    }

    /// Ends the stream in good form.
    #[must_use]
    pub fn done(self) -> Self {
        self.raw("data: [DONE]\n\n")
    }

    /// Waits at the gate before going on.
    #[must_use]
    pub fn wait(mut self, gate: &Gate) -> Self {
        self.steps.push(Step::Wait(gate.clone()));
        self
    }

    /// Takes its time before going on; for benchmarks.
    #[must_use]
    pub fn pause(mut self, duration: Duration) -> Self {
        self.steps.push(Step::Pause(duration));
        self
    }

    /// Says no more, with the connection open.
    #[must_use]
    pub fn stall(mut self) -> Self {
        self.steps.push(Step::Stall);
        self
    }

    /// Closes the connection in the middle of the body.
    #[must_use]
    pub fn close(mut self) -> Self {
        self.steps.push(Step::Close);
        self
    }

    /// Has every piece so far wait at the gate.
    #[must_use]
    pub fn gated(self, gate: &Gate) -> Self {
        self.before_each_piece(&Step::Wait(gate.clone()))
    }

    /// Takes so much time before every piece so far; for benchmarks.
    #[must_use]
    pub fn paced(self, pace: Duration) -> Self {
        self.before_each_piece(&Step::Pause(pace))
    }

    fn before_each_piece(mut self, before: &Step) -> Self {
        let steps = std::mem::take(&mut self.steps);
        self.steps = steps
            .into_iter()
            .flat_map(|step| match step {
                Step::Write(_) => vec![before.clone(), step],
                other => vec![other],
            })
            .collect();
        self
    }
}

/// Whose manner of streaming.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// `delta.reasoning`; tool calls in fragments.
    Vllm,
    /// `delta.reasoning_content`, unused fields null; usage in a chunk without choices; comments in between.
    LlamaCpp,
    /// Everything in `content`, with `<think>` and `<tool_call>` in it.
    Inline,
    /// The same, with the first `<think>` already in the prompt.
    InlineInside,
}

/// What a model says, before any server has put it into bytes.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    reasoning: Vec<String>,
    text: Vec<String>,
    calls: Vec<(String, Value)>,
    usage: Option<(u64, u64, u64)>,
}

impl Answer {
    /// One more piece of thinking.
    #[must_use]
    pub fn reasoning(mut self, piece: &str) -> Self {
        self.reasoning.push(piece.to_owned());
        self
    }

    /// One more piece of the answer.
    #[must_use]
    pub fn text(mut self, piece: &str) -> Self {
        self.text.push(piece.to_owned());
        self
    }

    /// One more tool call, after all text.
    #[must_use]
    pub fn call(mut self, name: &str, arguments: Value) -> Self {
        self.calls.push((name.to_owned(), arguments));
        self
    }

    /// The tokens to report: prompt, the cached part of it, output.
    #[must_use]
    pub fn usage(mut self, input: u64, cached: u64, output: u64) -> Self {
        self.usage = Some((input, cached, output));
        self
    }

    fn events(&self, style: Style) -> Vec<Value> {
        let mut deltas = vec![json!({"role": "assistant", "content": ""})];
        match style {
            Style::Vllm => self.fields(&mut deltas, "reasoning"),
            Style::LlamaCpp => self.fields(&mut deltas, "reasoning_content"),
            Style::Inline => self.inline(&mut deltas, true),
            Style::InlineInside => self.inline(&mut deltas, false),
        }
        let mut events: Vec<_> = deltas.iter().map(|delta| chunk(&json!([choice(delta, None)]))).collect();
        let inline = matches!(style, Style::Inline | Style::InlineInside);
        let reason = if self.calls.is_empty() || inline { "stop" } else { "tool_calls" };
        events.push(chunk(&json!([choice(&json!({}), Some(reason))])));
        if let Some((input, cached, output)) = self.usage {
            let mut usage = chunk(&json!([]));
            usage["usage"] = json!({
                "prompt_tokens": input, "completion_tokens": output, "total_tokens": input + output,
                "prompt_tokens_details": {"cached_tokens": cached}
            });
            events.push(usage);
        }
        events
    }

    fn fields(&self, deltas: &mut Vec<Value>, reasoning: &str) {
        deltas.extend(self.reasoning.iter().map(|piece| json!({ reasoning: piece, "content": null })));
        deltas.extend(self.text.iter().map(|piece| json!({ "content": piece })));
        for (index, (name, arguments)) in self.calls.iter().enumerate() {
            let id = format!("call-{index}");
            deltas.push(json!({"tool_calls": [
                {"index": index, "id": id, "type": "function", "function": {"name": name, "arguments": ""}}
            ]}));
            let arguments = arguments.to_string();
            let middle = arguments.len() / 2;
            let middle = (0..=middle).rev().find(|at| arguments.is_char_boundary(*at)).unwrap_or(0);
            for fragment in [&arguments[..middle], &arguments[middle..]] {
                deltas.push(json!({"tool_calls": [{"index": index, "function": {"arguments": fragment}}]}));
            }
        }
    }

    fn inline(&self, deltas: &mut Vec<Value>, opened: bool) {
        let mut say = |text: &str| deltas.push(json!({ "content": text }));
        if !self.reasoning.is_empty() {
            if opened {
                say("<think>\n");
            }
            self.reasoning.iter().for_each(|piece| say(piece));
            say("\n</think>\n\n");
        }
        self.text.iter().for_each(|piece| say(piece));
        for (name, arguments) in &self.calls {
            say("\n<tool_call>\n");
            say(&json!({"name": name, "arguments": arguments}).to_string());
            say("\n</tool_call>");
        }
    }
}

fn chunk(choices: &Value) -> Value {
    json!({
        "id": "chatcmpl-scripted", "object": "chat.completion.chunk", "created": 0, "model": "scripted",
        "choices": choices
    })
}

fn choice(delta: &Value, finish: Option<&str>) -> Value {
    json!({"index": 0, "delta": delta, "finish_reason": finish})
}
