//! What others in the room ask the agent. Clients send that to everyone unless they choose not to, as packets, as streams
//! or in LiveKit's chat, so that a client can show it. Pure: the time is an argument, and whose words these are is said
//! by the caller.

use crate::room::streams::{Content, Progress, Streams};
use crate::room::{ByteBudget, StreamLimits};
use livekit_protocol::data_stream::{Chunk, Header, Trailer};
use sotto_core::wire::body::Body;
use sotto_core::wire::{self, Limits};
use std::collections::VecDeque;
use tokio::time::Instant;

/// Strangers' streams that may wait here, in bytes.
const WAITING_BYTES: usize = 8 << 20;
/// So many messages are remembered: what nobody acknowledged is sent again.
const REMEMBERED: usize = 256;

#[derive(Debug)]
pub(super) struct Overheard {
    streams: Streams,
    /// Sender and id of what was told, oldest first.
    told: VecDeque<(String, String)>,
}

impl Default for Overheard {
    fn default() -> Self {
        let streams = Streams::new(StreamLimits::default(), ByteBudget::new(WAITING_BYTES));
        Self { streams, told: VecDeque::new() }
    }
}

impl Overheard {
    /// A packet; what it asks, if that is news.
    pub(super) fn packet(&mut self, from: &str, bytes: &[u8]) -> Option<String> {
        match wire::decode(bytes, &Limits::default()).ok()?.body {
            Body::UserMessage(message) => self.once(from, message.id, message.content),
            _ => None,
        }
    }

    pub(super) fn header(&mut self, from: &str, header: Header, now: Instant) -> Option<String> {
        // Nobody is told that its stream was silent for too long.
        self.streams.expire(now);
        let progress = self.streams.header(from, header, now);
        self.advance(from, progress)
    }

    pub(super) fn chunk(&mut self, from: &str, chunk: &Chunk, now: Instant) -> Option<String> {
        let progress = self.streams.chunk(from, chunk, now);
        self.advance(from, progress)
    }

    pub(super) fn trailer(&mut self, from: &str, trailer: &Trailer) -> Option<String> {
        let progress = self.streams.trailer(from, trailer);
        self.advance(from, progress)
    }

    /// Forgets what someone who left had begun.
    pub(super) fn gone(&mut self, from: &str) {
        self.streams.forget(from);
    }

    fn advance(&mut self, from: &str, progress: Progress) -> Option<String> {
        match progress {
            Progress::Complete(Content::Envelope(bytes), _) => self.packet(from, &bytes),
            Progress::Complete(Content::Chat { id, text }, _) => self.once(from, id, text),
            Progress::Pending | Progress::Refused(_) => None,
        }
    }

    fn once(&mut self, from: &str, id: String, text: String) -> Option<String> {
        let message = (from.to_owned(), id);
        if self.told.contains(&message) {
            return None;
        }
        if self.told.len() == REMEMBERED {
            self.told.pop_front();
        }
        self.told.push_back(message);
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Map;
    use sotto_core::wire::Envelope;
    use sotto_core::wire::body::{ControlStop, StopType, UserMessage};

    fn packet(body: Body) -> Vec<u8> {
        wire::encode(&Envelope { stanza: 1, conversation: None, meta: Map::new(), body })
    }

    fn question(id: &str, content: &str) -> Vec<u8> {
        packet(Body::UserMessage(UserMessage {
            id: id.to_owned(),
            previous_id: None,
            conversation_id: String::new(),
            content: content.to_owned(),
            timestamp: None,
            attachments: None,
        }))
    }

    #[test]
    fn what_is_asked_is_told_once() {
        let mut overheard = Overheard::default();
        assert_eq!(overheard.packet("anna", &question("m1", "Why?")).as_deref(), Some("Why?"));
        assert_eq!(overheard.packet("anna", &question("m1", "Why?")), None, "it was sent again");
        assert_eq!(overheard.packet("bob", &question("m1", "How?")).as_deref(), Some("How?"));
        assert_eq!(overheard.packet("anna", &question("m2", "When?")).as_deref(), Some("When?"));
    }

    #[test]
    fn nothing_else_is_told() {
        let mut overheard = Overheard::default();
        let stop = ControlStop {
            conversation_id: String::new(),
            target_id: None,
            reason: Some("Enough".to_owned()),
            stop_type: StopType::All,
        };
        assert_eq!(overheard.packet("anna", &packet(Body::ControlStop(stop))), None);
        assert_eq!(overheard.packet("anna", b"garbage"), None);
    }

    #[test]
    fn it_is_not_remembered_without_end() {
        let mut overheard = Overheard::default();
        for number in 0..10 * REMEMBERED {
            assert!(overheard.packet("anna", &question(&number.to_string(), "Why?")).is_some());
        }
        assert_eq!(overheard.told.len(), REMEMBERED);
    }
}
