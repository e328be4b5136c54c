//! `[store]`: where conversations are kept, how long and how much of them.

use super::MANY;
use crate::config::reader::Section;
use crate::config::source::Given;
use crate::config::value::{Mismatch, boolean, integer, line, one_of, text};
use crate::config::{Secret, Text};
use crate::store::MasterKeys;
use reqwest::Url;
use std::path::PathBuf;
use std::time::Duration;

/// Where conversations are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreUrl {
    /// In this process, and lost with it.
    Memory,
    /// In this file.
    Sqlite(PathBuf),
    /// In the PostgreSQL database of this URL, which may hold a password.
    Postgres(Secret),
}

/// What is kept of the model's reasoning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeptReasoning {
    /// All of it.
    Keep,
    /// Its text for as long as it may be asked for again.
    Replay,
    /// None of it.
    None,
}

/// `[store]`: where conversations are kept.
#[derive(Clone, Debug, PartialEq)]
pub struct Store {
    /// Which store.
    pub url: StoreUrl,
    /// Whether it is another one than where nobody says anything.
    pub chosen: bool,
    /// What they are sealed with, from `key` or the file `key_file`; none: they are not.
    pub key: Option<MasterKeys>,
    /// Whose conversations these are; none: the LiveKit server's.
    pub namespace: Option<Text>,
    /// Stanzas that are kept of one conversation, to be sent again.
    pub replay_count: u64,
    /// How many hours they are kept.
    pub replay_hours: u64,
    /// After how many days a conversation that nobody touched is deleted; 0: never.
    pub retention_days: u64,
    /// What is kept of the model's reasoning.
    pub reasoning: KeptReasoning,
    /// Whether those who come later may have what was said before.
    pub share_history: bool,
    /// After how long without anything happening a conversation leaves memory; none: never.
    pub rest_after: Option<Duration>,
}

impl Store {
    pub(in crate::config) fn read(section: &mut Section<'_, '_>) -> Self {
        let usual = usual_file(section);
        let url = section.get("url", |given| store_url(given, &usual));
        let url = url.unwrap_or_else(|| StoreUrl::Sqlite(usual.clone()));
        let chosen = url != StoreUrl::Sqlite(usual);
        if let StoreUrl::Postgres(url) = &url {
            let password = Url::parse(url.expose()).ok().and_then(|url| url.password().map(Secret::new));
            section.hide([url.clone()].into_iter().chain(password));
        }
        Self {
            url,
            chosen,
            key: read_keys(section),
            namespace: section.get("namespace", line),
            replay_count: section.or("replay_count", 10_000, integer(0..=MANY)),
            replay_hours: section.or("replay_hours", 24, integer(0..=1_000_000)),
            retention_days: section.or("retention_days", 0, integer(0..=100_000)),
            reasoning: section.or(
                "reasoning",
                KeptReasoning::Keep,
                one_of(&[
                    ("keep", KeptReasoning::Keep),
                    ("replay", KeptReasoning::Replay),
                    ("none", KeptReasoning::None),
                ]),
            ),
            share_history: section.or("share_history", false, boolean),
            rest_after: match section.or("rest_minutes", 10, integer(0..=1_000_000)) {
                0 => None,
                minutes => Some(Duration::from_secs(minutes * 60)),
            },
        }
    }
}

/// The keys themselves or a file that holds them. Both contradict each other, wherever they come from: what is sealed with a
/// key that somebody forgot could not be read any more.
fn read_keys(section: &mut Section<'_, '_>) -> Option<MasterKeys> {
    let inline = section.take("key");
    let file = section.take("key_file");
    let (name, given, keys) = match (inline, file) {
        (Some(_), Some(file)) => {
            section.problem("key_file", &file, "and store.key exclude each other; leave one out");
            return None;
        }
        (Some(inline), None) => {
            let keys = section.interpret("key", &inline, |given| text(given).map_err(|_| no_keys()))?;
            ("key", inline, keys)
        }
        (None, Some(file)) => {
            let keys = section.interpret("key_file", &file, key_file)?;
            ("key_file", file, keys)
        }
        (None, None) => return None,
    };
    section.hide(MasterKeys::words(&keys).map(Secret::new));
    section.interpret(name, &given, |_| match MasterKeys::parse(&keys) {
        Ok(Some(keys)) => Ok(keys),
        Ok(None) => Err(no_keys()),
        Err(bad) => Err(Mismatch::Hidden(format!("made of good keys, but {bad}"))),
    })
}

fn no_keys() -> Mismatch {
    Mismatch::Hidden("one or several keys, the newest first; `sotto store key` makes one".to_owned())
}

fn key_file(given: &Given) -> Result<Text, Mismatch> {
    let path = given.origin.directory().join(text(given)?.as_str());
    match std::fs::read_to_string(path) {
        Ok(content) => Ok(content.as_str().into()),
        Err(error) => Err(Mismatch::Expected(format!("a file of keys that can be read ({error})"))),
    }
}

/// Where programs keep their users' data.
fn usual_file(section: &Section<'_, '_>) -> PathBuf {
    // A relative XDG_DATA_HOME is invalid, says its specification, and to be ignored.
    let data = section.variable("XDG_DATA_HOME").map(PathBuf::from).filter(|data| data.is_absolute());
    let data = data.or_else(|| section.variable("HOME").map(|home| PathBuf::from(home).join(".local/share")));
    data.map_or_else(|| PathBuf::from("sotto.db"), |data| data.join("sotto/sotto.db"))
}

/// Hidden where it does not fit, because the address of a database often holds its password.
fn store_url(given: &Given, usual: &std::path::Path) -> Result<StoreUrl, Mismatch> {
    let expected = || {
        Mismatch::Hidden(
            "\"sqlite:\" and the path of a file, \"postgres://user:password@host/database\", or \"memory:\""
                .to_owned(),
        )
    };
    let given_text = text(given).map_err(|_| expected())?;
    let url = given_text.trim();
    if url == "memory:" {
        return Ok(StoreUrl::Memory);
    }
    if let Some(path) = url.strip_prefix("sqlite:") {
        let path = path.strip_prefix("//").unwrap_or(path);
        return match path {
            "" => Ok(StoreUrl::Sqlite(usual.to_owned())),
            // What others mean by it would be a file of that name here.
            ":memory:" => Err(expected()),
            path => Ok(StoreUrl::Sqlite(given.origin.directory().join(path))),
        };
    }
    let is_postgres = Url::parse(url).is_ok_and(|url| ["postgres", "postgresql"].contains(&url.scheme()));
    if is_postgres { Ok(StoreUrl::Postgres(Secret::new(url))) } else { Err(expected()) }
}
