//! The kinds of values that keys have: how each is read, and what to say when it does not fit.
//!
//! A number may also be written as a string: that is all that the environment and `${NAME}` have.

use super::source::{Given, Raw};
use super::{Extra, Secret, Text};
use reqwest::Url;
use reqwest::header::{HeaderName, HeaderValue};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::time::Duration;

/// A value is not what its key needs, which is told here ("a whole number").
pub(super) enum Mismatch {
    /// The value may be shown.
    Expected(String),
    /// The value may hold a secret.
    Hidden(String),
}

/// Any text.
pub(super) fn text(given: &Given) -> Result<Text, Mismatch> {
    match &given.raw {
        Raw::Text { value, written } => Ok(Text::new(value.clone(), written.clone())),
        _ => Err(Mismatch::Expected("a string in quotes".to_owned())),
    }
}

/// Text on one line: a name, a topic.
pub(super) fn line(given: &Given) -> Result<Text, Mismatch> {
    let text = text(given)?;
    if text.chars().any(char::is_control) {
        return Err(Mismatch::Expected("one line without control characters".to_owned()));
    }
    Ok(text)
}

/// Letters, digits, `-` and `_` only.
pub(super) fn tag(given: &Given) -> Result<Text, Mismatch> {
    let text = text(given)?;
    if !text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_')) {
        return Err(Mismatch::Expected("a word of letters, digits, - and _".to_owned()));
    }
    Ok(text)
}

/// A secret on one line. White space around it is none of it: files with secrets tend to end in a line break.
pub(super) fn secret(given: &Given) -> Result<Secret, Mismatch> {
    match &given.raw {
        Raw::Text { value, .. } if value.trim().chars().all(|c| c.is_ascii_graphic()) => {
            Ok(Secret::new(value.trim()))
        }
        _ => Err(Mismatch::Hidden("a string of ASCII characters without spaces".to_owned())),
    }
}

/// `true` or `false`.
pub(super) fn boolean(given: &Given) -> Result<bool, Mismatch> {
    match &given.raw {
        Raw::Boolean(yes) => Ok(*yes),
        Raw::Text { value, .. } if value == "true" => Ok(true),
        Raw::Text { value, .. } if value == "false" => Ok(false),
        _ => Err(Mismatch::Expected("true or false".to_owned())),
    }
}

/// A whole number.
pub(super) fn integer<T: TryFrom<i64>>(range: RangeInclusive<i64>) -> impl Fn(&Given) -> Result<T, Mismatch> {
    move |given| {
        let number = match &given.raw {
            Raw::Integer(number) => Some(*number),
            Raw::Text { value, .. } => value.trim().parse().ok(),
            _ => None,
        };
        number.filter(|number| range.contains(number)).and_then(|number| T::try_from(number).ok()).ok_or_else(
            || Mismatch::Expected(format!("a whole number from {} to {}", range.start(), range.end())),
        )
    }
}

/// A number.
pub(super) fn number(range: RangeInclusive<f64>) -> impl Fn(&Given) -> Result<f64, Mismatch> {
    move |given| {
        let number = match &given.raw {
            Raw::Integer(number) => Some(*number as f64),
            Raw::Float(number) => Some(*number),
            Raw::Text { value, .. } => value.trim().parse().ok(),
            _ => None,
        };
        number
            .filter(|number| range.contains(number))
            .ok_or_else(|| Mismatch::Expected(format!("a number from {} to {}", range.start(), range.end())))
    }
}

/// A time in seconds.
pub(super) fn seconds(range: RangeInclusive<f64>) -> impl Fn(&Given) -> Result<Duration, Mismatch> {
    move |given| {
        let seconds = number(range.clone())(given).map_err(|_| {
            Mismatch::Expected(format!("a number of seconds from {} to {}", range.start(), range.end()))
        })?;
        // Ranges begin at zero or above and end far below the end of time, so this never fails.
        Duration::try_from_secs_f64(seconds).map_err(|error| Mismatch::Expected(error.to_string()))
    }
}

/// One of some words.
pub(super) fn one_of<T: Copy>(words: &'static [(&'static str, T)]) -> impl Fn(&Given) -> Result<T, Mismatch> {
    move |given| {
        let found = match &given.raw {
            Raw::Text { value, .. } => words.iter().find(|(word, _)| word == value),
            _ => None,
        };
        found.map(|(_, meaning)| *meaning).ok_or_else(|| {
            let words: Vec<_> = words.iter().map(|(word, _)| format!("{word:?}")).collect();
            Mismatch::Expected(match &words[..] {
                [word] => word.clone(),
                words => format!("one of {}", words.join(", ")),
            })
        })
    }
}

