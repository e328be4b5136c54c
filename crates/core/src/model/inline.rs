//! What models write inline: thinking between tags, and tool calls, found in the content whatever the server does.
//!
//! Text passes at once; only what may become a tag is held back, and a tag behind an open backtick until it shows whether
//! it is quoted. Tags in code spans and fenced blocks are words of the answer. What was passed on cannot be taken back: a
//! `</think>` that nothing opened is dropped, and what stood before it stays where it went. Never sees what the server
//! itself told apart.

mod body;
mod markdown;

use super::{StreamError, ToolSpec};
use body::{Beginning, Body, CLOSE, Call, OPEN};
use markdown::{Markdown, Mode};
use std::mem;

/// How far ahead is looked for the end of a code span around a tag, in bytes.
const FARTHEST_LOOK: usize = 4096;

/// What was found in the content.
#[derive(Debug, PartialEq)]
pub(super) enum Piece {
    /// Thinking.
    Reasoning(String),
    /// The answer.
    Text(String),
    /// A call of a tool.
    Call(Call),
}

/// Whether more content comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// It does.
    NotYet,
    /// The model came to its end by itself.
    Finished,
    /// The stream broke off, or met a limit.
    Cut,
}

/// Reads content, piece by piece.
#[derive(Debug)]
pub(super) struct Inline {
    tools: Vec<ToolSpec>,
    limit: usize,
    state: State,
    /// Content from `at` on is not decided yet.
    content: String,
    at: usize,
    markdown: Markdown,
    /// How a tag that may be quoted was judged so far.
    look: Option<Look>,
    /// White space that comes now stands behind a tag and belongs to nobody.
    behind_tag: bool,
    last_of_answer: Option<char>,
}

#[derive(Debug)]
enum State {
    Thinking {
        /// Opened by the template, not by the model.
        by_template: bool,
        /// Nothing but white space was thought so far.
        untouched: bool,
    },
    Answer,
    Call(Body),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tag {
    Think,
    ThinkEnd,
    Call,
    CallEnd,
}

const TAGS: [(&str, Tag); 6] = [
    ("<think>", Tag::Think),
    ("<thinking>", Tag::Think),
    ("</think>", Tag::ThinkEnd),
    ("</thinking>", Tag::ThinkEnd),
    (OPEN, Tag::Call),
    (CLOSE, Tag::CallEnd),
];

#[derive(Clone, Copy, Debug)]
struct Look {
    markdown: Markdown,
    seen: usize,
    /// The tag stands right behind the backticks: the span may go on over several lines.
    adjacent: bool,
}

enum Verdict {
    /// All of this is code.
    Quoted(Look),
    Bare,
    Unclear,
}

/// Whether the loop can go on or needs more content.
#[derive(PartialEq, Eq)]
enum Step {
    Again,
    Wait,
}

impl Inline {
    /// A reader for one answer. `starts_inside`: the template has opened the thinking already. A body of a call may
    /// have `limit` bytes; `tools` tell the types of values that come as text.
    pub(super) fn new(starts_inside: bool, tools: Vec<ToolSpec>, limit: usize) -> Self {
        let (state, markdown) = if starts_inside {
            (State::Thinking { by_template: true, untouched: true }, Markdown::of_thinking())
        } else {
            (State::Answer, Markdown::of_answer())
        };
        Self {
            tools,
            limit,
            state,
            content: String::new(),
            at: 0,
            markdown,
            look: None,
            behind_tag: false,
            last_of_answer: None,
        }
    }

    /// The server tells thinking apart by itself, so content that has not begun yet does not start inside it.
    pub(super) fn reasoning_comes_apart(&mut self) {
        if matches!(self.state, State::Thinking { by_template: true, untouched: true }) {
            self.enter_answer();
        }
    }

    /// Takes the next content.
    pub(super) fn push(&mut self, content: &str, pieces: &mut Vec<Piece>) -> Result<(), StreamError> {
        self.content.push_str(content);
        self.advance(Ending::NotYet, pieces)
    }

