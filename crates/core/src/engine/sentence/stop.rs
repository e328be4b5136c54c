//! Whether a full stop ends the sentence: judged from the word before it and from what follows.

use super::{MAX_CHARS, flow::is_border, words};

/// What is known about a full stop.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// More text is needed.
    Unclear,
    /// The sentence goes on.
    GoesOn,
    /// The sentence ends here.
    Ends(usize),
}

/// The longest row of closing quotes, brackets and emoji after a full stop. There are no longer ones in prose.
const MAX_TAIL_CHARS: usize = 32;

/// The longest word that is looked up, before or after a full stop.
const MAX_WORD_CHARS: usize = 16;

/// The most opening quotes and brackets before the next word.
const MAX_OPENERS: usize = 8;

/// Whether a sentence may end with it.
pub(crate) fn is_stop(c: char) -> bool {
    matches!(c, '.' | '!' | '?' | '…' | '‽' | '‼' | '⁇' | '⁈' | '⁉') || is_wide_stop(c)
}

/// Marks that no white space needs to follow.
pub(crate) fn is_wide(c: char) -> bool {
    is_wide_stop(c) || matches!(c, '，' | '、' | '；' | '：' | '､')
}

/// East Asian, Arabic, Urdu, Indic, Armenian, Ethiopic, Burmese and Khmer full stops.
fn is_wide_stop(c: char) -> bool {
    matches!(c, '。' | '！' | '？' | '｡' | '؟' | '۔' | '।' | '॥' | '։' | '።' | '፧' | '။' | '។' | '៕')
}

/// Whether a clause may end with it.
pub(crate) fn ends_clause(c: char) -> bool {
    matches!(c, ',' | ';' | ':' | '–' | '—' | ')' | '،' | '؛') || (is_wide(c) && !is_wide_stop(c))
}

/// Judges the full stop at `at`. Only what follows is ever unclear, and only while it is not there.
pub(super) fn judge(text: &str, at: usize) -> Verdict {
    let Some(tail) = Tail::read(text, at) else { return Verdict::Unclear };
    let says_something = recent(&text[..at]).any(char::is_alphanumeric);
    if !says_something || !is_border(text, tail.end) {
        return Verdict::GoesOn;
    }
    let ends = if tail.wide {
        Some(!tail.between_digits(text, at))
    } else if text[tail.end..].starts_with(char::is_whitespace) {
        ends_before(text, at, &tail)
    } else {
        // "3.14", "example.com", "main.rs?" and the like; but Chinese is also written with these marks.
        let marked = tail.marks != "." || text[..at].ends_with(is_east_asian);
        Some(marked && !tail.is_ellipsis() && text[tail.end..].starts_with(is_east_asian))
    };
    match ends {
        None => Verdict::Unclear,
        Some(true) => Verdict::Ends(tail.end),
        Some(false) => Verdict::GoesOn,
    }
}

/// A full stop and all that belongs to it: further ones, closing quotes and brackets, footnotes, emoji.
struct Tail<'a> {
    marks: &'a str,
    end: usize,
    wide: bool,
}

impl<'a> Tail<'a> {
    /// None while it may go on.
    fn read(text: &'a str, at: usize) -> Option<Self> {
        let length = text[at..]
            .chars()
            .take(MAX_TAIL_CHARS)
            .take_while(|c| is_stop(*c))
            .map(char::len_utf8)
            .sum::<usize>();
        let marks = &text[at..at + length];
        let wide = marks.contains(is_wide_stop);
        let mut end = at + marks.len();
        for _ in 0..MAX_TAIL_CHARS {
            let rest = &text[end..];
            let next = rest.chars().next()?;
            if is_stop(next) || is_emoji(next) || closes(next, wide, &text[..at]) {
                end += next.len_utf8();
            } else if next == '[' {
                match footnote(rest)? {
                    0 => break,
                    length => end += length,
                }
            } else if next.is_whitespace() {
                let beyond = rest.trim_start();
                let gap = &rest[..rest.len() - beyond.len()];
                let after = beyond.chars().next()?;
                let belongs = is_emoji(after) || (after == '»' && is_open('«', '»', &text[..at]));
                if gap.contains('\n') || !belongs {
                    break;
                }
                end += gap.len() + after.len_utf8();
            } else {
                break;
            }
        }
        Some(Self { marks, end, wide })
    }

