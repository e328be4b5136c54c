//! Our additions to the original API for those who read data packets: who sent one, and which to keep out.
//!
//! A LiveKit server stamps every data packet with its sender's identity, but announces a newcomer that only
//! sends data up to some seconds later; until then `livekit` hands the packet over without a participant and
//! drops the identity. This crate sees the packet before `livekit` does and keeps a short record of
//! (payload, identity) per connection, which [`Senders`] lets the application ask.
//!
//! Safe by construction: the identity is the server's, not the sender's word. Each packet leaves one entry and
//! each question takes one, in the order of arrival. When one payload is on record from two different senders,
//! neither packet is attributed: else someone could repeat a victim's bytes and be taken for the victim.
//!
//! `livekit` also answers remote calls by itself, without a limit on their number or on the time they stay open,
//! and panics at a transcription whose track has a strange id. A process that has no use for either can
//! [`keep_out_calls_and_transcriptions`] before `livekit` sees them. Where it makes a call itself it says whose answer
//! it [expects](expect_answer_from), and that one's alone come through, a few for each call.

use std::{
    collections::VecDeque,
    hash::{BuildHasher, RandomState},
    ops::Deref,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use livekit_protocol::{DataPacket, data_packet::Value};
use parking_lot::Mutex;
use prost::Message;

/// Entries kept per connection. A packet that nobody asks about is forgotten when so many have come after it.
const MAX_ENTRIES: usize = 4096;

/// The streams in which remote calls and their answers travel have such a topic, answers this one.
const CALL_TOPICS: &str = "lk.rpc_";
const ANSWER_TOPIC: &str = "lk.rpc_response";

static KEEPS_OUT: AtomicBool = AtomicBool::new(false);

/// From now on, remote calls (requests, acknowledgements and responses, as packets and as streams) and
/// transcription packets are dropped on every connection of this process, as if they had never come, but for answers
/// that are [expected](expect_answer_from). For processes that offer no methods and read no transcriptions.
pub fn keep_out_calls_and_transcriptions() {
    KEEPS_OUT.store(true, Ordering::Relaxed);
}

/// Acknowledgements, and as many answers, that are let in for each call. More than one: what belongs to an earlier call of the
/// same participant may come late and must not take this one's place; `livekit` drops what answers no call.
const MAX_PARTS: usize = 8;

/// Those who were called and have not answered yet.
static EXPECTED: Mutex<Vec<Arc<Expected>>> = Mutex::new(Vec::new());

/// How much was let in for one call.
#[derive(Debug)]
struct Expected {
    identity: String,
    acknowledgements: AtomicUsize,
    answers: AtomicUsize,
}

/// For as long as this lives, the answer of the one who was called is let in. Dropping it keeps out what comes later.
#[derive(Debug)]
#[must_use]
pub struct ExpectedAnswer(Arc<Expected>);

/// From now on a few acknowledgements and responses of this participant are let in, in whatever room: to be asked for
/// before each call.
pub fn expect_answer_from(identity: impl Into<String>) -> ExpectedAnswer {
    let (acknowledgements, answers) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let expected = Arc::new(Expected { identity: identity.into(), acknowledgements, answers });
    EXPECTED.lock().push(expected.clone());
    ExpectedAnswer(expected)
}

impl Drop for ExpectedAnswer {
    fn drop(&mut self) {
        EXPECTED.lock().retain(|expected| !Arc::ptr_eq(expected, &self.0));
    }
}

/// Whether it may be part of an answer that somebody waits for, on the server's word about its sender.
fn is_expected(packet: &DataPacket) -> bool {
    let part: fn(&Expected) -> &AtomicUsize = match &packet.value {
        Some(Value::RpcAck(_)) => |expected| &expected.acknowledgements,
        Some(Value::RpcResponse(_)) => |expected| &expected.answers,
        Some(Value::StreamHeader(header)) if header.topic == ANSWER_TOPIC => |expected| &expected.answers,
        _ => return false,
    };
    let expected = EXPECTED.lock();
    let mut of_sender = expected.iter().filter(|expected| expected.identity == packet.participant_identity);
    let one_more = |count: usize| (count < MAX_PARTS).then_some(count + 1);
    of_sender
        .any(|expected| part(expected).fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).is_ok())
}

/// Of a stream only the header says what it is; without one, `livekit` keeps nothing of the rest.
fn is_call_or_transcription(value: &Value) -> bool {
    match value {
        Value::RpcRequest(_) | Value::RpcAck(_) | Value::RpcResponse(_) | Value::Transcription(_) => true,
        Value::StreamHeader(header) => header.topic.starts_with(CALL_TOPICS),
        _ => false,
    }
}

/// The senders of one connection's recent data packets.
#[derive(Debug, Default)]
pub(crate) struct Record {
    entries: Mutex<VecDeque<Entry>>,
    /// The ICE user name of the connection, by which an application finds it (see [`Senders::of_connection`]).
    username: Mutex<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    payload: u64,
    identity: String,
    /// Another sender's packet with the same bytes was on record at the same time.
    ambiguous: bool,
}

