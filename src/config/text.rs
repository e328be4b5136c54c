//! Strings that may hold secrets, and never show them.

use serde_json::{Map, Value};
use std::fmt;
use std::ops::Deref;

/// A secret. There is no way to print it by accident.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Secret(String);

impl Secret {
    /// Hides a value from now on.
    pub fn new(value: impl Into<String>) -> Self {
        Self(value.into())
    }

    /// The value itself, for where it is really needed.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[hidden]")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[hidden]")
    }
}

/// Text that is used as it is and shown as it was written: with `${NAME}` where a variable stood. It has no `Display`,
/// because nobody could tell which of the two that means.
#[derive(Clone, PartialEq, Eq)]
pub struct Text {
    value: String,
    /// What was written, where that differs.
    written: Option<String>,
}

impl Text {
    pub(super) fn new(value: String, written: Option<String>) -> Self {
        Self { value, written }
    }

    /// The text itself, which may hold a secret.
    pub fn as_str(&self) -> &str {
        &self.value
    }

    /// The text as it was written: fit for logs and messages.
    pub fn shown(&self) -> &str {
        self.written.as_ref().unwrap_or(&self.value)
    }
}

impl From<&str> for Text {
    fn from(value: &str) -> Self {
        Self::new(value.to_owned(), None)
    }
}

impl Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        &self.value
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.shown())
    }
}

/// What is added to each request to an endpoint. Its values may hold secrets and are never shown.
#[derive(Clone, Default, PartialEq)]
pub struct Extra(Map<String, Value>);

impl From<Map<String, Value>> for Extra {
    fn from(fields: Map<String, Value>) -> Self {
        Self(fields)
    }
}

impl Deref for Extra {
    type Target = Map<String, Value>;

    fn deref(&self) -> &Map<String, Value> {
        &self.0
    }
}

impl fmt::Debug for Extra {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}
