//! The text under way, one character at a time: what has not gone out yet, on what kind of line it is, and the
//! places where a sentence may have ended.
//!
//! Everything is decided character by character, so that no decision can depend on how the text was cut into deltas.
//! May touch: its own text. Never: decides how long a sentence or a step may be; its users do.

use super::line::{self, Fence, Line};
use super::stop::{self, Verdict};
use unicode_segmentation::{GraphemeCursor, UnicodeSegmentation};

/// What has not gone out yet. All positions are bytes in `text`.
#[derive(Debug, Default)]
pub(crate) struct Flow {
    text: String,
    /// Whether anything but white space ever came. What is before it belongs to nothing.
    begun: bool,
    /// How much white space is in front.
    lead: usize,
    /// How many characters there are after that.
    len: usize,
    /// Where the last character that is not white space ends.
    last: usize,
    /// A full stop that may end the sentence; what follows will tell.
    stop: Option<usize>,
    line: Line,
    /// Where the text of the line begins, once it has some that has not gone out.
    line_from: Option<usize>,
    /// Whether the beginning of the line has gone out already.
    line_cut: bool,
    /// The end of the line before this one, and its kind, as long as it may end the sentence.
    line_end: Option<(usize, Line)>,
    /// The code block under way.
    fence: Option<Fence>,
    ticks: Ticks,
    /// Whether the word under way is a link.
    link: bool,
}

/// Code inside a line: begins with some backticks and ends with as many.
#[derive(Debug, Default)]
struct Ticks {
    open: usize,
    run: usize,
}

impl Ticks {
    fn take(&mut self, c: char) {
        if c == '`' {
            self.run += 1;
        } else if self.run > 0 {
            if self.open == 0 {
                self.open = self.run;
            } else if self.open == self.run {
                self.open = 0;
            }
            self.run = 0;
        }
    }
}

impl Flow {
    /// Takes the next character. If it makes certain where the sentence under way ends, returns that place, for
    /// [`Flow::cut`].
    pub(crate) fn take(&mut self, c: char) -> Option<usize> {
        let white = c.is_whitespace();
        if white && !self.begun {
            return None;
        }
        self.begun = true;
        let at = self.text.len();
        let follows_white = self.last < at;
        self.text.push(c);
        if white {
            self.link = false;
        } else {
            self.last = self.text.len();
            self.link |= c == '/' && self.text.ends_with("://");
        }
        if white && self.lead == at {
            self.lead = self.text.len();
        } else {
            self.len += 1;
        }

        self.ticks.take(c);
        let line_end = if c == '\n' { self.end_line() } else { self.go_on_with_line(c, at) };
        // White space after white space tells nothing new.
        let stop_end = if white && follows_white { None } else { self.answer_stop() };
        if self.stop.is_none() && stop::is_stop(c) && self.reads_sentences() {
            self.stop = Some(at);
        }
        line_end.or(stop_end)
    }

    /// Hands out everything before `at`; the rest is the beginning of the next sentence.
    pub(crate) fn cut(&mut self, at: usize) -> String {
        let rest = self.text.split_off(at);
        let sentence = std::mem::replace(&mut self.text, rest);
        self.last = self.last.saturating_sub(at);
        self.stop = self.stop.and_then(|stop| stop.checked_sub(at));
        self.line_end = self.line_end.filter(|(end, _)| *end > at).map(|(end, line)| (end - at, line));
        if let Some(from) = self.line_from {
            self.line_from = from.checked_sub(at);
            self.line_cut |= self.line_from.is_none();
        }
        self.link &= self.text.contains("://");
        let text = self.text.trim_start();
        self.lead = self.text.len() - text.len();
        self.len = text.chars().count();
        sentence
    }

    /// What has not gone out yet.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// How much of it is white space in front.
    pub(crate) fn lead(&self) -> usize {
        self.lead
    }

    /// How many characters follow that.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Where its last character that is not white space ends.
    pub(crate) fn last(&self) -> usize {
        self.last
    }

    /// Whether there is anything but white space.
    pub(crate) fn has_text(&self) -> bool {
        self.last > self.lead
    }

    /// Up to where the text surely belongs to the sentence under way.
    pub(crate) fn certain(&self) -> usize {
        let unclear_line = if self.line == Line::Unclear { self.line_from } else { None };
        let line_end = self.line_end.map(|(end, _)| end);
        [unclear_line, line_end, self.stop].into_iter().flatten().fold(self.last, usize::min)
    }