    fn is_ellipsis(&self) -> bool {
        self.marks.contains('…') || self.marks.starts_with("..")
    }

    fn between_digits(&self, text: &str, at: usize) -> bool {
        text[..at].ends_with(char::is_numeric) && text[self.end..].starts_with(char::is_numeric)
    }
}

/// How long the footnote is with which the text begins (`[1]`, `[^2]`), 0 if it is none; none while it may be one.
fn footnote(text: &str) -> Option<usize> {
    for (at, c) in text.char_indices().skip(1).take(8) {
        match c {
            ']' if at > 1 => return Some(at + 1),
            '0'..='9' | '^' | ',' | '-' | '–' => {}
            _ => return Some(0),
        }
    }
    text.chars().nth(8).map(|_| 0)
}

/// What follows the white space after a full stop.
enum Next<'a> {
    Lower,
    Stop,
    Number,
    /// From the first letter on.
    Word(&'a str),
    Other,
}

impl<'a> Next<'a> {
    /// None while it is not there.
    fn read(text: &'a str) -> Option<Self> {
        let mut rest = text.trim_start();
        for _ in 0..MAX_OPENERS {
            let first = rest.chars().next()?;
            if !opens(first) {
                return Some(match first {
                    c if c.is_lowercase() => Self::Lower,
                    c if is_stop(c) => Self::Stop,
                    c if c.is_numeric() => Self::Number,
                    c if c.is_alphabetic() => Self::Word(rest),
                    _ => Self::Other,
                });
            }
            rest = &rest[first.len_utf8()..];
        }
        Some(Self::Other)
    }

    /// Whether it is a word that begins sentences; none while the word may go on.
    fn begins_sentence(&self) -> Option<bool> {
        let Self::Word(rest) = self else { return Some(false) };
        let (word, after) = whole_word(rest)?;
        // "J. I. Miller": here a full stop makes an initial of it.
        Some((after != '.' || word.len() > 1) && words::begins_sentence(word))
    }
}

/// The word with which the text begins and what follows it; none while it may go on.
fn whole_word(text: &str) -> Option<(&str, char)> {
    text.char_indices()
        .take(MAX_WORD_CHARS + 1)
        .enumerate()
        .find(|(nth, (_, c))| *nth == MAX_WORD_CHARS || !c.is_alphabetic())
        .map(|(_, (end, c))| (&text[..end], c))
}

/// Whether the sentence ends at a full stop that white space follows; none while that is unclear.
fn ends_before(text: &str, at: usize, tail: &Tail) -> Option<bool> {
    let next = Next::read(&text[tail.end..])?;
    if matches!(next, Next::Lower | Next::Stop) {
        return Some(false);
    }
    if tail.is_ellipsis() {
        return match next {
            Next::Number => Some(false),
            // English writes "I" large wherever it stands.
            Next::Word(rest) => whole_word(rest).map(|(word, _)| word != "I"),
            _ => Some(true),
        };
    }
    if tail.marks != "." {
        return Some(true);
    }
    let before = &text[..at];
    let word = last_word(before);
    let front = &before[..before.len() - word.len()];
    if !word.is_empty() && word.chars().all(|c| c.is_ascii_digit()) {
        return number_ends(front, word, &next);
    }
    let lower = word.to_lowercase();
    if word.len() > 1 && word.chars().all(char::is_uppercase) {
        // "CA" is California and "NO" is no number.
        Some(true)
    } else if words::never_ends(&lower) || words::never_ends(&spaced_abbreviation(front, &lower)) {
        Some(false)
    } else if words::is_before_number(&lower) {
        Some(!matches!(next, Next::Number))
    } else if words::seldom_ends(&lower) || is_initials(word) {
        next.begins_sentence()
    } else {
        Some(true)
    }
}

