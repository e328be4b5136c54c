//! The other side of the protocol: an ordinary user of a room who talks to the agent there.
//!
//! `sotto chat` and the tests use it. It counts its own stanzas, remembers what was not acknowledged and sends it again
//! when an agent comes or the connection is back, and hands over what agents send, in order. It may touch the room
//! alone; it never prints, and never decides what an answer means.

mod features;
mod ledger;
mod overheard;
mod sending;

use crate::address;
use crate::room::ByteBudget;
use crate::room::StreamLimits;
use crate::room::line::Line;
use crate::room::streams::{Content, Progress, Streams};
use ledger::{Ledger, Receipt};
use livekit::prelude::{RemoteParticipant, RoomEvent, RoomOptions};
use livekit::{ConnectionState, DisconnectReason, ParticipantKind, ParticipantState, Room};
use overheard::Overheard;
use sotto_core::ids::{Ids, Kind};
use sotto_core::wire::body::{
    Body, Configuration, ControlStop, ControlVariation, StopType, ToolConsent, UserMessage, VariationMode,
};
use sotto_core::wire::{self, Envelope};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use thiserror::Error;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout};

const ENVELOPE_TOPIC: &str = "envelope";
/// How large an envelope of an agent may be: an agent is trusted with more than a stranger.
const LARGEST_ENVELOPE: usize = 16 << 20;
const LIMITS: wire::Limits =
    wire::Limits { bytes: LARGEST_ENVELOPE, depth: 128, keys: 100_000, content_bytes: LARGEST_ENVELOPE };
const STREAM_LIMITS: StreamLimits =
    StreamLimits { bytes: LARGEST_ENVELOPE, open_per_participant: 4, idle: Duration::from_secs(10) };
/// How long a stream may take before what came after it goes first.
const STREAM_PATIENCE: Duration = Duration::from_secs(30);
/// How long leaving may take before it is given up.
const FAREWELL: Duration = Duration::from_secs(5);

/// How to take part.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// The server's address as it may be shown, if it holds a secret.
    pub shown_url: Option<String>,
    /// The topic of packets, if they have one; those without any are ours too.
    pub topic: Option<String>,
    /// Whether to ask for the model's thoughts while they come.
    pub reasoning: bool,
    /// Whether somebody can be asked for leave before a tool is used.
    pub consent: bool,
    /// How it calls itself: a name and a version.
    pub version: String,
}

impl Default for ClientOptions {
    fn default() -> Self {
        let version = format!("sotto-chat/{}", env!("CARGO_PKG_VERSION"));
        Self { shown_url: None, topic: None, reasoning: true, consent: false, version }
    }
}

/// Why a room could not be joined.
#[derive(Debug, Error)]
pub enum ClientError {
    /// The server could not be reached, or does not want us.
    #[error("cannot join a room at {url}: {reason}")]
    Connect {
        /// Where, as it may be shown.
        url: String,
        /// What `livekit` says, without addresses.
        reason: String,
    },
    /// There is no randomness for ids.
    #[error("the system has no randomness to give: {0}")]
    Randomness(String),
}

/// What happens to a client.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// An agent is in the room and can hear us.
    AgentHere {
        /// Who.
        identity: String,
    },
    /// An agent has left.
    AgentGone {
        /// Who.
        identity: String,
    },
    /// An agent sent this.
    Received(Box<Envelope>),
    /// Somebody else asks the agent something, and lets us know.
    Overheard {
        /// Their name, else their identity.
        who: String,
        /// What they ask.
        text: String,
    },
    /// The connection is lost and being restored.
    Reconnecting,
    /// The connection is back, and what was missed has been asked for.
    Reconnected,
    /// The room is over for us; in words.
    Closed(String),
}

/// A user in a room.
pub struct Client {
    room: Arc<Room>,
    events: mpsc::UnboundedReceiver<RoomEvent>,
    /// What is to be sent, in order. Unbounded: it holds no more than its user typed.
    outgoing: Option<mpsc::UnboundedSender<Vec<u8>>>,
    sending: JoinHandle<()>,
    options: ClientOptions,
    ledger: Ledger,
    ids: Ids,
    streams: Streams,
    /// Streams are told apart by sender and id.
    line: Line<(String, String), Vec<u8>>,
    /// Agents that were announced.
    agents: BTreeSet<String>,
    /// Those of them that can hear us.
    hearing: BTreeSet<String>,
    /// Something came before any agent was announced: it may have been the agent's.
    may_have_missed: bool,
    overheard: Overheard,
    ready: VecDeque<Event>,
}

