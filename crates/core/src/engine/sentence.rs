//! An answer, delta by delta, becomes sentences.
//!
//! The answer runs from its first to its last character that is not white space. Each sentence is its exact slice;
//! white space between two sentences is the front of the second, so that all sentences joined are the answer byte
//! for byte. A sentence goes out as soon as it is certain, which takes the character after it and sometimes the
//! word after it. When in doubt it goes on: a sentence too long is a short delay, "Dr." alone is a mistake.
//!
//! May touch: text. Never: waits, looks at time, or decides anything from how the text was cut into deltas. Each
//! character is looked at a bounded number of times.
//!
//! - `flow`: the text under way, character by character, and where a sentence may end.
//! - `line`: what the beginning of a line says about it (list item, heading, table, code).
//! - `stop`: whether a full stop ends a sentence, from what surrounds it.
//! - `words`: abbreviations and words that begin sentences.
//!
//! Written by hand although `sentencex` knows more languages: it needs the whole paragraph (a quote or bracket that
//! closes later changes earlier ends), so that streaming would mean splitting the paragraph anew for each delta and
//! taking back what was already sent; it knows no code blocks and tables; it wants the language beforehand; and it
//! always brings its command line (`clap`), `regex` and a newer compiler than ours.

pub(crate) mod flow;
mod line;
pub(crate) mod stop;
#[cfg(test)]
mod tests;
mod words;

use flow::Flow;

/// The longest sentence, in characters, not counting the white space in front.
pub const MAX_CHARS: usize = 200;

/// The same for what loses its meaning when it is cut: a line of code, a row of a table, a link.
pub const MAX_UNBROKEN_CHARS: usize = 1000;

/// Makes sentences out of one answer.
#[derive(Debug, Default)]
pub struct Splitter {
    flow: Flow,
}

impl Splitter {
    /// For an answer that has not begun.
    pub fn new() -> Self {
        Self::default()
    }

    /// Goes on with the answer; returns the sentences that are now certain.
    pub fn push(&mut self, delta: &str) -> Vec<String> {
        let mut sentences = Vec::new();
        for c in delta.chars() {
            if let Some(end) = self.flow.take(c) {
                sentences.push(self.flow.cut(end));
            }
            // White space never makes a sentence too long: it may turn out to be the end of the answer.
            if !c.is_whitespace()
                && let Some(end) = self.end_if_too_long()
            {
                sentences.push(self.flow.cut(end));
            }
        }
        sentences
    }

    /// What is left, without the white space at its end; none when nothing is left.
    ///
    /// If the answer goes on after all (it spoke before a tool ran), that white space is the front of what follows.
    pub fn finish(&mut self) -> Option<String> {
        self.flow.has_text().then(|| self.flow.cut(self.flow.last()))
    }

    fn end_if_too_long(&self) -> Option<usize> {
        let limit = if self.flow.is_unbroken() { MAX_UNBROKEN_CHARS } else { MAX_CHARS };
        (self.flow.len() > limit).then(|| place_to_cut(&self.flow, limit))
    }
}

/// Where to cut a sentence that is too long: after a full stop that did not seem to end it, else after a clause, else
/// between words, else between characters.
fn place_to_cut(flow: &Flow, limit: usize) -> usize {
    let (text, start) = (flow.text(), flow.lead());
    let (mut stop, mut clause, mut word, mut before) = (None, None, None, None);
    for (nth, (at, c)) in text[start..].char_indices().map(|(at, c)| (start + at, c)).enumerate() {
        let late_enough = nth >= limit / 3;
        if let Some(last) = before
            && flow::is_border(text, at)
        {
            let gap = c.is_whitespace();
            if late_enough && !flow.is_unbroken() {
                if stop::is_stop(last) && (gap || stop::is_wide(last)) {
                    stop = Some(at);
                } else if stop::ends_clause(last) && (gap || stop::is_wide(last)) {
                    clause = Some(at);
                }
            }
            if gap {
                word = Some(at);
            }
        }
        before = (!c.is_whitespace()).then_some(c);
    }
    stop.or(clause).or(word).unwrap_or_else(|| flow::last_border(text, start))
}
