//! Text that others wrote, made fit for a terminal: nothing in it can move the cursor, change colours or reorder a line.

use std::fmt::Write;
use std::io::IsTerminal;

/// The most that one value of a tool takes of a line.
const LONGEST_VALUE: usize = 300;

/// Whether the standard output is a terminal that may be shown dim and coloured text.
pub(super) fn has_colours() -> bool {
    let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    std::io::stdout().is_terminal() && !unwanted && !dumb
}

/// Without control characters, but for line breaks and tabs.
pub(super) fn clean(text: &str) -> String {
    text.chars().filter(|&c| matches!(c, '\n' | '\t') || !is_control(c)).collect()
}

/// The same on one line, and not too long.
pub(super) fn clean_line(text: &str) -> String {
    let spaced: String = text.chars().map(|c| if c.is_whitespace() { ' ' } else { c }).collect();
    let mut line: String = spaced.chars().filter(|&c| !is_control(c)).take(LONGEST_VALUE + 1).collect();
    if let Some((end, _)) = line.char_indices().nth(LONGEST_VALUE) {
        line.truncate(end);
        line.push('…');
    }
    line
}

/// JSON without raw control characters. All of them are inside strings, where an escape means the same.
pub(super) fn escape_controls(json: &str) -> String {
    let mut escaped = String::with_capacity(json.len());
    for c in json.chars() {
        if is_control(c) {
            // All of them are in the basic plane, so four digits do; and a string takes all that is written to it.
            let _ = write!(escaped, "\\u{:04x}", u32::from(c));
        } else {
            escaped.push(c);
        }
    }
    escaped
}

/// C0, DEL and C1, and the characters that reorder what is shown around them.
fn is_control(c: char) -> bool {
    c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_can_steer_the_terminal() {
        let hostile = "a\x1b[31mb\x1b]0;title\x07c\u{9b}2Jd\re\x08f\x7fg\u{202e}h\0i";
        assert_eq!(clean(hostile), "a[31mb]0;titlec2Jdefghi");
        assert_eq!(clean_line(hostile), "a[31mb]0;titlec2Jd efghi");
    }

    #[test]
    fn what_people_write_stays() {
        let text = "Zeile 1\n\tGrüße, 日本語, مرحبا 👩‍👩‍👧\n";
        assert_eq!(clean(text), text);
    }

    #[test]
    fn a_line_has_no_breaks_and_an_end() {
        assert_eq!(clean_line("a\nb\tc"), "a b c");
        let long = clean_line(&"é".repeat(1_000));
        assert_eq!(long.chars().count(), LONGEST_VALUE + 1);
        assert!(long.ends_with('…'));
        assert_eq!(clean_line(&"x".repeat(LONGEST_VALUE)), "x".repeat(LONGEST_VALUE));
    }

    #[test]
    fn escaped_json_means_the_same() {
        let value = serde_json::json!({"text": "a\u{1b}\u{7f}\u{9b}\u{202e}\nb"});
        let escaped = escape_controls(&value.to_string());
        assert!(!escaped.chars().any(is_control), "{escaped:?}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&escaped).expect("JSON"), value);
    }
}
