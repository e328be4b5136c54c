//! Server-sent events: bytes of an HTTP body become events.
//!
//! Framing is done on bytes and text is decoded only when an event is whole, so a character that the network cuts in two
//! survives. It knows nothing of what the events mean, keeps at most one event in memory and never guesses: what is no
//! event is skipped. One leniency: a line that begins with `{` is no field of the format at all, but some servers write
//! an error that way in the middle of a stream; it counts as an event of its own.

use super::StreamError;
use std::mem;

/// One event of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Event {
    /// The `event` field; empty where there was none.
    pub(super) name: String,
    /// The `data` fields, joined by newlines.
    pub(super) data: String,
}

/// Reads events from bytes, however they are cut.
#[derive(Debug)]
pub(super) struct Sse {
    limit: usize,
    /// The line that is not ended yet.
    line: Vec<u8>,
    /// The data of the event that is not ended yet; `None` until its first data line.
    data: Option<Vec<u8>>,
    name: Vec<u8>,
    /// The last byte was a carriage return: a line feed that follows belongs to it.
    after_return: bool,
    first_line: bool,
}

impl Sse {
    /// A reader that refuses lines and events of more than `limit` bytes.
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, line: Vec::new(), data: None, name: Vec::new(), after_return: false, first_line: true }
    }

    /// Takes the next bytes and appends the events that they complete, also when an error follows them.
    pub(super) fn push(&mut self, mut bytes: &[u8], events: &mut Vec<Event>) -> Result<(), StreamError> {
        if self.after_return && !bytes.is_empty() {
            self.after_return = false;
            bytes = bytes.strip_prefix(b"\n").unwrap_or(bytes);
        }
        while let Some(end) = bytes.iter().position(|&byte| byte == b'\n' || byte == b'\r') {
            self.extend_line(&bytes[..end])?;
            let ended_by_return = bytes[end] == b'\r';
            bytes = &bytes[end + 1..];
            if ended_by_return {
                self.after_return = bytes.is_empty();
                bytes = bytes.strip_prefix(b"\n").unwrap_or(bytes);
            }
            self.end_line(events)?;
        }
        self.extend_line(bytes)
    }

    /// The body is over. Servers forget the empty line behind the last event, so what is there counts.
    pub(super) fn finish(&mut self, events: &mut Vec<Event>) -> Result<(), StreamError> {
        if !self.line.is_empty() {
            self.end_line(events)?;
        }
        self.dispatch(events);
        Ok(())
    }

    fn extend_line(&mut self, bytes: &[u8]) -> Result<(), StreamError> {
        if self.line.len() + bytes.len() > self.limit {
            return Err(StreamError::TooLarge("an event of the stream", self.limit));
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    fn end_line(&mut self, events: &mut Vec<Event>) -> Result<(), StreamError> {
        let whole = mem::take(&mut self.line);
        let mut line = whole.as_slice();
        if mem::take(&mut self.first_line) {
            line = line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(line);
        }
        if line.is_empty() {
            self.dispatch(events);
            return Ok(());
        }
        if line.starts_with(b"{") {
            self.dispatch(events);
            events.push(Event { name: String::new(), data: String::from_utf8_lossy(line).into_owned() });
            return Ok(());
        }
        let (field, value) = match line.iter().position(|&byte| byte == b':') {
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (line, &[][..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"data" => {
                let data = match &mut self.data {
                    Some(data) => {
                        data.push(b'\n');
                        data
                    }
                    none => none.insert(Vec::new()),
                };
                if data.len() + value.len() > self.limit {
                    return Err(StreamError::TooLarge("an event of the stream", self.limit));
                }
                data.extend_from_slice(value);
            }
            b"event" => self.name = value.to_vec(),
            // Comments (no field name before the colon), `id`, `retry` and what nobody has heard of.
            _ => {}
        }
        Ok(())
    }

    fn dispatch(&mut self, events: &mut Vec<Event>) {
        let name = mem::take(&mut self.name);
        if let Some(data) = self.data.take() {
            events.push(Event {
                name: String::from_utf8_lossy(&name).into_owned(),
                data: String::from_utf8_lossy(&data).into_owned(),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(pieces: &[&[u8]]) -> Vec<Event> {
        let mut sse = Sse::new(1000);
        let mut events = Vec::new();
        for piece in pieces {
            sse.push(piece, &mut events).expect("no event is too large");
        }
        sse.finish(&mut events).expect("no event is too large");
        events
    }

    fn event(name: &str, data: &str) -> Event {
        Event { name: name.to_owned(), data: data.to_owned() }
    }

    #[test]
    fn any_line_end_ends_a_line() {
        for end in ["\n", "\r\n", "\r"] {
            let body = ["data: a", "", "event: n", "data: b", "", ""].join(end);
            assert_eq!(read(&[body.as_bytes()]), [event("", "a"), event("n", "b")], "{end:?}");
        }
    }

    #[test]
    fn data_lines_are_joined_and_lose_one_space_each() {
        assert_eq!(read(&[b"data: a\ndata:b\ndata:  c\ndata\n\n"]), [event("", "a\nb\n c\n")]);
    }

    #[test]
    fn comments_and_other_fields_are_no_events() {
        assert_eq!(
            read(&[b": ping\n\nid: 7\nretry: 10\nwhatever\n\nevent: lonely\n\ndata: x\n\n"]),
            [event("", "x")]
        );
    }

    #[test]
    fn a_byte_order_mark_is_skipped_once() {
        assert_eq!(read(&["\u{feff}data: x\n\n".as_bytes()]), [event("", "x")]);
        assert_eq!(read(&["data: x\n\n\u{feff}data: y\n\n".as_bytes()]), [event("", "x")]);
    }

    #[test]
    fn the_last_event_needs_no_empty_line() {
        assert_eq!(read(&[b"data: [DONE]"]), [event("", "[DONE]")]);
        assert_eq!(read(&[b"data: [DONE]\n"]), [event("", "[DONE]")]);
    }

    #[test]
    fn a_bare_object_is_an_event_of_its_own() {
        assert_eq!(
            read(&[b"data: a\n{\"error\":\"x\"}\n"]),
            [event("", "a"), event("", "{\"error\":\"x\"}")]
        );
    }

    #[test]
    fn a_broken_character_harms_only_itself() {
        assert_eq!(read(&[b"data: a\xffb\n\n"]), [event("", "a\u{fffd}b")]);
    }

    #[test]
    fn more_than_the_limit_is_refused_and_what_came_before_is_kept() {
        for body in
            [&b"data: a\n\ndata: 1234567890123456"[..], b"data: a\n\ndata: 123456789\ndata: 123456789\n"]
        {
            let mut events = Vec::new();
            let result = Sse::new(16).push(body, &mut events);
            assert_eq!(result, Err(StreamError::TooLarge("an event of the stream", 16)));
            assert_eq!(events, [event("", "a")]);
        }
    }

    proptest! {
        #[test]
        fn any_cut_gives_the_same_events(
            lines in prop::collection::vec("(data: ?|data|event: |: |\\{|)[a-zäß€😀]{0,4}(\n|\r\n|\r)", 0..20),
            cuts in prop::collection::vec(0_usize..400, 0..10),
        ) {
            let body = lines.concat().into_bytes();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(body.len())).collect();
            cuts.extend([0, body.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|cut| &body[cut[0]..cut[1]]).collect();
            prop_assert_eq!(read(&pieces), read(&[&body]));
        }
    }
}