/// The records that can be found.
static REGISTRY: Mutex<Vec<Arc<Record>>> = Mutex::new(Vec::new());

/// A connection's own hold on its record, which can be found for as long as this lives.
#[derive(Debug)]
pub(crate) struct Registration(Arc<Record>);

impl Deref for Registration {
    type Target = Record;

    fn deref(&self) -> &Record {
        &self.0
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        REGISTRY.lock().retain(|known| !Arc::ptr_eq(known, &self.0));
    }
}

/// A keyed hash: nobody outside can make two payloads collide.
fn fingerprint(payload: &[u8]) -> u64 {
    static KEY: OnceLock<RandomState> = OnceLock::new();
    KEY.get_or_init(RandomState::new).hash_one(payload)
}

impl Record {
    /// A record for a new connection.
    pub(crate) fn register() -> Registration {
        let record = Arc::new(Self::default());
        REGISTRY.lock().push(record.clone());
        Registration(record)
    }

    /// Remembers under which user name the connection can be found.
    pub(crate) fn is_known_as(&self, username: &str) {
        username.clone_into(&mut self.username.lock());
    }

    /// Takes one message of a data channel in, noting its sender if it is a user packet. False if it is to be
    /// kept out.
    pub(crate) fn admit(&self, message: &[u8]) -> bool {
        let Ok(packet) = DataPacket::decode(message) else { return true };
        if KEEPS_OUT.load(Ordering::Relaxed) && packet.value.as_ref().is_some_and(is_call_or_transcription) {
            return is_expected(&packet);
        }
        self.note(packet);
        true
    }

    fn note(&self, packet: DataPacket) {
        let Some(Value::User(user)) = packet.value else { return };
        #[allow(deprecated)] // Older servers name the sender only inside the user packet.
        let identity = if packet.participant_identity.is_empty() {
            user.participant_identity
        } else {
            packet.participant_identity
        };
        let payload = fingerprint(&user.payload);
        let mut entries = self.entries.lock();
        if entries.len() == MAX_ENTRIES {
            entries.pop_front();
        }
        let mut ambiguous = false;
        for other in entries.iter_mut().filter(|e| e.payload == payload && e.identity != identity) {
            other.ambiguous = true;
            ambiguous = true;
        }
        entries.push_back(Entry { payload, identity, ambiguous });
    }

    fn take(&self, payload: &[u8]) -> Sender {
        let payload = fingerprint(payload);
        let mut entries = self.entries.lock();
        let first = entries.iter().position(|entry| entry.payload == payload);
        match first.and_then(|first| entries.remove(first)) {
            Some(entry) if entry.ambiguous => Sender::Ambiguous,
            Some(entry) if !entry.identity.is_empty() => Sender::Identity(entry.identity),
            _ => Sender::Unknown,
        }
    }
}

/// What is known of a packet's sender.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sender {
    /// The server vouches for this identity.
    Identity(String),
    /// The same bytes came from more than one sender: nobody can be named.
    Ambiguous,
    /// There is no record: never seen, already asked for, too long ago, or sent by nobody with an identity.
    Unknown,
}

/// The record of one connection.
#[derive(Debug, Clone)]
pub struct Senders(Arc<Record>);

impl Senders {
    /// Finds the record of the connection whose ICE user name fragment is `username`: a room's `get_stats` has
    /// it in its transport report (`ice_local_username_fragment`). Ask again after a reconnect: the room may
    /// have another connection then, or another user name.
    pub fn of_connection(username: &str) -> Option<Self> {
        if username.is_empty() {
            return None;
        }
        REGISTRY.lock().iter().find(|record| *record.username.lock() == username).cloned().map(Self)
    }

    /// Who sent `payload`? Each packet can be asked for once. Ask for *every* packet that arrives, also where
    /// the participant is known, so that the record stays in step.
    pub fn take(&self, payload: &[u8]) -> Sender {
        self.0.take(payload)
    }
}

#[cfg(test)]
mod tests {
    use livekit_protocol::{
        ChatMessage, RpcAck, RpcRequest, RpcResponse, Transcription, UserPacket, data_stream::Header,
    };

    use super::*;

    fn packet(identity: &str, payload: &[u8]) -> Vec<u8> {
        let user = UserPacket { payload: payload.to_vec(), ..UserPacket::default() };
        DataPacket {
            participant_identity: identity.to_owned(),
            value: Some(Value::User(user)),
            ..DataPacket::default()
        }
        .encode_to_vec()
    }

    fn identity(name: &str) -> Sender {
        Sender::Identity(name.to_owned())
    }

