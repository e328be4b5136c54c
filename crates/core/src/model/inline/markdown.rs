//! Just enough markdown to know what is quoted: code spans and fenced blocks, character by character.
//!
//! A backtick alone says little: whether it opens a span shows only when the span closes. So a tag behind one is judged
//! by what follows ([`Markdown::mode`] is [`Mode::Span`] or [`Mode::FenceOpening`] then). Never keeps text.

/// Where in the markdown the next character stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// Outside of code.
    Plain,
    /// Behind so many backticks, which open a code span if as many close it.
    Span(usize),
    /// In the first line of a fence, behind its mark.
    FenceOpening(char, usize),
    /// Inside a fenced block.
    Fence(char, usize),
}

/// What the line holds so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line {
    /// White space at most.
    Blank,
    /// Indentation and signs of lists and quotations.
    Leading,
    /// A mark that closes the fence if nothing else follows.
    Closing,
    /// Anything else.
    Text,
}

/// Follows a text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Markdown {
    mode: Mode,
    line: Line,
    fences: bool,
    /// The marks (backticks or tildes) that were read last and may go on.
    run: usize,
    mark: char,
    run_leads: bool,
    escaped: bool,
}

impl Markdown {
    /// An answer: code spans and fences.
    pub(super) fn of_answer() -> Self {
        Self {
            mode: Mode::Plain,
            line: Line::Blank,
            fences: true,
            run: 0,
            mark: '`',
            run_leads: false,
            escaped: false,
        }
    }

    /// Thinking: code spans only. It is often cut off inside a fence, which then must not hide its end.
    pub(super) fn of_thinking() -> Self {
        Self { fences: false, ..Self::of_answer() }
    }

    /// Where the next character stands, given that it is no mark.
    pub(super) fn mode(&self) -> Mode {
        self.mode
    }

    /// Whether the last character was a mark.
    pub(super) fn behind_mark(&self) -> bool {
        self.run > 0
    }

    /// Whether the line holds only white space so far.
    pub(super) fn blank_line(&self) -> bool {
        self.line == Line::Blank
    }

    /// The marks before were no code after all.
    pub(super) fn unquote(&mut self) {
        self.mode = Mode::Plain;
    }

    /// The line ends, but the span that is open goes on.
    pub(super) fn feed_line_end_in_span(&mut self) {
        self.settle();
        let span = self.mode;
        self.feed('\n');
        self.mode = span;
    }

    /// The next character.
    pub(super) fn feed(&mut self, c: char) {
        let leading = matches!(self.line, Line::Blank | Line::Leading);
        let goes_on = self.run > 0 && c == self.mark;
        let escaped = std::mem::take(&mut self.escaped);
        if goes_on || (c == '`' && !escaped) || (c == '~' && leading) {
            if !goes_on {
                self.settle();
                self.mark = c;
                self.run_leads = leading;
            }
            self.run += 1;
            self.line = Line::Text;
            return;
        }
        self.settle();
        if c == '\n' {
            self.end_line();
        } else if !c.is_whitespace() {
            self.escaped = c == '\\' && !escaped && self.mode == Mode::Plain;
            let sign = matches!(c, '>' | '-' | '*' | '+' | '.' | ')' | '0'..='9');
            self.line = if leading && sign { Line::Leading } else { Line::Text };
        }
    }

    /// No mark follows: what the last ones mean is settled.
    pub(super) fn settle(&mut self) {
        let length = std::mem::take(&mut self.run);
        if length == 0 {
            return;
        }
        let fence = self.fences && self.run_leads && length >= 3;
        self.mode =
            match self.mode {
                Mode::Plain if fence => Mode::FenceOpening(self.mark, length),
                Mode::Plain if self.mark == '`' => Mode::Span(length),
                // A backtick in the first line of a fence of backticks: it was a span.
                Mode::Span(opened) | Mode::FenceOpening('`', opened) if self.mark == '`' => {
                    if length == opened { Mode::Plain } else { Mode::Span(opened) }
                }
                Mode::Fence(mark, opened) => {
                    if self.run_leads && mark == self.mark && length >= opened {
                        self.line = Line::Closing;
                    }
                    self.mode
                }
                mode => mode,
            };
    }

    fn end_line(&mut self) {
        self.mode = match self.mode {
            Mode::FenceOpening(mark, length) => Mode::Fence(mark, length),
            Mode::Fence(..) if self.line == Line::Closing => Mode::Plain,
            // A span may go on by the book, but a lone backtick is more common than a span of two lines.
            Mode::Span(_) => Mode::Plain,
            mode => mode,
        };
        self.line = Line::Blank;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode_behind(text: &str) -> Mode {
        let mut markdown = Markdown::of_answer();
        text.chars().for_each(|c| markdown.feed(c));
        markdown.settle();
        markdown.mode()
    }

    #[test]
    fn spans_close_with_as_many_marks() {
        assert_eq!(mode_behind("a `b"), Mode::Span(1));
        assert_eq!(mode_behind("a `b`"), Mode::Plain);
        assert_eq!(mode_behind("a ``b` c"), Mode::Span(2));
        assert_eq!(mode_behind("a ``b` c``"), Mode::Plain);
        assert_eq!(mode_behind("a `b\nc"), Mode::Plain);
        assert_eq!(mode_behind("a \\`b"), Mode::Plain);
        assert_eq!(mode_behind("`a\\` b"), Mode::Plain);
    }

    #[test]
    fn fences_last_until_their_own_mark() {
        assert_eq!(mode_behind("```rust"), Mode::FenceOpening('`', 3));
        assert_eq!(mode_behind("```rust\n\nx"), Mode::Fence('`', 3));
        assert_eq!(mode_behind("```rust\nx\n```"), Mode::Fence('`', 3));
        assert_eq!(mode_behind("```rust\nx\n```\n"), Mode::Plain);
        assert_eq!(mode_behind("```rust\nx\n``` y\n"), Mode::Fence('`', 3));
        assert_eq!(mode_behind("````\n```\n"), Mode::Fence('`', 4));
        assert_eq!(mode_behind("~~~\n```\n"), Mode::Fence('~', 3));
        assert_eq!(mode_behind("~~~ a ` b\nx\n~~~~\n"), Mode::Plain);
        assert_eq!(mode_behind("1. ```\n  x"), Mode::Fence('`', 3));
        assert_eq!(mode_behind("> ```\n> x\n> ```\n"), Mode::Plain);
        assert_eq!(mode_behind("```a``` b\n"), Mode::Plain);
        assert_eq!(mode_behind("a ```b"), Mode::Span(3));
        assert_eq!(mode_behind("a ~~~b\n"), Mode::Plain);
    }
}
