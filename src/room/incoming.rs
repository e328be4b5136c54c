//! Turns what `livekit` tells of a room into the session's events.
//!
//! Decides whose words count: agents are ignored everywhere, a packet has the sender that the server names, a newcomer
//! has joined when it first speaks, and whoever is only missing during a reconnect has not left. Never waits for the
//! session: `livekit` queues its events without bound.

use super::budget::ByteBudget;
use super::counts::Counts;
use super::delivery::Delivery;
use super::described::Described;
use super::order::{Order, Overflow, Sent};
use super::seldom::Seldom;
use super::senders::{Attribution, Origin};
use super::streams::{Content, Progress, Refusal, Streams};
use super::{LEGACY_CHAT_TOPIC, StreamLimits};
use crate::ports::RoomEvent;
use livekit::participant;
use livekit::prelude::{RemoteParticipant, RoomEvent as LiveKitEvent};
use livekit::{ConnectionState, DisconnectReason, ParticipantKind, Room, StreamReader};
use livekit_protocol::data_stream::Header;
use serde::Deserialize;
use sotto_core::engine::event::Participant;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};

/// Whoever spoke and was not announced by then has left before it could be.
const UNANNOUNCED: Duration = Duration::from_secs(10);

pub(super) struct Incoming {
    room: Arc<Room>,
    events: mpsc::UnboundedReceiver<LiveKitEvent>,
    topic: Option<String>,
    allow_anonymous: bool,
    counts: Arc<Counts>,
    delivery: Delivery,
    streams: Streams,
    order: Order,
    attribution: Attribution,
    ambiguous: Seldom,
    unattributed: Seldom,
    /// Who has joined, as the session knows it; until when to wait for those who were not announced yet.
    people: BTreeMap<String, Option<Instant>>,
    described: Described,
    agents: BTreeSet<String>,
    /// Gone without a reason: left, or swept away with all others by a full reconnect that is about to begin.
    missing: BTreeSet<String>,
    connection: watch::Sender<u64>,
    connected: watch::Sender<bool>,
}

/// What an [`Incoming`] is told about its room.
pub(super) struct Rules {
    pub(super) topic: Option<String>,
    pub(super) allow_anonymous: bool,
    pub(super) connected: watch::Sender<bool>,
    pub(super) limits: StreamLimits,
    pub(super) budget: ByteBudget,
    pub(super) counts: Arc<Counts>,
}

/// The chat packet of LiveKit's older front ends.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LegacyChat {
    id: String,
    message: String,
    /// The same message also comes as a stream.
    #[serde(default)]
    ignore_legacy: bool,
}

impl Incoming {
    pub(super) fn new(
        room: Arc<Room>,
        events: mpsc::UnboundedReceiver<LiveKitEvent>,
        told: mpsc::Sender<RoomEvent>,
        connection: watch::Sender<u64>,
        rules: Rules,
    ) -> Self {
        Self {
            room,
            events,
            topic: rules.topic,
            allow_anonymous: rules.allow_anonymous,
            delivery: Delivery::new(told, rules.budget.clone(), rules.counts.clone()),
            counts: rules.counts,
            order: Order::new(&rules.limits, rules.budget.clone()),
            streams: Streams::new(rules.limits, rules.budget),
            attribution: Attribution::default(),
            ambiguous: Seldom::default(),
            unattributed: Seldom::default(),
            people: BTreeMap::new(),
            described: Described::default(),
            agents: BTreeSet::new(),
            missing: BTreeSet::new(),
            connection,
            connected: rules.connected,
        }
    }

    /// Works until the room is over, and says why.
    pub(super) async fn run(mut self) {
        let reason = loop {
            let expiry = self.next_expiry();
            tokio::select! {
                event = self.events.recv() => match event {
                    Some(LiveKitEvent::Disconnected { reason }) => break reason,
                    Some(event) => self.handle(event).await,
                    None => break DisconnectReason::UnknownReason,
                },
                () = self.delivery.catch_up(), if self.delivery.is_behind() => {}
                () = sleep_until(expiry.unwrap_or_else(Instant::now)), if expiry.is_some() => {
                    self.expire().await;
                }
            }
            self.tell_missing();
        };
        // The other half must not go on for as long as nobody takes the last event.
        drop(self.connection);
        self.connected.send_replace(false);
        self.delivery.close(in_words(reason)).await;
    }

    fn next_expiry(&self) -> Option<Instant> {
        let unannounced = self.people.values().copied().flatten();
        let others = [self.streams.next_expiry(), self.order.next_expiry(), self.attribution.next_expiry()];
        unannounced.chain(others.into_iter().flatten()).min()
    }