/// The letters, digits and full stops at the end of the text; nothing when there are too many for an abbreviation.
fn last_word(text: &str) -> &str {
    let start = text
        .char_indices()
        .rev()
        .take(MAX_WORD_CHARS)
        .take_while(|(_, c)| c.is_alphanumeric() || *c == '.')
        .last()
        .map_or(text.len(), |(at, _)| at);
    if text[..start].ends_with(char::is_alphanumeric) { "" } else { &text[start..] }
}

/// "z. B" is "z.b", "i. d. R" is "i.d.r".
fn spaced_abbreviation(front: &str, last: &str) -> String {
    let mut parts = String::from(last);
    let mut rest = front.trim_end();
    for _ in 0..2 {
        let Some(before) = rest.strip_suffix('.') else { break };
        let word = last_word(before);
        if word.chars().count() > 2 || word.is_empty() {
            break;
        }
        parts = format!("{}.{parts}", word.to_lowercase());
        rest = before[..before.len() - word.len()].trim_end();
    }
    parts
}

/// One letter, or letters between full stops: "J", "U.S", "Ph.D".
fn is_initials(word: &str) -> bool {
    word.split('.').all(|part| part.chars().all(char::is_alphabetic) && matches!(part.chars().count(), 1 | 2))
        && (word.contains('.') || word.chars().count() == 1)
}

/// Whether a sentence ends with the number `word` and a full stop; none while that is unclear. It does not where it
/// numbers a list ("1. Mix it") or says which one ("am 3. Oktober").
fn number_ends(front: &str, word: &str, next: &Next) -> Option<bool> {
    if word.len() > 3 {
        return Some(true);
    }
    let front =
        front.trim_end_matches(|c: char| c.is_whitespace() || matches!(c, '*' | '_' | '#' | '>' | '-' | '('));
    let heads_item = front.is_empty() || front.ends_with([':', ';']);
    let noun = last_word(front);
    let numbers_part =
        noun.len() == front.trim_start().len() && words::has_numbered_parts(&noun.to_lowercase());
    if heads_item || numbers_part || words::is_before_ordinal(noun) {
        return Some(false);
    }
    match next {
        Next::Word(rest) => whole_word(rest).map(|(word, _)| !words::is_month(word)),
        _ => Some(true),
    }
}

/// Whether it closes what it follows. Right after a full stop without white space, a quotation mark closes, whichever
/// way it is turned; after a wide one it may open the next sentence, as no white space is due there.
fn closes(c: char, wide: bool, before: &str) -> bool {
    match c {
        '"' | '\'' | '”' | '’' | '»' | '›' | ')' | ']' | '}' | '*' | '_' | '~' | '」' | '』' | '）'
        | '】' | '》' | '〉' | '］' | '｣' | '〕' => true,
        '“' | '‘' | '«' | '‹' => !wide || is_open('„', '“', before),
        _ => false,
    }
}

fn is_open(opening: char, closing: char, text: &str) -> bool {
    recent(text).find(|c| *c == opening || *c == closing) == Some(opening)
}

/// The last characters, the very last first: so many as a sentence may have, however long the text is.
fn recent(text: &str) -> impl Iterator<Item = char> {
    text.chars().rev().take(MAX_CHARS)
}

fn opens(c: char) -> bool {
    matches!(
        c,
        '"' | '\''
            | '“'
            | '”'
            | '‘'
            | '’'
            | '„'
            | '‚'
            | '«'
            | '»'
            | '‹'
            | '›'
            | '('
            | '['
            | '{'
            | '*'
            | '_'
            | '~'
    )
}

fn is_east_asian(c: char) -> bool {
    matches!(c, '\u{2E80}'..='\u{9FFF}' | '\u{AC00}'..='\u{D7AF}' | '\u{F900}'..='\u{FAFF}' | '\u{FF00}'..='\u{FFEF}' | '\u{20000}'..='\u{3FFFF}')
}

/// Emoji and what they are joined and varied with.
fn is_emoji(c: char) -> bool {
    matches!(c, '\u{1F000}'..='\u{1FAFF}' | '\u{2600}'..='\u{27BF}' | '\u{2B50}' | '\u{2B55}' | '\u{FE0F}' | '\u{200D}' | '\u{20E3}' | '\u{E0020}'..='\u{E007F}')
}
