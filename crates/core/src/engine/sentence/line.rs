//! What the beginning of a line says about it: Markdown, as models write it, and no more of it than decides where a
//! sentence ends.

/// A kind of line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Line {
    /// Nothing or too little of it is known.
    #[default]
    Unclear,
    /// Prose.
    Text,
    /// A list item.
    Item,
    /// Prose in a quotation.
    Quote,
    /// A heading.
    Heading,
    /// A row of a table.
    Row,
    /// A line across the page.
    Rule,
    /// The beginning of a code block.
    Fence,
    /// Inside a code block, or its end.
    Code,
}

/// After so many equal marks a line is decided, whatever follows: each character is looked at a bounded number of times.
const CERTAIN_MARKS: usize = 64;

/// What kind of line begins so. `begin` starts with the line's first character that is not white space.
pub(super) fn opening(begin: &str) -> Line {
    let Some(first) = begin.chars().next() else { return Line::Unclear };
    let marks = begin.chars().take_while(|c| *c == first).count();
    let rest = begin.trim_start_matches(first);
    let gap = rest.starts_with(char::is_whitespace);
    match first {
        '>' => Line::Quote,
        '|' => Line::Row,
        '•' | '◦' | '▪' | '‣' => Line::Item,
        '`' | '~' if marks >= 3 => Line::Fence,
        '-' | '*' | '_' if marks >= CERTAIN_MARKS => Line::Rule,
        '#' | '`' | '~' | '-' | '*' | '+' | '_' if rest.is_empty() && marks < CERTAIN_MARKS => Line::Unclear,
        '#' if gap && marks <= 6 => Line::Heading,
        '-' | '*' | '+' if gap && marks == 1 => Line::Item,
        '-' | '*' | '_' if gap && marks >= 3 => Line::Rule,
        '0'..='9' => numbered(begin),
        _ => Line::Text,
    }
}

/// "1. " and "1) " are list items, "3.14" and "2024" are not.
fn numbered(begin: &str) -> Line {
    let rest = begin.trim_start_matches(|c: char| c.is_ascii_digit());
    let digits = begin.len() - rest.len();
    let marked = rest.strip_prefix(['.', ')']).is_some_and(|after| after.starts_with(char::is_whitespace));
    match rest {
        _ if digits > 3 => Line::Text,
        "" | "." | ")" => Line::Unclear,
        _ if marked => Line::Item,
        _ => Line::Text,
    }
}

/// Whether all of the line is bold, which is how models write headings when they were told not to.
pub(super) fn is_bold(line: &str) -> bool {
    line.len() > 4 && line.starts_with("**") && line.trim_end_matches(':').ends_with("**")
}

/// How a code block began, and so must end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fence {
    mark: char,
    marks: usize,
}

impl Fence {
    /// The code block that the line begins; none when it is code inside the line ("```so```").
    pub(super) fn opened_by(line: &str) -> Option<Self> {
        let mark = line.chars().next()?;
        let info = line.trim_start_matches(mark);
        let fence = Self { mark, marks: line.chars().take_while(|c| *c == mark).count() };
        (mark != '`' || !info.contains('`')).then_some(fence)
    }

    /// Whether the line ends the code block.
    pub(super) fn is_closed_by(self, line: &str) -> bool {
        line.chars().all(|c| c == self.mark) && line.chars().count() >= self.marks
    }
}
