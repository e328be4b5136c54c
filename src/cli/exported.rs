//! The format of an exported conversation: JSON Lines, a header and then one record a line.
//!
//! Readers must pass over keys that they do not know; a change that old readers would misread gets a new [`VERSION`].

use super::json::Readable;
use super::terminal::escape_controls;
use crate::store::Entry;
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sotto_core::engine::people::Audience;
use sotto_core::engine::record::{Record, Stanza};
use sotto_core::time::Time;
use sotto_core::wire::{self, Envelope};
use std::io::BufRead;
use std::time::{SystemTime, UNIX_EPOCH};

const FORMAT: &str = "sotto-conversation";
const VERSION: u32 = 1;

/// What the agent itself sent is read whatever its size.
const LIMITS: wire::Limits =
    wire::Limits { bytes: 64 << 20, depth: 128, keys: 1 << 20, content_bytes: 64 << 20 };

#[derive(Serialize, Deserialize)]
struct Header {
    format: String,
    version: u32,
    conversation: String,
    /// When it was written.
    exported: Time,
}

/// One line after the header.
#[derive(Serialize)]
struct Line<'a> {
    at: Time,
    #[serde(flatten)]
    what: What<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum What<'a> {
    Stanza(ReadableStanza<'a>),
    #[serde(untagged)]
    Record(&'a Record),
}

#[derive(Serialize)]
struct ReadableStanza<'a> {
    number: i32,
    audience: &'a Audience,
    /// For those who read it; nothing is lost without it.
    envelope: Option<Readable<'a>>,
    bytes: String,
}

/// What is read of a stanza.
#[derive(Deserialize)]
struct GivenStanza {
    number: i32,
    audience: Audience,
    bytes: String,
}

/// The first line.
pub(super) fn header(conversation: &str) -> String {
    let exported = Time::default() + SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    json(&Header {
        format: FORMAT.to_owned(),
        version: VERSION,
        conversation: conversation.to_owned(),
        exported,
    })
}

/// The line of a record.
pub(super) fn line(entry: &Entry) -> String {
    let envelope;
    let what = match &entry.record {
        Record::Stanza(stanza) => {
            envelope = decode(&stanza.bytes).ok();
            What::Stanza(ReadableStanza {
                number: stanza.number,
                audience: &stanza.audience,
                envelope: envelope.as_ref().map(Readable::of),
                bytes: BASE64.encode(&stanza.bytes),
            })
        }
        record => What::Record(record),
    };
    json(&Line { at: entry.at, what })
}

fn json(value: &impl Serialize) -> String {
    let json =
        serde_json::to_string(value).expect("records have text keys alone, and strings take all bytes");
    escape_controls(&json)
}

/// Reads what was sent.
pub(super) fn decode(bytes: &[u8]) -> Result<Envelope, wire::Malformed> {
    wire::decode(bytes, &LIMITS)
}

/// A conversation that was exported.
#[derive(Debug, PartialEq)]
pub(super) struct Exported {
    pub(super) conversation: String,
    /// In the order in which it happened; every stanza can be decoded.
    pub(super) entries: Vec<Entry>,
}

/// Why a file is no export.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}")]
pub(super) struct NoExport {
    /// Counted from 1.
    line: usize,
    reason: String,
}

/// Reads an export.
pub(super) fn read(source: impl BufRead) -> Result<Exported, NoExport> {
    let mut conversation = None;
    let mut entries = Vec::new();
    let mut last = 0;
    for (index, text) in source.lines().enumerate() {
        last = index + 1;
        let fault = |reason: String| NoExport { line: index + 1, reason };
        let text = text.map_err(|error| fault(format!("it cannot be read: {error}")))?;
        if conversation.is_none() {
            conversation = Some(read_header(&text).map_err(fault)?);
        } else {
            entries.push(read_entry(&text).map_err(fault)?);
        }
    }
    match conversation {
        Some(conversation) => Ok(Exported { conversation, entries }),
        None => Err(NoExport { line: last.max(1), reason: "the file is empty".to_owned() }),
    }
}

fn read_header(text: &str) -> Result<String, String> {
    let header: Header = serde_json::from_str(text)
        .map_err(|_| format!("a header with \"format\":\"{FORMAT}\" was expected"))?;
    if header.format != FORMAT {
        return Err(format!("the format is {:?}, not \"{FORMAT}\"", header.format));
    }
    if header.version > VERSION {
        let version = header.version;
        return Err(format!(
            "it has version {version} of the format, written by a newer Sotto; use that one"
        ));
    }
    Ok(header.conversation)
}

fn read_entry(text: &str) -> Result<Entry, String> {
    // Serde's own words say where something is wrong, and may quote it: this is the reader's own file.
    let wrong = |error: serde_json::Error| format!("no record: {error}");
    let mut line: Map<String, Value> = serde_json::from_str(text).map_err(wrong)?;
    let at = serde_json::from_value(line.remove("at").unwrap_or_default())
        .map_err(|_| "no time: at is missing")?;
    let record = match line.remove("stanza") {
        Some(stanza) => Record::Stanza(read_stanza(stanza)?),
        None => serde_json::from_value(Value::Object(line)).map_err(wrong)?,
    };
    Ok(Entry { at, record, sealed: None })
}

