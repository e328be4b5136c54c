//! The demo model: built in, needs nothing, and shows every feature offline.
//!
//! It thinks in several steps, calls the tools `calculator` and `time` where the question is one for them, and answers
//! in sentences; it says that it is the demo, and how to get a real model. The same prompt always gives the same
//! answer. What it says is decided in [`script`]; here it is only cut into pieces and paced. It never looks at a
//! clock, a file or a network, and it understands nothing: it looks for words.

mod question;
mod script;

use crate::ports::Model;
use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use sotto_core::model::{Chunk, Failure, Finish, Prompt, Usage};
use std::collections::VecDeque;
use std::time::Duration;

/// Forty pieces a second: the pace of a good endpoint.
const PACE: Duration = Duration::from_millis(25);

/// The demo model.
#[derive(Clone, Copy, Debug)]
pub struct Demo {
    pace: Duration,
}

impl Demo {
    /// A demo that takes this long for each piece, about a word; zero takes no time at all.
    pub fn with_pace(pace: Duration) -> Self {
        Self { pace }
    }
}

impl Default for Demo {
    fn default() -> Self {
        Self::with_pace(PACE)
    }
}

impl Model for Demo {
    fn answer(&self, prompt: Prompt) -> BoxStream<'static, Result<Chunk, Failure>> {
        let pace = self.pace;
        stream::unfold(chunks(&prompt), move |mut chunks| async move {
            let chunk = chunks.pop_front()?;
            let is_a_piece = matches!(chunk, Chunk::Reasoning(_) | Chunk::Text(_));
            if is_a_piece && !pace.is_zero() {
                tokio::time::sleep(pace).await;
            }
            Some((Ok(chunk), chunks))
        })
        .boxed()
    }
}

/// The whole answer, cut into the pieces that an endpoint would send.
fn chunks(prompt: &Prompt) -> VecDeque<Chunk> {
    let answer = script::answer(prompt);
    let mut chunks = VecDeque::new();
    let thoughts = if prompt.thinking { answer.thoughts.join("\n\n") } else { String::new() };
    chunks.extend(pieces(&thoughts).map(Chunk::Reasoning));
    chunks.extend(pieces(&answer.text).map(Chunk::Text));
    let finish = if answer.calls.is_empty() { Finish::Stop } else { Finish::ToolCalls };
    chunks.extend(answer.calls.into_iter().map(Chunk::ToolCall));
    chunks.push_back(Chunk::Usage(Usage {
        input: script::prompt_tokens(prompt),
        output: tokens(&thoughts) + tokens(&answer.text),
        reasoning: Some(tokens(&thoughts)),
        cached: None,
    }));
    chunks.push_back(Chunk::Finish(finish));
    chunks
}

/// Words with the white space before them, so that joined they are the text.
fn pieces(text: &str) -> impl Iterator<Item = String> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let word = rest.find(|c: char| !c.is_whitespace())?;
        let end = rest[word..].find(char::is_whitespace).map_or(rest.len(), |length| word + length);
        let (piece, after) = rest.split_at(end);
        rest = after;
        Some(piece.to_owned())
    })
}

/// About as many tokens as a real model would have made of it.
fn tokens(text: &str) -> u64 {
    text.len().div_ceil(4) as u64
}

#[cfg(test)]
mod tests;