    #[test]
    fn each_packet_is_attributed_once() {
        let record = Record::default();
        record.admit(&packet("alice", b"hello"));
        record.admit(&packet("bob", b"hi"));
        assert_eq!(record.take(b"hi"), identity("bob"));
        assert_eq!(record.take(b"hello"), identity("alice"));
        assert_eq!(record.take(b"hello"), Sender::Unknown);
    }

    #[test]
    fn the_same_bytes_from_two_senders_name_nobody() {
        let record = Record::default();
        record.admit(&packet("victim", b"pay 5"));
        record.admit(&packet("thief", b"pay 5"));
        assert_eq!(record.take(b"pay 5"), Sender::Ambiguous);
        assert_eq!(record.take(b"pay 5"), Sender::Ambiguous);
    }

    #[test]
    fn the_same_bytes_twice_from_one_sender_are_fine() {
        let record = Record::default();
        record.admit(&packet("alice", b"ping"));
        record.admit(&packet("alice", b"ping"));
        assert_eq!(record.take(b"ping"), identity("alice"));
        assert_eq!(record.take(b"ping"), identity("alice"));
    }

    #[test]
    fn nobodys_packets_stay_nobodys() {
        let record = Record::default();
        record.admit(&packet("", b"from a hidden participant"));
        record.admit(b"\xff\xff not a packet");
        assert_eq!(record.take(b"from a hidden participant"), Sender::Unknown);
    }

    #[test]
    fn the_record_is_bounded() {
        let record = Record::default();
        for i in 0..3 * MAX_ENTRIES {
            record.admit(&packet("flood", i.to_string().as_bytes()));
        }
        assert_eq!(record.entries.lock().len(), MAX_ENTRIES);
    }

    #[test]
    fn a_record_is_found_while_its_connection_lives() {
        let registration = Record::register();
        let known = Arc::downgrade(&registration.0);
        registration.is_known_as("found-while-it-lives");
        registration.admit(&packet("alice", b"hello"));
        let senders = Senders::of_connection("found-while-it-lives").expect("it is registered");
        assert_eq!(senders.take(b"hello"), identity("alice"));

        drop(registration);
        assert!(Senders::of_connection("found-while-it-lives").is_none(), "its connection is gone");
        drop(senders);
        assert_eq!(known.strong_count(), 0, "the registry keeps nothing of it");
        assert!(Senders::of_connection("").is_none(), "a connection without a name is nobody's");
    }

    #[test]
    fn only_answers_of_the_one_who_was_called_are_let_in_and_a_few() {
        let from = |identity: &str, value: Value| DataPacket {
            participant_identity: identity.to_owned(),
            value: Some(value),
            ..DataPacket::default()
        };
        let ack = || Value::RpcAck(RpcAck::default());
        let response = || Value::RpcResponse(RpcResponse::default());
        let stream =
            |topic: &str| Value::StreamHeader(Header { topic: topic.to_owned(), ..Header::default() });
        assert!(!is_expected(&from("called", ack())), "nobody was called");
        let first = expect_answer_from("called");
        let second = expect_answer_from("called");
        for other in [ack(), response(), stream("lk.rpc_response")] {
            assert!(!is_expected(&from("somebody-else", other)), "it was not asked");
        }
        for call in [Value::RpcRequest(RpcRequest::default()), stream("lk.rpc_request")] {
            assert!(!is_expected(&from("called", call)), "who is called may not call");
        }
        for _ in 0..2 * MAX_PARTS {
            assert!(is_expected(&from("called", ack())));
        }
        assert!(!is_expected(&from("called", ack())), "so many for each of two calls");
        drop(first);
        assert!(is_expected(&from("called", response())), "it may be late and of the first");
        assert!(is_expected(&from("called", stream("lk.rpc_response"))));
        drop(second);
        assert!(!is_expected(&from("called", response())), "nobody waits any more");
        assert!(EXPECTED.lock().iter().all(|expected| expected.identity != "called"));
    }

    #[test]
    fn calls_and_transcriptions_are_told_from_the_rest() {
        let header =
            |topic: &str| Value::StreamHeader(Header { topic: topic.to_owned(), ..Header::default() });
        for unwanted in [
            Value::RpcRequest(RpcRequest::default()),
            Value::RpcAck(RpcAck::default()),
            Value::RpcResponse(RpcResponse::default()),
            Value::Transcription(Transcription::default()),
            header("lk.rpc_request"),
            header("lk.rpc_response"),
        ] {
            assert!(is_call_or_transcription(&unwanted), "{unwanted:?}");
        }
        for wanted in [
            Value::User(UserPacket::default()),
            Value::ChatMessage(ChatMessage::default()),
            header("lk.chat"),
            header("envelope"),
        ] {
            assert!(!is_call_or_transcription(&wanted), "{wanted:?}");
        }
        let call =
            DataPacket { value: Some(Value::RpcRequest(RpcRequest::default())), ..DataPacket::default() };
        assert!(Record::default().admit(&call.encode_to_vec()), "nothing is kept out unless asked");
    }
}