/// A list.
pub(super) fn list<T>(
    read: impl Fn(&Given) -> Result<T, Mismatch>,
) -> impl Fn(&Given) -> Result<Vec<T>, Mismatch> {
    move |given| {
        let Raw::List(items) = &given.raw else {
            return Err(Mismatch::Expected("a list, as in [\"one\", \"two\"]".to_owned()));
        };
        items.iter().map(&read).collect::<Result<_, _>>().map_err(|mismatch| match mismatch {
            Mismatch::Expected(expected) => Mismatch::Expected(format!("a list in which each is {expected}")),
            Mismatch::Hidden(expected) => Mismatch::Hidden(format!("a list in which each is {expected}")),
        })
    }
}

/// A table of whatever keys.
pub(super) fn table<T>(
    read: impl Fn(&Given) -> Result<T, Mismatch>,
) -> impl Fn(&Given) -> Result<BTreeMap<String, T>, Mismatch> {
    move |given| {
        let Raw::Table(entries) = &given.raw else {
            return Err(Mismatch::Expected("a table, as { NAME = \"value\" }".to_owned()));
        };
        let entries = entries.iter().map(|(key, value)| Ok((key.clone(), read(value)?)));
        entries.collect::<Result<_, _>>().map_err(|mismatch| match mismatch {
            Mismatch::Expected(expected) => {
                Mismatch::Expected(format!("a table in which each is {expected}"))
            }
            Mismatch::Hidden(expected) => Mismatch::Hidden(format!("a table in which each is {expected}")),
        })
    }
}

/// Any text, which may be a secret.
pub(super) fn hidden(given: &Given) -> Result<Secret, Mismatch> {
    match &given.raw {
        Raw::Text { value, .. } => Ok(Secret::new(value.as_str())),
        _ => Err(Mismatch::Hidden("a string in quotes".to_owned())),
    }
}

/// Header fields of HTTP.
pub(super) fn headers(given: &Given) -> Result<BTreeMap<String, Secret>, Mismatch> {
    let headers = table(hidden)(given)?;
    let is_good = |(name, value): (&String, &Secret)| {
        HeaderName::from_bytes(name.as_bytes()).is_ok() && HeaderValue::from_str(value.expose()).is_ok()
    };
    if headers.iter().all(is_good) {
        return Ok(headers);
    }
    Err(Mismatch::Hidden(
        "a table of header fields on one line each, as { Authorization = \"Bearer ${TOKEN}\" }".to_owned(),
    ))
}

/// The name or the address of a host, without a scheme and a port.
pub(super) fn host(given: &Given) -> Result<Text, Mismatch> {
    let text = line(given)?;
    let in_url = match text.trim_matches(['[', ']']) {
        address if address.contains(':') => format!("http://[{address}]/"),
        name => format!("http://{name}/"),
    };
    let is_host = Url::parse(&in_url).is_ok_and(|url| {
        url.port().is_none() && url.path() == "/" && url.username().is_empty() && url.query().is_none()
    });
    if is_host && !text.contains(['/', '@']) {
        return Ok(text);
    }
    Err(Mismatch::Expected("the name or the address of a host, as localhost or 10.0.0.5".to_owned()))
}

/// Where a tool is. May hold a token, so it is never shown.
pub(super) fn tool_url(given: &Given) -> Result<Text, Mismatch> {
    let text = text(given)?;
    let is_good = Url::parse(text.trim()).is_ok_and(|url| {
        ["http", "https"].contains(&url.scheme())
            && url.has_host()
            && url.username().is_empty()
            && url.password().is_none()
            && url.fragment().is_none()
    });
    if is_good {
        return Ok(text);
    }
    Err(Mismatch::Hidden(
        "a URL that begins with http:// or https://, without user, password and #; keys belong in headers"
            .to_owned(),
    ))
}

/// JSON Schema of an object: a table, or a string of JSON.
pub(super) fn schema(given: &Given) -> Result<Value, Mismatch> {
    let schema = match &given.raw {
        Raw::Text { value, .. } => serde_json::from_str(value).ok(),
        _ => json(given),
    };
    schema.filter(|schema| schema["type"] == "object").ok_or_else(|| {
        Mismatch::Hidden(
            "JSON Schema of an object, as { type = \"object\", properties = { city = { type = \"string\" } } }"
                .to_owned(),
        )
    })
}