    async fn expire(&mut self) {
        let now = Instant::now();
        for (from, stream, refusal) in self.streams.expire(now) {
            self.refuse(&from, refusal);
            self.order.give_up(&from, &stream);
            self.release(&from);
        }
        for from in self.order.expired(now) {
            self.release(&from);
        }
        let never_announced = |until: &Option<Instant>| until.is_some_and(|until| until <= now);
        let gone = self.people.iter().filter(|(_, until)| never_announced(until));
        let gone: Vec<_> = gone.map(|(identity, _)| identity.clone()).collect();
        for identity in gone {
            self.left(identity);
        }
        self.release_held().await;
    }

    async fn handle(&mut self, event: LiveKitEvent) {
        match event {
            LiveKitEvent::Connected { participants_with_tracks } => {
                let mut there: Vec<_> = participants_with_tracks.into_iter().map(|(who, _)| who).collect();
                there.sort_by_key(RemoteParticipant::joined_at);
                for participant in &there {
                    self.announced(participant);
                }
            }
            LiveKitEvent::ParticipantConnected(participant) => {
                self.announced(&participant);
                self.release_held().await;
            }
            LiveKitEvent::ParticipantAttributesChanged {
                participant: livekit::prelude::Participant::Remote(participant),
                ..
            }
            | LiveKitEvent::ParticipantPermissionChanged {
                participant: livekit::prelude::Participant::Remote(participant),
                ..
            } => self.described(&participant),
            LiveKitEvent::ParticipantDisconnected(participant) => self.gone(&participant),
            LiveKitEvent::DataReceived { payload, topic, participant, .. } => {
                self.packet(payload, topic, participant).await;
            }
            // A generated one is from an agent, which may name anyone as its sender: the server vouches for nobody here.
            LiveKitEvent::ChatMessage { message, participant: Some(participant) }
                if message.deleted != Some(true) && message.generated != Some(true) =>
            {
                self.chat(participant.identity().as_str(), message.id, message.message);
            }
            // Streams are put together from their packets; the SDK's readers are closed, so that it keeps nothing. They
            // come in step with the parts, though.
            LiveKitEvent::ByteStreamOpened { reader, participant_identity: from, .. } => {
                if let Some(reader) = reader.take() {
                    reader.closer().close();
                    self.stream_opened(from.as_str(), &reader.info().id);
                }
            }
            LiveKitEvent::TextStreamOpened { reader, participant_identity: from, .. } => {
                if let Some(reader) = reader.take() {
                    reader.closer().close();
                    self.stream_opened(from.as_str(), &reader.info().id);
                }
            }
            // Deprecated for their lack of comfort, but only these say who sent each part.
            #[allow(deprecated)]
            LiveKitEvent::StreamHeaderReceived { header, participant_identity: from } => {
                self.stream_begins(&from, header);
            }
            #[allow(deprecated)]
            LiveKitEvent::StreamChunkReceived { chunk, participant_identity: from } => {
                let progress = self.streams.chunk(&from, &chunk, Instant::now());
                self.advance(&from, &chunk.stream_id, progress);
            }
            #[allow(deprecated)]
            LiveKitEvent::StreamTrailerReceived { trailer, participant_identity: from } => {
                let progress = self.streams.trailer(&from, &trailer);
                self.advance(&from, &trailer.stream_id, progress);
                // Whatever it was, nothing more comes of it.
                self.order.give_up(&from, &trailer.stream_id);
                self.release(&from);
            }
            LiveKitEvent::Reconnecting => {
                self.attribution.connection_changed();
                self.connected.send_replace(false);
            }
            LiveKitEvent::Reconnected => {
                self.connected.send_replace(true);
                self.attribution.connection_changed();
                self.release_held().await;
                self.connection.send_modify(|connection| *connection += 1);
            }
            _ => {}
        }
    }

    fn announced(&mut self, participant: &RemoteParticipant) {
        let identity = participant.identity().to_string();
        if participant.kind() == ParticipantKind::Agent {
            // It may have spoken before anyone could know what it is.
            self.left(identity.clone());
            self.agents.insert(identity);
            return;
        }
        self.attribution.announced(&identity);
        if self.missing.remove(&identity) {
            // The same one for those who talk to it, but perhaps with another token.
            return self.described(participant);
        }
        let name = participant.name();
        let news = match self.people.insert(identity.clone(), None) {
            None => true,
            // It spoke before it was announced: its name is news, if it has one.
            Some(Some(_unannounced)) => !name.is_empty(),
            Some(None) => false,
        };
        if news {
            self.delivery.tell(RoomEvent::Joined(Participant { identity, name }));
        }
        self.described(participant);
    }

