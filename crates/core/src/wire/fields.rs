//! A map by its keys: in any order, unknown ones skipped, `nil` and `undefined` as if they were not written.
//!
//! Where a key comes twice the last one counts, as it does in JSON nearly everywhere. Faults name the key with its
//! place (`body.content`).

use super::fault::Fault;
use super::token::{Item, Token};
use super::value::{Wanted, elements, text};

/// The entries of a map.
#[derive(Debug)]
pub(super) struct Fields<'a> {
    /// What goes before a key's name in a fault.
    place: &'static str,
    entries: Vec<(&'a [u8], Item<'a>)>,
}

impl<'a> Fields<'a> {
    /// The entries of a map; `None` if it is none.
    pub(super) fn of(item: &Item<'a>, place: &'static str) -> Option<Self> {
        let Token::Map(pairs) = item.token else { return None };
        let mut contents = item.contents.clone();
        let mut entries = Vec::with_capacity(pairs as usize);
        for _ in 0..pairs {
            let key = contents.item().ok()?;
            let value = contents.item().ok()?;
            if let Token::Text(name) = key.token
                && !value.token.is_absent()
            {
                entries.push((name, value));
            }
        }
        Some(Self { place, entries })
    }

    /// The value of a key, where it is there.
    pub(super) fn optional<T>(
        &self,
        key: &'static str,
        read: impl FnOnce(&Item<'a>) -> Wanted<T>,
    ) -> Result<Option<T>, Fault> {
        let entry = self.entries.iter().rev().find(|(name, _)| *name == key.as_bytes());
        let value = entry.map(|(_, item)| read(item)).transpose();
        value.map_err(|wanted| Fault::Wrong { key: self.name(key), wanted })
    }

    /// The value of a key that must be there.
    pub(super) fn required<T>(
        &self,
        key: &'static str,
        read: impl FnOnce(&Item<'a>) -> Wanted<T>,
    ) -> Result<T, Fault> {
        self.optional(key, read)?.ok_or_else(|| Fault::Missing(self.name(key)))
    }

    /// The value of a key that must be there, perhaps under the name that others gave it. Where both are, ours counts.
    pub(super) fn aliased<T>(
        &self,
        key: &'static str,
        alias: &'static str,
        read: impl Fn(&Item<'a>) -> Wanted<T>,
    ) -> Result<T, Fault> {
        match self.optional(key, &read)? {
            Some(value) => Ok(value),
            None => self.optional(alias, read)?.ok_or_else(|| Fault::Missing(self.name(key))),
        }
    }

    /// A list of maps, each under `place`.
    pub(super) fn list(&self, key: &'static str, place: &'static str) -> Result<Option<Vec<Self>>, Fault> {
        self.optional(key, |item| {
            let elements = elements(item).ok_or("a list of maps")?;
            elements
                .iter()
                .map(|element| Self::of(element, place))
                .collect::<Option<_>>()
                .ok_or("a list of maps")
        })
    }

    /// A text that must be there.
    pub(super) fn text(&self, key: &'static str) -> Result<String, Fault> {
        self.required(key, text)
    }

    /// A text that may be there.
    pub(super) fn optional_text(&self, key: &'static str) -> Result<Option<String>, Fault> {
        self.optional(key, text)
    }

    /// What people wrote: a text with a limit of its own.
    pub(super) fn content(&self, key: &'static str, limit: usize) -> Result<Option<String>, Fault> {
        match self.optional_text(key)? {
            Some(content) if content.len() > limit => Err(Fault::TooLong { key: self.name(key), limit }),
            content => Ok(content),
        }
    }

    /// The name of a key as faults give it.
    pub(super) fn name(&self, key: &str) -> String {
        format!("{}{key}", self.place)
    }
}
