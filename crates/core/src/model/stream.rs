//! The bytes of an endpoint's answer become [`Chunk`]s: events, what they say, and what is inline in it, put together.
//!
//! Everything that came is passed on before an error is, and an error is the last thing that is said. An answer that came
//! whole, as one JSON object in place of a stream, is read too. Keeps no more than what is undecided, within limits;
//! never waits and never knows the time.

use super::chunk::{Decoder, Delta};
use super::fragments::{CallIds, Fragments};
use super::inline::{Ending, Inline, Piece};
use super::sse::{Event, Sse};
use super::{Chunk, Finish, StreamError, ToolCall, ToolSpec, Usage};
use serde_json::Value;

/// What has to be known beforehand.
#[derive(Clone, Debug, Default)]
pub struct StreamOptions {
    /// The template has opened the thinking, so content starts inside it: see [`style`](super::style).
    pub starts_inside: bool,
    /// The tools that were offered: their schemas give the types of arguments that models write as mere text.
    pub tools: Vec<ToolSpec>,
    /// How much is kept of what is not whole yet.
    pub limits: Limits,
}

/// How much of one thing is kept in memory, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// One event, or an answer that comes whole.
    pub event: usize,
    /// The tool calls of an answer; inline, one of them.
    pub calls: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { event: 1 << 20, calls: 1 << 18 }
    }
}

/// What came, in order. An error is always the last, and nothing comes after it.
pub type Chunks = Vec<Result<Chunk, StreamError>>;

/// Reads one answer.
#[derive(Debug)]
pub struct Stream {
    limits: Limits,
    body: Body,
    decoder: Decoder,
    inline: Inline,
    fragments: Fragments,
    ids: CallIds,
    usage: Option<Usage>,
    finish: Option<Finish>,
    said_anything: bool,
    called: bool,
    heard: u64,
    over: bool,
}

/// What the endpoint sends.
#[derive(Debug)]
enum Body {
    Unknown,
    Events(Sse),
    Whole(Vec<u8>),
}

impl Stream {
    /// Ready for the first byte.
    pub fn new(options: StreamOptions) -> Self {
        let limits = options.limits;
        Self {
            limits,
            body: Body::Unknown,
            decoder: Decoder::default(),
            inline: Inline::new(options.starts_inside, options.tools, limits.calls),
            fragments: Fragments::new(limits.calls),
            ids: CallIds::default(),
            usage: None,
            finish: None,
            said_anything: false,
            called: false,
            heard: 0,
            over: false,
        }
    }

    /// Whether all has been said: [`Chunk::Finish`] or an error. The connection is of no use any more.
    pub fn is_over(&self) -> bool {
        self.over
    }

    /// How often the model was heard: also in fragments of calls, which become a chunk only when they are whole, and never
    /// in comments. While this grows, the endpoint is at work.
    pub fn heard(&self) -> u64 {
        self.heard
    }

    /// Takes the next bytes, cut wherever the network likes.
    pub fn push(&mut self, mut bytes: &[u8]) -> Chunks {
        let mut chunks = Vec::new();
        if self.over {
            return chunks;
        }
        if matches!(self.body, Body::Unknown) {
            // White space and a byte order mark before anything else mean nothing in either form.
            let start =
                bytes.iter().position(|byte| !byte.is_ascii_whitespace() && !b"\xef\xbb\xbf".contains(byte));
            let Some(start) = start else { return chunks };
            bytes = &bytes[start..];
            self.body = match bytes[0] {
                b'{' => Body::Whole(Vec::new()),
                _ => Body::Events(Sse::new(self.limits.event)),
            };
        }
        let mut events = Vec::new();
        let read = match &mut self.body {
            Body::Unknown => Ok(()),
            Body::Events(sse) => sse.push(bytes, &mut events),
            Body::Whole(body) if body.len() + bytes.len() > self.limits.event => {
                Err(StreamError::TooLarge("the answer", self.limits.event))
            }
            Body::Whole(body) => {
                body.extend_from_slice(bytes);
                Ok(())
            }
        };
        self.events(&events, &mut chunks);
        if let Err(error) = read {
            self.fail(error, &mut chunks);
        }
        chunks
    }

    /// The body is over. Without a word from the endpoint that it had finished, that is an error. Also to be called when
    /// nothing more comes although the connection stays open: an answer that was finished but for `[DONE]` is good.
    pub fn finish(&mut self) -> Chunks {
        let mut chunks = Vec::new();
        let mut events = Vec::new();
        match std::mem::replace(&mut self.body, Body::Unknown) {
            _ if self.over => return chunks,
            Body::Unknown => {}
            Body::Events(mut sse) => {
                let read = sse.finish(&mut events);
                self.events(&events, &mut chunks);
                if let Err(error) = read {
                    self.fail(error, &mut chunks);
                }
            }
            Body::Whole(body) => self.whole(&body, &mut chunks),
        }
        if !self.over {
            match self.finish {
                Some(finish) => self.succeed(finish, &mut chunks),
                None => self.fail(StreamError::Truncated, &mut chunks),
            }
        }
        chunks
    }

    fn events(&mut self, events: &[Event], chunks: &mut Chunks) {
        for event in events {
            if self.over {
                return;
            }
            let mut deltas = Vec::new();
            let read = self.decoder.decode(event, &mut deltas);
            self.deltas(deltas, read, chunks);
        }
    }