    /// Tells what the server says of someone, as far as that one cannot change it: rights may depend on it.
    fn described(&mut self, participant: &RemoteParticipant) {
        let identity = participant.identity().to_string();
        if !self.people.contains_key(&identity) {
            return;
        }
        let may_change = participant.permission().map(|permission| permission.can_update_metadata);
        let Some(attributes) = self.described.news(&identity, may_change, participant.attributes()) else {
            return;
        };
        self.delivery.tell(RoomEvent::Attributes { identity, attributes });
    }

    fn gone(&mut self, participant: &RemoteParticipant) {
        let identity = participant.identity().to_string();
        self.forget_streams(&identity);
        self.agents.remove(&identity);
        if !self.people.contains_key(&identity) {
            return;
        }
        self.missing.insert(identity);
        if participant.disconnect_reason() != participant::DisconnectReason::UnknownReason {
            self.tell_missing_now();
        }
    }

    /// Whoever is missing has left, unless a reconnect is under way, which will tell.
    fn tell_missing(&mut self) {
        let settled = self.events.is_empty() && self.room.connection_state() == ConnectionState::Connected;
        if settled && !self.missing.is_empty() {
            self.tell_missing_now();
        }
    }

    fn tell_missing_now(&mut self) {
        for identity in std::mem::take(&mut self.missing) {
            self.left(identity);
        }
    }

    /// What someone who is gone had begun will not be finished; what waited for it goes on.
    fn forget_streams(&mut self, identity: &str) {
        self.streams.forget(identity);
        self.order.give_up_all(identity);
        self.release(identity);
    }

    fn left(&mut self, identity: String) {
        self.forget_streams(&identity);
        self.described.forget(&identity);
        if self.people.remove(&identity).is_some() {
            self.delivery.tell(RoomEvent::Left { identity });
        }
    }

    async fn packet(
        &mut self,
        payload: Arc<Vec<u8>>,
        topic: Option<String>,
        participant: Option<RemoteParticipant>,
    ) {
        if let Some(participant) = participant {
            self.attribution.pass(&self.room, &payload).await;
            self.attributed(participant.identity().as_str(), topic.as_deref(), payload);
            return;
        }
        let origin = self.attribution.origin(&self.room, &payload).await;
        if origin == Origin::NotYet {
            if self.is_ours(topic.as_deref()) && self.attribution.hold(topic, payload).is_some() {
                self.counts.unattributed_packets.add_one();
            }
            return;
        }
        self.decided(origin, topic.as_deref(), payload);
    }

    async fn release_held(&mut self) {
        while let Some((held, origin)) = self.attribution.decided(&self.room).await {
            self.decided(origin, held.topic.as_deref(), held.payload);
        }
    }

    fn decided(&mut self, origin: Origin, topic: Option<&str>, payload: Arc<Vec<u8>>) {
        if !self.is_ours(topic) {
            return;
        }
        match origin {
            Origin::Identity(identity) => self.attributed(&identity, topic, payload),
            Origin::Ambiguous => {
                self.counts.ambiguous_packets.add_one();
                if let Some(packets) = self.ambiguous.due(Instant::now()) {
                    tracing::warn!(packets, "refused: the same bytes came from two senders at once");
                }
            }
            Origin::NotYet => {
                self.counts.unattributed_packets.add_one();
                if let Some(packets) = self.unattributed.due(Instant::now()) {
                    tracing::warn!(packets, "dropped: their sender did not become known");
                }
            }
            Origin::Nobody if self.allow_anonymous => self.content("", topic, payload),
            Origin::Nobody => {
                self.counts.anonymous_packets.add_one();
                tracing::debug!("a packet without a sender was dropped");
            }
        }
    }

    fn attributed(&mut self, from: &str, topic: Option<&str>, payload: Arc<Vec<u8>>) {
        if self.is_ours(topic) && self.counts_as_sender(from) {
            self.content(from, topic, payload);
        }
    }

    fn content(&mut self, from: &str, topic: Option<&str>, payload: Arc<Vec<u8>>) {
        if topic == Some(LEGACY_CHAT_TOPIC) {
            match serde_json::from_slice::<LegacyChat>(&payload) {
                Ok(chat) if !chat.ignore_legacy => self.chat(from, chat.id, chat.message),
                Ok(_) => {}
                // The error's own words may quote what was said.
                Err(error) => tracing::debug!("a chat packet could not be read: {:?}", error.classify()),
            }
            return;
        }
        let bytes = Arc::unwrap_or_clone(payload);
        self.in_order(from, bytes.len(), RoomEvent::Packet { from: from.to_owned(), bytes });
    }

