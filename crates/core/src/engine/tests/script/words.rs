//! The words of a line.

pub(super) fn number(word: &str) -> u64 {
    word.parse().unwrap_or_else(|_| panic!("{word} is no number"))
}

/// Words between blanks; a JSON string, an object, or `key="a value"` is one word.
pub(in super::super) fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut rest = line.trim();
    while !rest.is_empty() {
        let mut end = 0;
        let (mut quoted, mut escaped, mut depth) = (false, false, 0);
        for (index, c) in rest.char_indices() {
            end = index + c.len_utf8();
            match c {
                _ if escaped => escaped = false,
                '\\' if quoted => escaped = true,
                '"' => quoted = !quoted,
                '{' if !quoted => depth += 1,
                '}' if !quoted => depth -= 1,
                ' ' if !quoted && depth == 0 => {
                    end = index;
                    break;
                }
                _ => {}
            }
        }
        let word = &rest[..end];
        words.push(plain(word));
        rest = rest[end..].trim_start();
    }
    words
}

/// A word without its quotes.
fn plain(word: &str) -> String {
    if let Some((key, value)) = word.split_once("=\"") {
        let value: String =
            serde_json::from_str(&format!("\"{value}")).unwrap_or_else(|_| panic!("bad string: {word}"));
        return format!("{key}={value}");
    }
    if let Some((text, times)) = word.rsplit_once("\"*")
        && let Ok(times) = times.parse()
    {
        return plain(&format!("{text}\"")).repeat(times);
    }
    if word.starts_with('"') {
        return serde_json::from_str(word).unwrap_or_else(|_| panic!("bad string: {word}"));
    }
    word.to_owned()
}