    /// Whether the line under way is code in a block.
    pub(crate) fn is_code(&self) -> bool {
        self.line == Line::Code
    }

    /// Whether the sentence under way is the beginning of a list item.
    pub(crate) fn begins_item(&self) -> bool {
        self.line == Line::Item && self.line_from == Some(self.lead)
    }

    /// Whether what is under way had better not be cut: a line of code, a row of a table, a link.
    pub(crate) fn is_unbroken(&self) -> bool {
        self.link || matches!(self.line, Line::Code | Line::Fence | Line::Row)
    }

    fn reads_sentences(&self) -> bool {
        let prose = matches!(self.line, Line::Unclear | Line::Text | Line::Item | Line::Quote);
        prose && self.ticks.open == 0 && self.ticks.run == 0
    }

    fn answer_stop(&mut self) -> Option<usize> {
        match stop::judge(&self.text, self.stop?) {
            Verdict::Unclear => None,
            Verdict::GoesOn => {
                self.stop = None;
                None
            }
            Verdict::Ends(end) => {
                self.stop = None;
                Some(end)
            }
        }
    }

    fn go_on_with_line(&mut self, c: char, at: usize) -> Option<usize> {
        if self.line_from.is_none() && !self.line_cut && !c.is_whitespace() {
            self.line_from = Some(at);
        }
        self.recognise_line();
        if self.line == Line::Unclear {
            return None;
        }
        let (end, before) = self.line_end.take()?;
        let first = self.line_from.and_then(|from| self.text[from..].chars().next());
        let goes_on = match (before, self.line) {
            (Line::Item, Line::Text) => first.is_some_and(char::is_lowercase),
            (before, now) => now == Line::Text || (before, now) == (Line::Quote, Line::Quote),
        };
        (!goes_on).then_some(end)
    }

    fn end_line(&mut self) -> Option<usize> {
        self.recognise_line();
        let whole = if self.line_cut { None } else { self.line_from.map(|from| &self.text[from..self.last]) };
        let end = match self.line {
            // A blank line.
            Line::Unclear => self.line_end.take().map(|(end, _)| end),
            Line::Code | Line::Fence | Line::Heading | Line::Row | Line::Rule => Some(self.last),
            Line::Text if whole.is_some_and(line::is_bold) => Some(self.last),
            Line::Text | Line::Item | Line::Quote => {
                self.line_end = self.has_text().then_some((self.last, self.line));
                None
            }
        };
        match (self.line, whole, self.fence) {
            (Line::Fence, Some(whole), _) => self.fence = Fence::opened_by(whole),
            (Line::Code, Some(whole), Some(fence)) if fence.is_closed_by(whole) => self.fence = None,
            _ => {}
        }
        self.line = if self.fence.is_some() { Line::Code } else { Line::Unclear };
        self.line_from = None;
        self.line_cut = false;
        self.ticks = Ticks::default();
        end.filter(|_| self.has_text())
    }

    fn recognise_line(&mut self) {
        if self.line == Line::Unclear
            && let Some(from) = self.line_from
        {
            self.line = line::opening(&self.text[from..]);
        }
    }
}

/// Whether a character, as people see it, ends at `at`.
pub(crate) fn is_border(text: &str, at: usize) -> bool {
    // Unicode joins a few Arabic signs even to the white space after them; people see two things there.
    let before_gap =
        text[at..].starts_with(char::is_whitespace) && !text[..at].ends_with(char::is_whitespace);
    // An error would mean that text is missing, and all of it is here.
    before_gap || GraphemeCursor::new(at, text.len(), true).is_boundary(text, 0).unwrap_or(true)
}

/// The last place after `start` where a character, as people see it, begins. A single "character" of hundreds of
/// combining marks is nothing people see; it is cut before its last mark.
pub(crate) fn last_border(text: &str, start: usize) -> usize {
    let cluster = text[start..].grapheme_indices(true).next_back().map(|(at, _)| at);
    let char = text[start..].char_indices().next_back().map(|(at, _)| at);
    [cluster, char].into_iter().flatten().find(|at| *at > 0).map_or(text.len(), |at| start + at)
}