    fn chat(&mut self, from: &str, id: String, text: String) {
        if self.counts_as_sender(from) {
            self.in_order(from, text.len(), RoomEvent::Chat { from: from.to_owned(), id, text });
        }
    }

    /// Hands something over after all that its sender began before.
    fn in_order(&mut self, from: &str, bytes: usize, event: RoomEvent) {
        let joined = self.order.join(from, bytes, event);
        self.joined_line(from, joined);
    }

    fn joined_line(&mut self, from: &str, joined: Result<(), Overflow>) {
        if joined == Err(Overflow) {
            self.delivery.drop_one(from);
        }
        self.release(from);
    }

    /// Hands over what this sender's line does not hold back any more.
    fn release(&mut self, from: &str) {
        while let Some(Sent { event, reserved }) = self.order.next(from, Instant::now()) {
            self.delivery.hand_over_reserved(from, reserved, event);
        }
    }

    fn stream_begins(&mut self, from: &str, header: Header) {
        if !Streams::is_ours(&header) || !self.counts_as_sender(from) {
            return;
        }
        let (stream, now) = (header.stream_id.clone(), Instant::now());
        match self.streams.header(from, header, now) {
            Progress::Pending => self.order.expect(from, &stream, now),
            // It has no place in line; another of the same id may have one.
            Progress::Refused(refusal) => self.refuse(from, refusal),
            complete @ Progress::Complete(..) => self.advance(from, &stream, complete),
        }
    }

    fn stream_opened(&mut self, from: &str, stream: &str) {
        let progress = self.streams.opened(from, stream);
        self.advance(from, stream, progress);
    }

    fn advance(&mut self, from: &str, stream: &str, progress: Progress) {
        match progress {
            Progress::Pending => {}
            Progress::Complete(content, reserved) => {
                let from_whom = from.to_owned();
                let event = match content {
                    Content::Envelope(bytes) => RoomEvent::Packet { from: from_whom, bytes },
                    Content::Chat { id, text } => RoomEvent::Chat { from: from_whom, id, text },
                };
                let joined = self.order.arrive(from, stream, Sent { event, reserved });
                self.joined_line(from, joined);
            }
            Progress::Refused(refusal) => {
                self.refuse(from, refusal);
                self.order.give_up(from, stream);
                self.release(from);
            }
        }
    }

    fn refuse(&mut self, from: &str, refusal: Refusal) {
        let Refusal { reason, for_now } = refusal;
        self.counts.refused_streams.add_one();
        tracing::debug!("a stream was refused: {reason}");
        self.delivery.refuse(from, reason, for_now);
    }

    /// Whether this sender is heard. One who is not yet announced joins with its first words.
    fn counts_as_sender(&mut self, from: &str) -> bool {
        if from.is_empty()
            || self.agents.contains(from)
            || from == self.room.local_participant().identity().as_str()
        {
            return false;
        }
        if !self.people.contains_key(from) {
            self.people.insert(from.to_owned(), Some(Instant::now() + UNANNOUNCED));
            let newcomer = Participant { identity: from.to_owned(), name: String::new() };
            self.delivery.tell(RoomEvent::Joined(newcomer));
        }
        true
    }

    fn is_ours(&self, topic: Option<&str>) -> bool {
        match topic {
            None | Some("" | LEGACY_CHAT_TOPIC) => true,
            Some(topic) => self.topic.as_deref() == Some(topic),
        }
    }
}

fn in_words(reason: DisconnectReason) -> String {
    match reason {
        DisconnectReason::ClientInitiated => "we left".to_owned(),
        DisconnectReason::DuplicateIdentity => {
            "someone else joined with our identity; every agent in a room needs its own".to_owned()
        }
        DisconnectReason::ParticipantRemoved => "we were removed from the room".to_owned(),
        DisconnectReason::RoomDeleted | DisconnectReason::RoomClosed => "the room was closed".to_owned(),
        DisconnectReason::ServerShutdown => "the server is shutting down".to_owned(),
        DisconnectReason::UnknownReason => "the connection was lost and could not be restored".to_owned(),
        other => format!("disconnected: {}", other.as_str_name().to_lowercase().replace('_', " ")),
    }
}