/// The address of a LiveKit server.
pub(super) fn livekit_url(given: &Given) -> Result<Text, Mismatch> {
    url(given, &["ws", "wss", "http", "https"], "ws://localhost:7880")
}

/// The base of an OpenAI-compatible API, without a slash at its end.
pub(super) fn model_url(given: &Given) -> Result<Text, Mismatch> {
    let url = url(given, &["http", "https"], "http://localhost:8000/v1")?;
    let path_begins = url.find("://").map_or(0, |at| at + "://".len());
    if !url[path_begins..].contains('/') {
        return Err(Mismatch::Hidden("the base of the API, which ends in /v1 nearly everywhere".to_owned()));
    }
    if url.ends_with("/chat/completions") {
        return Err(Mismatch::Hidden("the base of the API: leave out /chat/completions".to_owned()));
    }
    Ok(url)
}

/// A URL may hold a password or a token, so it is never shown.
fn url(given: &Given, schemes: &[&str], example: &str) -> Result<Text, Mismatch> {
    let text = text(given)?;
    let without_slash = |text: &str| text.trim().trim_end_matches('/').to_owned();
    let url = Url::parse(&without_slash(&text))
        .ok()
        .filter(|url| schemes.contains(&url.scheme()) && url.has_host())
        .ok_or_else(|| {
            Mismatch::Hidden(format!("a URL that begins with {}://, as {example}", schemes.join(":// or ")))
        })?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err(Mismatch::Hidden(
            "a URL without user and password; keys have keys of their own".to_owned(),
        ));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(Mismatch::Hidden("a URL without ? and #".to_owned()));
    }
    let written = (text.shown() != text.as_str()).then(|| text.shown().to_owned());
    Ok(Text::new(without_slash(&text), written))
}

/// Where to listen, or `off`.
pub(super) fn listen_address(given: &Given) -> Result<Option<SocketAddr>, Mismatch> {
    match &given.raw {
        Raw::Text { value, .. } if value == "off" => Ok(None),
        Raw::Text { value, .. } => value.trim().parse().map(Some).map_err(|_| ()),
        _ => Err(()),
    }
    .map_err(|()| {
        Mismatch::Expected(
            "an IP address and a port, as 127.0.0.1:8081 or 0.0.0.0:8081, or \"off\"".to_owned(),
        )
    })
}

/// What the log takes: levels, alone or for a target.
pub(super) fn log_filter(given: &Given) -> Result<Text, Mismatch> {
    const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
    let text = line(given)?;
    // The filter itself would take a level that it does not know for the name of a target, and log nothing.
    let is_level = |part: &str| LEVELS.iter().any(|level| part.trim().eq_ignore_ascii_case(level));
    let is_sound = |part: &str| part.contains(['=', '[']) || is_level(part);
    if text.split(',').all(is_sound) && tracing_subscriber::EnvFilter::try_new(text.as_str()).is_ok() {
        return Ok(text);
    }
    Err(Mismatch::Expected(format!("one of {}, or a filter such as warn,sotto=debug", LEVELS.join(", "))))
}

/// What is added to a request: anything that JSON has, except what the request itself must say.
pub(super) fn extra(given: &Given) -> Result<Extra, Mismatch> {
    const OURS: [&str; 4] = ["messages", "model", "stream", "tools"];
    match json(given) {
        Some(Value::Object(fields)) if !OURS.iter().any(|name| fields.contains_key(*name)) => {
            Ok(fields.into())
        }
        Some(Value::Object(_)) => Err(Mismatch::Hidden(format!("without {}", OURS.join(", ")))),
        _ => Err(Mismatch::Hidden("a table of what JSON has, as { seed = 1 }".to_owned())),
    }
}

fn json(given: &Given) -> Option<Value> {
    Some(match &given.raw {
        Raw::Text { value, .. } => value.clone().into(),
        Raw::Integer(number) => (*number).into(),
        Raw::Float(number) => serde_json::Number::from_f64(*number)?.into(),
        Raw::Boolean(yes) => (*yes).into(),
        Raw::List(items) => items.iter().map(json).collect::<Option<Vec<_>>>()?.into(),
        Raw::Table(entries) => entries
            .iter()
            .map(|(key, value)| Some((key.clone(), json(value)?)))
            .collect::<Option<Map<_, _>>>()?
            .into(),
        Raw::Other(_) => return None,
    })
}
