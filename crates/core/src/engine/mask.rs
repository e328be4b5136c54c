//! Hides the values of secrets in text that leaves the engine.
//!
//! May touch: text and JSON that it is given. Never: shows a value, not even in debug output, and never changes
//! anything but the values. It finds a value as it is written; encoded or taken apart, it is another text.

#[cfg(test)]
mod tests;

use serde_json::{Map, Value};
use std::borrow::Cow;
use std::fmt;

/// What stands in place of a secret.
pub const HIDDEN: &str = "[hidden]";

/// Shorter values are not looked for: they would be found in ordinary words.
const MIN_BYTES: usize = 6;

/// The values to hide.
#[derive(Clone, Default)]
pub struct Secrets {
    /// The longest first, so that the first that fits is the right one.
    values: Vec<String>,
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secrets({} values)", self.values.len())
    }
}

/// What is at some place in a text.
enum Found {
    Nothing,
    /// A secret of so many bytes.
    Secret(usize),
    /// What may become a secret when more text comes.
    Beginning,
}

impl Secrets {
    /// Those of the values that are long enough and that the replacement itself would not show.
    pub fn new(values: impl IntoIterator<Item = String>) -> Self {
        let mut values: Vec<String> = values
            .into_iter()
            .filter(|value| value.len() >= MIN_BYTES && !HIDDEN.contains(value.as_str()))
            .collect();
        values.sort_unstable_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        values.dedup();
        Self { values }
    }

    /// The text without the secrets.
    pub fn hide<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if !self.values.iter().any(|value| text.contains(value.as_str())) {
            return Cow::Borrowed(text);
        }
        let mut shown = String::with_capacity(text.len());
        self.show(text, false, &mut shown);
        Cow::Owned(shown)
    }

    /// The same for each text in the value: strings, keys, and numbers that are secrets.
    pub fn hide_json(&self, value: &mut Value) {
        match value {
            Value::Null | Value::Bool(_) => {}
            Value::Number(number) => {
                if let Cow::Owned(shown) = self.hide(&number.to_string()) {
                    *value = Value::String(shown);
                }
            }
            Value::String(text) => {
                if let Cow::Owned(shown) = self.hide(text) {
                    *text = shown;
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.hide_json(item)),
            Value::Object(fields) => {
                let mut shown = Map::new();
                for (key, mut field) in std::mem::take(fields) {
                    self.hide_json(&mut field);
                    let mut key = self.hide(&key).into_owned();
                    // Two hidden keys are still two fields.
                    while shown.contains_key(&key) {
                        key.push('_');
                    }
                    shown.insert(key, field);
                }
                *fields = shown;
            }
        }
    }

    /// Appends to `shown` what of `text` may be shown, and returns how much of it that was: all, unless there is
    /// `more` to come and the end of it may be the beginning of a secret.
    fn show(&self, text: &str, more: bool, shown: &mut String) -> usize {
        let (mut from, mut at) = (0, 0);
        while at < text.len() {
            match self.find_at(&text.as_bytes()[at..], more) {
                Found::Nothing => at += 1,
                Found::Beginning => break,
                Found::Secret(length) => {
                    // Values are whole characters, so where one was found is a border between characters.
                    shown.push_str(&text[from..at]);
                    shown.push_str(HIDDEN);
                    at += length;
                    from = at;
                }
            }
        }
        shown.push_str(&text[from..at]);
        at
    }

    fn find_at(&self, rest: &[u8], more: bool) -> Found {
        for value in &self.values {
            if rest.starts_with(value.as_bytes()) {
                return Found::Secret(value.len());
            }
            // A longer value goes before a shorter one that is its beginning, so wait for it.
            if more && value.as_bytes().starts_with(rest) {
                return Found::Beginning;
            }
        }
        Found::Nothing
    }
}

/// Hides secrets in text that comes in pieces. Holds back only what may be the beginning of a secret.
#[derive(Default)]
pub struct Stream {
    held: String,
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // What is held may be most of a secret.
        write!(f, "Stream({} bytes held)", self.held.len())
    }
}

impl Stream {
    /// Goes on with the text; returns what may be shown.
    pub fn push(&mut self, secrets: &Secrets, text: &str) -> String {
        self.held.push_str(text);
        let mut shown = String::with_capacity(self.held.len());
        let done = secrets.show(&self.held, true, &mut shown);
        self.held.drain(..done);
        shown
    }

    /// The text has ended; returns the rest of what may be shown.
    pub fn finish(&mut self, secrets: &Secrets) -> String {
        let mut shown = String::with_capacity(self.held.len());
        secrets.show(&self.held, false, &mut shown);
        self.held.clear();
        shown
    }
}
