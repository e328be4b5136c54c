//! Thinking, chunk by chunk, becomes steps.
//!
//! A step is one thought: a paragraph, a point of a list, or, where neither ends in time, so much text as ends with a
//! sentence. Its text is passed on while it comes; only white space (it may be the end of the step) and what may or
//! may not be the end of a sentence wait for the next characters. Nothing that was passed on is ever taken back.
//!
//! May touch: text. Never: looks at time, or decides anything from how the thinking was cut into chunks.

#[cfg(test)]
mod tests;

use super::sentence::{flow::Flow, flow::is_border, stop};

/// A piece of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Goes on with the step under way.
    Text(String),
    /// The step is finished. The texts since the last end, joined, are its content.
    End,
}

/// Makes steps out of the thinking before one answer.
#[derive(Debug)]
pub struct Steps {
    max_chars: usize,
    flow: Flow,
    /// How much of the flow's text has been passed on.
    passed: usize,
    /// White space that goes with the step only if the step goes on.
    gap: String,
    /// How many characters the step has; none between two steps.
    len: usize,
    /// Its last one.
    last: char,
}

impl Steps {
    /// Steps of at most `max_chars` characters.
    pub fn new(max_chars: usize) -> Self {
        Self { max_chars, flow: Flow::default(), passed: 0, gap: String::new(), len: 0, last: ' ' }
    }

    /// Goes on with the thinking.
    pub fn push(&mut self, chunk: &str) -> Vec<Piece> {
        let mut pieces = Vec::new();
        for c in chunk.chars() {
            if let Some(end) = self.flow.take(c) {
                self.pass_on(end, &mut pieces);
                self.flow.cut(end);
                self.passed = 0;
            }
            self.pass_on(self.flow.certain(), &mut pieces);
        }
        pieces
    }

    /// The thinking has ended, or was interrupted: passes on what is left and ends the step under way.
    pub fn finish(&mut self) -> Vec<Piece> {
        let mut pieces = Vec::new();
        self.pass_on(self.flow.last(), &mut pieces);
        if self.len > 0 {
            pieces.push(Piece::End);
        }
        *self = Self::new(self.max_chars);
        pieces
    }

    fn pass_on(&mut self, to: usize, pieces: &mut Vec<Piece>) {
        while self.passed < to {
            let at = self.passed;
            // There is a character, as `to` ends one.
            let Some(c) = self.flow.text()[at..].chars().next() else { return };
            self.passed += c.len_utf8();
            if c.is_whitespace() {
                self.gap.push(c);
                continue;
            }
            if self.len > 0 && self.ends_before(at) {
                pieces.push(Piece::End);
                self.len = 0;
            }
            if self.len == 0 {
                self.gap.clear();
            }
            self.len += self.gap.chars().count() + 1;
            self.last = c;
            if !matches!(pieces.last(), Some(Piece::Text(_))) {
                pieces.push(Piece::Text(String::new()));
            }
            if let Some(Piece::Text(text)) = pieces.last_mut() {
                text.push_str(&self.gap);
                text.push(c);
            }
            self.gap.clear();
        }
    }

    /// Whether the step ends before the character at `at`. The fuller it is, the less it takes.
    fn ends_before(&self, at: usize) -> bool {
        let (code, first) = (self.flow.is_code(), at == self.flow.lead());
        let paragraph = !code && self.gap.matches('\n').nth(1).is_some();
        let point = first && self.flow.begins_item() && self.gap.ends_with('\n');
        if paragraph || point {
            return true;
        }
        let (len, max) = (self.len + self.gap.chars().count(), self.max_chars);
        let word = !self.gap.is_empty();
        let clause = !code && (stop::ends_clause(self.last) || stop::is_stop(self.last));
        let sentence_due = first && len >= if code { max * 5 / 6 } else { max / 2 };
        let clause_due = clause && (word || stop::is_wide(self.last)) && len >= max * 5 / 6;
        let word_due = word && len >= max * 11 / 12;
        // Some "characters" are hundreds of combining marks.
        let full = len >= max && (is_border(self.flow.text(), at) || len >= max + MAX_MARKS);
        sentence_due || clause_due || word_due || full
    }
}

/// How many combining marks a character may have before it is cut.
const MAX_MARKS: usize = 64;
