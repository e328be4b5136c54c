//! What an endpoint does, found out by asking it something tiny.
//!
//! Once it is asked to think, and once not to think but to call a tool. Where nobody said how its thinking is switched,
//! and it thought although it was not to, the other ways are tried too. What it said is looked at and forgotten.

use super::endpoint::Target;
use super::exchange::Exchange;
use super::patience::Patience;
use super::trouble::Trouble;
use futures_util::StreamExt;
use serde_json::json;
use sotto_core::model::request::Switch;
use sotto_core::model::stream::{Stream, StreamOptions};
use sotto_core::model::style::{self, Observation, Style, Thinking};
use sotto_core::model::{Message, Prompt, StreamError, ToolSpec};

/// Enough for a model to think about next to nothing.
const MAX_TOKENS: u64 = 512;
/// Enough for one that thinks a lot about it.
const MORE_TOKENS: u64 = 4096;
/// What is longer than this is not looked at to its end.
const MAX_BODY: usize = 1 << 20;

/// What asking an endpoint has shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Answers come piece by piece.
    pub streams: bool,
    /// How thinking arrives; `None` where it did not think when it was to.
    pub style: Option<Style>,
    /// How thinking arrives although there should be none; `None` where there is none.
    pub style_when_off: Option<Style>,
    /// It called a tool when that was the thing to do.
    pub calls_tools: bool,
    /// How its thinking is switched: as configured or, where that was to be found out, as found.
    pub switch: Switch,
}

impl Probe {
    /// Whether it thinks when it is to.
    pub fn thinks(self) -> bool {
        self.style.is_some()
    }

    /// Whether its answers begin inside the thinking.
    pub fn starts_inside(&self, thinking: bool) -> bool {
        let style = if thinking { self.style } else { self.style_when_off };
        style == Some(Style::Inside)
    }
}

/// Asks until it is known.
pub(super) async fn find_out(
    exchange: &Exchange,
    target: &Target,
    patience: Patience,
) -> Result<Probe, Trouble> {
    let mut asking = Asking { exchange, target, patience };
    let (first, others) = target.switches();
    let (mut switch, mut thinking) = (first, asking.observe(&question(true), first).await);
    for other in &others {
        if !matches!(thinking, Err(Trouble::Status { status: 400 | 422, .. })) {
            break;
        }
        // It does not even take this switch.
        (switch, thinking) = (*other, asking.observe(&question(true), *other).await);
    }
    let thinking = thinking?;
    let mut not_thinking = asking.observe_tools(switch).await?;
    // A model that always thinks cannot be switched by anything.
    if thinks(thinking) && thinks(not_thinking) && !target.starts_inside_by_name(false) {
        for other in others.into_iter().filter(|other| *other != switch) {
            if let Ok(found) = asking.observe_tools(other).await
                && !thinks(found)
            {
                (switch, not_thinking) = (other, found);
                break;
            }
        }
    }
    Ok(Probe {
        streams: thinking.streams,
        style: style_of(thinking),
        style_when_off: style_of(not_thinking),
        calls_tools: not_thinking.calls_tools,
        switch,
    })
}

/// What is asked: something that needs no thought or, without thinking, a tool.
pub(super) fn question(thinking: bool) -> Prompt {
    let user = |text: &str| vec![Message::User(text.to_owned())];
    if thinking {
        return Prompt { messages: user("Reply with the single word yes."), tools: Vec::new(), thinking };
    }
    let tool = ToolSpec {
        name: "ping".to_owned(),
        description: "Answers pong.".to_owned(),
        repeatable: true,
        parameters: json!({"type": "object", "properties": {}}),
    };
    Prompt { messages: user("Call the tool ping."), tools: vec![tool], thinking }
}

fn thinks(seen: Observation) -> bool {
    style_of(seen).is_some()
}

fn style_of(seen: Observation) -> Option<Style> {
    match seen.thinking {
        Thinking::Arrives(style) => Some(style),
        // So many words about a single one, and no end: it thinks, and nothing says where that began.
        Thinking::Unclear => Some(Style::Inside),
        Thinking::Absent => None,
    }
}

/// Why an answer did not come to its end.
fn error_in(answer: &[u8]) -> StreamError {
    let mut stream = Stream::new(StreamOptions::default());
    let mut chunks = stream.push(answer).into_iter().chain(stream.finish());
    chunks.find_map(Result::err).unwrap_or(StreamError::Truncated)
}

struct Asking<'a> {
    exchange: &'a Exchange,
    target: &'a Target,
    patience: Patience,
}

impl Asking<'_> {
    /// Without thinking, with a tool or, where the endpoint does not take tools at all, without.
    async fn observe_tools(&mut self, switch: Switch) -> Result<Observation, Trouble> {
        let question = question(false);
        match self.observe(&question, switch).await {
            Err(Trouble::Status { status: 400 | 404 | 422 | 500 | 501, .. }) => {
                self.observe(&Prompt { tools: Vec::new(), ..question }, switch).await
            }
            other => other,
        }
    }

    async fn observe(&mut self, question: &Prompt, switch: Switch) -> Result<Observation, Trouble> {
        let mut answer = self.answer(question, switch, MAX_TOKENS).await?;
        let mut seen = style::observe(&answer);
        if seen.thinking == Thinking::Unclear {
            answer = self.answer(question, switch, MORE_TOKENS).await?;
            seen = style::observe(&answer);
        }
        if seen.finished { Ok(seen) } else { Err(Trouble::Stream(error_in(&answer))) }
    }

    async fn answer(
        &mut self,
        question: &Prompt,
        switch: Switch,
        max_tokens: u64,
    ) -> Result<Vec<u8>, Trouble> {
        let mut options = self.target.endpoint.request.clone();
        options.switch = switch;
        options.max_tokens = Some(max_tokens);
        self.patience.ask();
        let mut body = self.exchange.ask(self.target, question, &options, &self.patience).await?;
        let mut answer = Vec::new();
        while answer.len() < MAX_BODY
            && let Some(bytes) = self.patience.wait_for(body.next()).await?
        {
            answer.extend(bytes?);
            self.patience.hear();
        }
        Ok(answer)
    }
}