impl Client {
    /// Joins the room that the token names.
    pub async fn join(url: &str, token: &str, options: ClientOptions) -> Result<Self, ClientError> {
        let mut seed = [0; 32];
        getrandom::fill(&mut seed).map_err(|error| ClientError::Randomness(error.to_string()))?;
        let mut room_options = RoomOptions::default();
        room_options.auto_subscribe = false;
        let connected = Room::connect(url, token, room_options).await;
        let (room, events) = connected.map_err(|error| ClientError::Connect {
            url: options.shown_url.clone().unwrap_or_else(|| address::shown(url)),
            reason: address::hidden_in(&error.to_string()),
        })?;
        let room = Arc::new(room);
        let (outgoing, queue) = mpsc::unbounded_channel();
        let sending = tokio::spawn(sending::send_all(room.clone(), queue, options.topic.clone()));
        Ok(Self {
            ledger: Ledger::new(room.name()),
            room,
            events,
            outgoing: Some(outgoing),
            sending,
            options,
            ids: Ids::from_seed(seed),
            streams: Streams::new(STREAM_LIMITS, ByteBudget::new(4 * LARGEST_ENVELOPE)),
            line: Line::default(),
            agents: BTreeSet::new(),
            hearing: BTreeSet::new(),
            may_have_missed: false,
            overheard: Overheard::default(),
            ready: VecDeque::new(),
        })
    }

    /// The room's name.
    pub fn room(&self) -> String {
        self.room.name()
    }

    /// The SDK's own room, for tests that shake it.
    pub fn livekit_room(&self) -> &Room {
        &self.room
    }

    /// Who we are in the room.
    pub fn identity(&self) -> String {
        self.room.local_participant().identity().to_string()
    }

    /// Whether an agent is in the room and can hear us. As of the last event that was taken.
    pub fn agent_is_here(&self) -> bool {
        !self.hearing.is_empty()
    }