    /// An answer in one piece, or one object after the other.
    fn whole(&mut self, body: &[u8], chunks: &mut Chunks) {
        for value in serde_json::Deserializer::from_slice(body).into_iter::<Value>() {
            if self.over {
                return;
            }
            let mut deltas = Vec::new();
            let read = match value {
                Ok(value) => self.decoder.value(&value, &mut deltas),
                Err(_) => Err(StreamError::Truncated),
            };
            self.deltas(deltas, read, chunks);
        }
    }

    fn deltas(&mut self, deltas: Vec<Delta>, read: Result<(), StreamError>, chunks: &mut Chunks) {
        for delta in deltas {
            if self.over {
                return;
            }
            if let Err(error) = self.delta(delta, chunks) {
                self.fail(error, chunks);
            }
        }
        if let Err(error) = read
            && !self.over
        {
            self.fail(error, chunks);
        }
    }

    fn delta(&mut self, delta: Delta, chunks: &mut Chunks) -> Result<(), StreamError> {
        self.heard += u64::from(matches!(delta, Delta::Reasoning(..) | Delta::Content(_) | Delta::Call(_)));
        match delta {
            Delta::Reasoning(_, text) => {
                self.inline.reasoning_comes_apart();
                self.say(Chunk::Reasoning(text), chunks);
            }
            Delta::Content(content) => {
                let mut pieces = Vec::new();
                let read = self.inline.push(&content, &mut pieces);
                self.pieces(pieces, chunks);
                read?;
            }
            Delta::Call(fragment) => self.fragments.push(fragment)?,
            // Some count anew in every event; the last word counts.
            Delta::Usage(usage) => self.usage = Some(usage),
            Delta::Finish(finish) => {
                self.finish = Some(finish);
                self.flush_inline(ending(finish), chunks)?;
            }
            Delta::Done => match self.finish {
                Some(finish) => self.succeed(finish, chunks),
                None if self.said_anything || !self.fragments.is_empty() => {
                    self.succeed(Finish::Stop, chunks);
                }
                None => self.fail(StreamError::Truncated, chunks),
            },
        }
        Ok(())
    }

    fn pieces(&mut self, pieces: Vec<Piece>, chunks: &mut Chunks) {
        for piece in pieces {
            let chunk = match piece {
                Piece::Reasoning(text) => Chunk::Reasoning(text),
                Piece::Text(text) => Chunk::Text(text),
                Piece::Call((name, arguments)) => {
                    Chunk::ToolCall(ToolCall { id: self.ids.take(None), name, arguments })
                }
            };
            self.say(chunk, chunks);
        }
    }

    /// Passes a chunk on, as one with its neighbour where that is the same kind of text.
    fn say(&mut self, chunk: Chunk, chunks: &mut Chunks) {
        self.said_anything = true;
        self.called |= matches!(chunk, Chunk::ToolCall(_));
        match (chunks.last_mut(), chunk) {
            (Some(Ok(Chunk::Text(before))), Chunk::Text(text))
            | (Some(Ok(Chunk::Reasoning(before))), Chunk::Reasoning(text)) => before.push_str(&text),
            (_, chunk) => chunks.push(Ok(chunk)),
        }
    }

    /// Decides what was held back of the content.
    fn flush_inline(&mut self, ending: Ending, chunks: &mut Chunks) -> Result<(), StreamError> {
        let mut pieces = Vec::new();
        let read = self.inline.finish(ending, &mut pieces);
        self.pieces(pieces, chunks);
        read
    }

    /// Decides whatever was held back.
    fn flush(&mut self, ending: Ending, chunks: &mut Chunks) -> Result<(), StreamError> {
        self.flush_inline(ending, chunks)?;
        for call in self.fragments.finish(ending == Ending::Finished, &mut self.ids) {
            self.say(Chunk::ToolCall(call), chunks);
        }
        Ok(())
    }

    fn succeed(&mut self, finish: Finish, chunks: &mut Chunks) {
        if let Err(error) = self.flush(ending(finish), chunks) {
            return self.fail(error, chunks);
        }
        self.over = true;
        chunks.extend(self.usage.map(|usage| Ok(Chunk::Usage(usage))));
        // Whether there are calls to answer is seen, not believed.
        let finish = match finish {
            Finish::Stop | Finish::ToolCalls if self.called => Finish::ToolCalls,
            Finish::Stop | Finish::ToolCalls => Finish::Stop,
            cut_short => cut_short,
        };
        chunks.push(Ok(Chunk::Finish(finish)));
    }

    fn fail(&mut self, error: StreamError, chunks: &mut Chunks) {
        self.over = true;
        // A limit that is met while flushing is not the news any more.
        let _ = self.flush(Ending::Cut, chunks);
        chunks.extend(self.usage.map(|usage| Ok(Chunk::Usage(usage))));
        chunks.push(Err(error));
    }
}

fn ending(finish: Finish) -> Ending {
    match finish {
        Finish::Stop | Finish::ToolCalls => Ending::Finished,
        Finish::Length | Finish::Filtered => Ending::Cut,
    }
}

#[cfg(test)]
mod generated;
#[cfg(test)]
mod recorded;
#[cfg(test)]
mod tests;