    /// No more content comes: whatever was held back is decided now.
    pub(super) fn finish(&mut self, ending: Ending, pieces: &mut Vec<Piece>) -> Result<(), StreamError> {
        self.advance(ending, pieces)
    }

    fn advance(&mut self, ending: Ending, pieces: &mut Vec<Piece>) -> Result<(), StreamError> {
        loop {
            let step = match mem::replace(&mut self.state, State::Answer) {
                State::Call(body) => self.call(body, ending, pieces)?,
                prose => {
                    self.state = prose;
                    self.prose(ending, pieces)
                }
            };
            if step == Step::Wait {
                break;
            }
        }
        self.content.drain(..self.at);
        self.at = 0;
        Ok(())
    }

    fn rest(&self) -> &str {
        &self.content[self.at..]
    }

    fn is_thinking(&self) -> bool {
        matches!(self.state, State::Thinking { .. })
    }

    /// Passes text on until a tag, or what may become one.
    fn prose(&mut self, ending: Ending, pieces: &mut Vec<Piece>) -> Step {
        if self.behind_tag {
            self.at = self.content.len() - self.rest().trim_start().len();
            self.behind_tag = self.rest().is_empty();
        }
        let mut passed = 0;
        let mut found = None;
        let rest = &self.content[self.at..];
        for (at, c) in rest.char_indices() {
            passed = at;
            if c == '<' {
                found = tag_at(&rest[at..]);
                let may_become = found.is_none() && TAGS.iter().any(|(tag, _)| tag.starts_with(&rest[at..]));
                if found.is_some() || (may_become && ending == Ending::NotYet) {
                    break;
                }
            }
            self.markdown.feed(c);
            passed = at + c.len_utf8();
        }
        self.pass(passed, pieces);
        match found {
            Some((length, tag)) => self.tag(length, tag, ending, pieces),
            None => Step::Wait,
        }
    }

    /// A whole tag stands at the beginning of the rest.
    fn tag(&mut self, length: usize, tag: Tag, ending: Ending, pieces: &mut Vec<Piece>) -> Step {
        let adjacent = self.markdown.behind_mark();
        self.markdown.settle();
        match self.markdown.mode() {
            Mode::Plain => {}
            Mode::Fence(..) => return self.pass_tag(length, pieces),
            Mode::Span(_) | Mode::FenceOpening(..) => match self.judge(length, adjacent, ending) {
                Verdict::Quoted(look) => {
                    self.markdown = look.markdown;
                    self.pass(look.seen, pieces);
                    return Step::Again;
                }
                Verdict::Bare => self.markdown.unquote(),
                Verdict::Unclear => return Step::Wait,
            },
        }
        match (&self.state, tag) {
            (_, Tag::Call) => return self.call_tag(length, ending, pieces),
            // A model that opens what the template has opened already.
            (State::Thinking { untouched: true, .. }, Tag::Think) => self.at += length,
            (State::Thinking { .. }, Tag::Think | Tag::CallEnd) => return self.pass_tag(length, pieces),
            (_, Tag::Think) => {
                self.at += length;
                self.state = State::Thinking { by_template: false, untouched: true };
                self.markdown = Markdown::of_thinking();
            }
            (_, Tag::ThinkEnd | Tag::CallEnd) => {
                self.at += length;
                self.enter_answer();
            }
        }
        Step::Again
    }

    fn call_tag(&mut self, length: usize, ending: Ending, pieces: &mut Vec<Piece>) -> Step {
        let behind = &self.rest()[length..];
        match body::begins(behind) {
            Beginning::Call(body) => {
                self.at += length;
                self.state = State::Call(body);
            }
            Beginning::Unclear if ending == Ending::NotYet => return Step::Wait,
            // Cut off right behind the tag, which nobody needs to see.
            Beginning::Unclear if behind.trim().is_empty() => self.at += length,
            Beginning::Unclear | Beginning::Prose => return self.pass_tag(length, pieces),
        }
        Step::Again
    }