    /// What happens next. Nothing is lost when the future is dropped.
    pub async fn next(&mut self) -> Event {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return event;
            }
            let patience = self.line.patience();
            tokio::select! {
                event = self.events.recv() => match event {
                    Some(event) => self.handle(event),
                    None => return Event::Closed("the connection is over".to_owned()),
                },
                () = sleep_until(patience.unwrap_or_else(Instant::now)), if patience.is_some() => {}
            }
            while let Some(bytes) = self.line.next(Instant::now()) {
                self.receive(&bytes);
            }
        }
    }

    /// Says something; gives the message's id. Without an agent it waits for one.
    pub fn say(&mut self, text: &str) -> String {
        let id = self.ids.next(Kind::Message);
        self.send(Body::UserMessage(UserMessage {
            id: id.clone(),
            previous_id: None,
            conversation_id: self.room.name(),
            content: text.to_owned(),
            timestamp: milliseconds_since_1970(),
            attachments: None,
        }));
        id
    }

    /// Stops the answer to a message (or with that id), or whatever is running.
    pub fn stop(&mut self, target: Option<&str>) {
        self.send(Body::ControlStop(ControlStop {
            conversation_id: self.room.name(),
            target_id: target.map(str::to_owned),
            reason: None,
            stop_type: StopType::Generation,
        }));
    }

    /// Asks for another answer. Not repeated if nobody hears it.
    pub fn vary(&mut self, target: &str, mode: VariationMode, new_content: Option<&str>) {
        self.send(Body::ControlVariation(ControlVariation {
            conversation_id: self.room.name(),
            target_id: target.to_owned(),
            mode,
            new_content: new_content.map(str::to_owned),
        }));
    }

    /// Allows or denies the use of a tool that the agent asked for.
    pub fn consent(&mut self, request: &str, allow: bool) {
        self.send(Body::ToolConsent(ToolConsent {
            request_id: request.to_owned(),
            conversation_id: self.room.name(),
            allow,
        }));
    }

    /// Takes back a message that no agent has acknowledged; false if one has.
    pub fn withdraw(&mut self, id: &str) -> bool {
        self.ledger.withdraw(id)
    }

    /// Sends any message, with our next number.
    pub fn send(&mut self, body: Body) {
        let envelope = self.ledger.number(body);
        self.post(&envelope);
    }

    /// Leaves, after all that was said has been sent.
    pub async fn leave(mut self) {
        self.outgoing = None;
        let farewell = async {
            // An error says that a send panicked, or that the room was over already; we are leaving either way.
            let _ = (&mut self.sending).await;
            let _ = self.room.close().await;
        };
        let _ = timeout(FAREWELL, farewell).await;
    }

    fn post(&self, envelope: &Envelope) {
        if let Some(outgoing) = &self.outgoing {
            // An error says that the room is over, which the next event tells.
            let _ = outgoing.send(wire::encode(envelope));
        }
    }

    fn handle(&mut self, event: RoomEvent) {
        match event {
            RoomEvent::Connected { participants_with_tracks } => {
                for (participant, _) in participants_with_tracks {
                    self.announced(&participant);
                }
            }
            RoomEvent::ParticipantConnected(participant) | RoomEvent::ParticipantActive(participant) => {
                self.announced(&participant);
            }
            RoomEvent::ParticipantDisconnected(participant) => self.gone(participant.identity().as_str()),
            RoomEvent::DataReceived { payload, topic, participant, .. } if self.is_ours(topic.as_deref()) => {
                self.packet(participant, payload);
            }
            // Streams are put together from their packets: the SDK's readers do not keep their place among packets.
            RoomEvent::ByteStreamOpened { reader, .. } => {
                if let Some(reader) = reader.take() {
                    reader.closer().close();
                }
            }
            RoomEvent::TextStreamOpened { reader, .. } => {
                if let Some(reader) = reader.take() {
                    reader.closer().close();
                }
            }
            #[allow(deprecated)]
            RoomEvent::StreamHeaderReceived { header, participant_identity: from } => {
                let now = Instant::now();
                for (_, _, refusal) in self.streams.expire(now) {
                    tracing::warn!("a large message of the agent is lost: {}", refusal.reason);
                }
                let Some(sender) = self.sender(&from) else { return };
                if sender.kind() != ParticipantKind::Agent {
                    let text = self.overheard.header(&from, header, now);
                    self.overhear(&sender, text);
                } else if header.topic == ENVELOPE_TOPIC {
                    let stream = header.stream_id.clone();
                    self.line.expect((from.clone(), stream.clone()), now + STREAM_PATIENCE);
                    let progress = self.streams.header(&from, header, now);
                    self.advance(&from, &stream, progress);
                }
            }
            #[allow(deprecated)]
            RoomEvent::StreamChunkReceived { chunk, participant_identity: from } => {
                let progress = self.streams.chunk(&from, &chunk, Instant::now());
                self.advance(&from, &chunk.stream_id, progress);
                let text = self.overheard.chunk(&from, &chunk, Instant::now());
                self.overhear_from(&from, text);
            }
            #[allow(deprecated)]
            RoomEvent::StreamTrailerReceived { trailer, participant_identity: from } => {
                let progress = self.streams.trailer(&from, &trailer);
                self.advance(&from, &trailer.stream_id, progress);
                // Whatever it was, nothing more comes of it.
                self.line.give_up(|(sender, stream)| *sender == from && *stream == trailer.stream_id);
                let text = self.overheard.trailer(&from, &trailer);
                self.overhear_from(&from, text);
            }
            RoomEvent::Reconnecting => self.ready.push_back(Event::Reconnecting),
            RoomEvent::Reconnected => {
                // Packets may have been lost in both directions.
                self.introduce();
                self.ready.push_back(Event::Reconnected);
            }
            RoomEvent::Disconnected { reason } => self.ready.push_back(Event::Closed(in_words(reason))),
            _ => {}
        }
    }

    /// Someone was announced, or can hear us now.
    fn announced(&mut self, participant: &RemoteParticipant) {
        if participant.kind() != ParticipantKind::Agent {
            return;
        }
        let identity = participant.identity().to_string();
        if self.agents.insert(identity.clone()) {
            self.ledger.agent_changed();
        }
        // Whoever is still connecting would miss it.
        if participant.state() == ParticipantState::Active && self.hearing.insert(identity.clone()) {
            self.introduce();
            self.ready.push_back(Event::AgentHere { identity });
        }
    }

    fn gone(&mut self, identity: &str) {
        self.streams.forget(identity);
        self.overheard.gone(identity);
        self.line.give_up(|(sender, _)| sender == identity);
        if self.agents.remove(identity) {
            self.ledger.agent_changed();
        }
        if self.hearing.remove(identity) {
            self.ready.push_back(Event::AgentGone { identity: identity.to_owned() });
        }
    }

    /// Says what we can do and how far we have come, then whatever nobody has acknowledged.
    fn introduce(&mut self) {
        self.configure();
        for envelope in self.ledger.unacknowledged() {
            self.post(&envelope);
        }
    }

    fn configure(&mut self) {
        let missed = std::mem::take(&mut self.may_have_missed);
        self.send(Body::Configuration(Configuration {
            conversation_id: Some(self.room.name()),
            last_sequence_seen: self.ledger.last_sequence_seen().or(missed.then_some(0)),
            client_version: Some(self.options.version.clone()),
            features: Some(features::wanted(&self.options)),
            ..Configuration::default()
        }));
    }

    fn receive(&mut self, bytes: &[u8]) {
        match wire::decode(bytes, &LIMITS) {
            Ok(envelope) => match self.ledger.receive(&envelope) {
                Receipt::New => self.ready.push_back(Event::Received(Box::new(envelope))),
                Receipt::NewButOneIsMissing => {
                    self.ready.push_back(Event::Received(Box::new(envelope)));
                    self.configure();
                }
                Receipt::Known => {}
            },
            Err(malformed) => tracing::warn!("the agent sent something that cannot be read: {malformed}"),
        }
    }

    fn advance(&mut self, from: &str, stream: &str, progress: Progress) {
        match progress {
            Progress::Complete(Content::Envelope(bytes), _) => {
                self.line.arrive(&(from.to_owned(), stream.to_owned()), bytes);
            }
            Progress::Refused(refusal) => {
                self.line.give_up(|(sender, id)| sender == from && id == stream);
                tracing::warn!("a large message of the agent is lost: {}", refusal.reason);
            }
            Progress::Complete(Content::Chat { .. }, _) | Progress::Pending => {}
        }
    }

    /// Whoever is not announced could be anybody: not one to be believed.
    fn sender(&mut self, identity: &str) -> Option<RemoteParticipant> {
        let sender = self.room.remote_participants().remove(&identity.into());
        self.may_have_missed |= sender.is_none() && self.agents.is_empty();
        sender
    }

    fn packet(&mut self, sender: Option<RemoteParticipant>, payload: Arc<Vec<u8>>) {
        match sender {
            None => self.may_have_missed |= self.agents.is_empty(),
            Some(sender) if sender.kind() == ParticipantKind::Agent => {
                self.line.join(Arc::unwrap_or_clone(payload));
            }
            Some(sender) => {
                let text = self.overheard.packet(sender.identity().as_str(), &payload);
                self.overhear(&sender, text);
            }
        }
    }

    fn overhear_from(&mut self, identity: &str, text: Option<String>) {
        if text.is_some()
            && let Some(sender) = self.sender(identity)
        {
            self.overhear(&sender, text);
        }
    }

    fn overhear(&mut self, sender: &RemoteParticipant, text: Option<String>) {
        let name = sender.name();
        let who = if name.trim().is_empty() { sender.identity().to_string() } else { name };
        self.ready.extend(text.map(|text| Event::Overheard { who, text }));
    }

    fn is_ours(&self, topic: Option<&str>) -> bool {
        topic.is_none_or(|topic| topic.is_empty() || self.options.topic.as_deref() == Some(topic))
    }
}

impl Drop for Client {
    /// A room whose handle is dropped lives on.
    fn drop(&mut self) {
        if self.room.connection_state() == ConnectionState::Disconnected {
            return;
        }
        if let Ok(runtime) = Handle::try_current() {
            let room = self.room.clone();
            runtime.spawn(async move { room.close().await });
        }
    }
}

fn milliseconds_since_1970() -> Option<i64> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    i64::try_from(since.as_millis()).ok()
}

fn in_words(reason: DisconnectReason) -> String {
    match reason {
        DisconnectReason::ClientInitiated => "we left".to_owned(),
        DisconnectReason::DuplicateIdentity => "someone else joined with our identity".to_owned(),
        DisconnectReason::ParticipantRemoved => "we were removed from the room".to_owned(),
        DisconnectReason::RoomDeleted | DisconnectReason::RoomClosed => "the room was closed".to_owned(),
        DisconnectReason::ServerShutdown => "the server is shutting down".to_owned(),
        DisconnectReason::UnknownReason => "the connection was lost and could not be restored".to_owned(),
        other => format!("disconnected: {}", other.as_str_name().to_lowercase().replace('_', " ")),
    }
}