fn read_stanza(stanza: Value) -> Result<Stanza, String> {
    let GivenStanza { number, audience, bytes } =
        serde_json::from_value(stanza).map_err(|error| format!("no stanza: {error}"))?;
    let bytes =
        BASE64.decode(bytes).map_err(|error| format!("the bytes of a stanza are no base64: {error}"))?;
    decode(&bytes).map_err(|error| format!("the bytes of a stanza are no envelope: {error}"))?;
    Ok(Stanza { number, audience, bytes })
}

#[cfg(test)]
mod tests {
    use super::*;
    use sotto_core::engine::policy::Taint;
    use sotto_core::engine::record::{Message, ToolBegun};
    use sotto_core::model::ToolCall;
    use sotto_core::wire::body::{Body, ReasoningStep};

    fn entries() -> Vec<Entry> {
        let message = Record::Message(Message {
            id: "m1".to_owned(),
            previous: None,
            from: "anna".to_owned(),
            name: "Anna".to_owned(),
            text: "Line 1\nline 2 \u{9b}".to_owned(),
            chat: false,
            at: Time(4),
        });
        let tool = Record::ToolBegun(ToolBegun {
            message: "m1".to_owned(),
            call: ToolCall { id: "call00001".to_owned(), name: "time".to_owned(), arguments: Ok(Map::new()) },
            request: "atu_1".to_owned(),
            repeatable: true,
            handed: false,
            taint: Taint::default(),
            at: Time(5),
        });
        let body = Body::ReasoningStep(ReasoningStep {
            id: "ar_1".to_owned(),
            conversation_id: "room".to_owned(),
            previous_id: "m1".to_owned(),
            content: "Hm.".to_owned(),
            step_index: 1,
            total_steps: None,
        });
        let envelope = Envelope { stanza: -2, conversation: Some("room".to_owned()), meta: Map::new(), body };
        let bytes = wire::encode(&envelope);
        let stanza = Record::Stanza(Stanza { number: -2, audience: Audience::Reasoning, bytes });
        [message, tool, stanza].map(|record| Entry { at: Time(6), record, sealed: None }).into()
    }

    fn exported() -> Vec<String> {
        let header = header("room");
        std::iter::once(header).chain(entries().iter().map(line)).collect()
    }

    fn read_lines(lines: &[String]) -> Result<Exported, NoExport> {
        read(lines.join("\n").as_bytes())
    }

    #[test]
    fn what_is_written_can_be_read() {
        let expected = Exported { conversation: "room".to_owned(), entries: entries() };
        assert_eq!(read_lines(&exported()), Ok(expected));
    }

    #[test]
    fn a_line_can_be_read_without_knowing_sotto() {
        let lines = exported();
        assert!(lines.iter().all(|line| !line.contains(char::is_control)), "{lines:?}");
        let of = |line: &String| serde_json::from_str::<Value>(line).expect("JSON");
        let (message, stanza) = (of(&lines[1]), of(&lines[3]));
        assert_eq!((&message["at"], &message["message"]["from"]), (&6.into(), &"anna".into()));
        let stanza = &stanza["stanza"];
        assert_eq!((&stanza["number"], &stanza["audience"]), (&(-2).into(), &"reasoning".into()));
        assert_eq!(stanza["envelope"]["type"], "ReasoningStep");
        assert_eq!(stanza["envelope"]["body"]["content"], "Hm.");
    }

    #[test]
    fn what_is_no_export_is_told_with_its_line() {
        let good = exported();
        let place_of = |index: usize, line: &str| {
            let mut lines = good.clone();
            lines[index] = line.to_owned();
            read_lines(&lines).expect_err(line).to_string()
        };
        assert!(place_of(0, "hello").starts_with("line 1: a header"));
        assert!(
            place_of(0, &good[0].replace("sotto-conversation", "x")).starts_with("line 1: the format is")
        );
        assert!(place_of(0, &good[0].replace("\"version\":1", "\"version\":2")).contains("newer Sotto"));
        assert!(place_of(1, "{\"at\":1}").starts_with("line 2: no record"));
        assert!(place_of(1, "{\"at\":1,\"unheard_of\":{}}").starts_with("line 2: no record"));
        assert!(place_of(1, "{\"message\":{}}").starts_with("line 2: no time"));
        let stanza = "{\"at\":1,\"stanza\":{\"number\":-1,\"audience\":\"everyone\",\"bytes\":\"BYTES\"}}";
        assert!(
            place_of(3, &stanza.replace("BYTES", "*"))
                .starts_with("line 4: the bytes of a stanza are no base64")
        );
        assert!(place_of(3, &stanza.replace("BYTES", "AAAA")).contains("no envelope"));
        assert_eq!(read_lines(&[]).expect_err("empty").to_string(), "line 1: the file is empty");
    }
}