    /// A tag that is a mere word.
    fn pass_tag(&mut self, length: usize, pieces: &mut Vec<Piece>) -> Step {
        let tag = &self.content[self.at..self.at + length];
        tag.chars().for_each(|c| self.markdown.feed(c));
        self.pass(length, pieces);
        Step::Again
    }

    /// Whether the code span around the tag at the beginning of the rest closes. It has to in the tag's own line, or,
    /// if the tag stands right behind the backticks, in its paragraph.
    fn judge(&mut self, tag: usize, adjacent: bool, ending: Ending) -> Verdict {
        let mut look = self.look.take().unwrap_or_else(|| {
            let mut markdown = self.markdown;
            self.rest()[..tag].chars().for_each(|c| markdown.feed(c));
            Look { markdown, seen: tag, adjacent: adjacent && !self.is_thinking() }
        });
        for c in self.content[self.at + look.seen..].chars() {
            if look.seen > FARTHEST_LOOK {
                return Verdict::Bare;
            }
            if c != '`' {
                look.markdown.settle();
                match look.markdown.mode() {
                    // The first line of a fence is as good as the fence.
                    Mode::FenceOpening(..) if c != '\n' => {}
                    Mode::Plain | Mode::Fence(..) | Mode::FenceOpening(..) => return Verdict::Quoted(look),
                    Mode::Span(_) if c == '\n' && (!look.adjacent || look.markdown.blank_line()) => {
                        return Verdict::Bare;
                    }
                    Mode::Span(_) => {}
                }
            }
            if c == '\n' {
                look.markdown.feed_line_end_in_span();
            } else {
                look.markdown.feed(c);
            }
            look.seen += c.len_utf8();
        }
        if ending == Ending::NotYet {
            self.look = Some(look);
            return Verdict::Unclear;
        }
        look.markdown.settle();
        let closed = !matches!(look.markdown.mode(), Mode::Span(_));
        // Cut off before it was clear: then nothing may be spoken that might have been a thought.
        if closed || (ending == Ending::Cut && self.is_thinking()) {
            Verdict::Quoted(look)
        } else {
            Verdict::Bare
        }
    }

    fn call(&mut self, mut body: Body, ending: Ending, pieces: &mut Vec<Piece>) -> Result<Step, StreamError> {
        let over = ending != Ending::NotYet;
        let extent = body.extent(self.rest(), over);
        if extent.map_or(self.rest().len(), |extent| extent.body) > self.limit {
            // What was meant as a call must not come out as an answer later.
            self.at = self.content.len();
            return Err(StreamError::TooLarge("a tool call", self.limit));
        }
        let Some(extent) = extent else {
            self.state = State::Call(body);
            return Ok(Step::Wait);
        };
        let finished = ending == Ending::Finished;
        pieces.push(Piece::Call(body.read(
            &self.rest()[..extent.body],
            extent.closed,
            finished,
            &self.tools,
        )));
        self.at += extent.consumed;
        self.enter_answer();
        Ok(Step::Again)
    }

    /// A hidden block is over. The white space behind it goes with it, unless that would join two words.
    fn enter_answer(&mut self) {
        self.state = State::Answer;
        self.markdown = Markdown::of_answer();
        self.behind_tag = self.last_of_answer.is_none_or(char::is_whitespace);
    }

    /// Passes on so many bytes of the rest.
    fn pass(&mut self, length: usize, pieces: &mut Vec<Piece>) {
        if length == 0 {
            return;
        }
        let text = self.content[self.at..self.at + length].to_owned();
        self.at += length;
        if let State::Thinking { untouched, .. } = &mut self.state {
            *untouched &= text.trim().is_empty();
            pieces.push(Piece::Reasoning(text));
        } else {
            self.last_of_answer = text.chars().next_back();
            pieces.push(Piece::Text(text));
        }
    }
}

fn tag_at(text: &str) -> Option<(usize, Tag)> {
    TAGS.iter().find(|(tag, _)| text.starts_with(tag)).map(|(text, tag)| (text.len(), *tag))
}

#[cfg(test)]
mod tests;
