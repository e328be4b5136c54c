//! Someone who talks to the agent by hand: every envelope is the test's own, and all that comes back is looked at.

use livekit::{SendByteOptions, StreamReader, prelude::*};
use sotto_core::wire::{
    self, Envelope, Limits,
    body::{Body, Configuration, ControlStop, ControlVariation, StopType, UserMessage, VariationMode},
};
use sotto_harness::{participant::Participant, server::Server};
use std::sync::atomic::{AtomicU32, Ordering};

use super::told;

const LARGEST_PACKET: usize = 15_000;
const LIMITS: Limits = Limits { bytes: 4 << 20, depth: 64, keys: 10_000, content_bytes: 4 << 20 };

pub(crate) struct User {
    pub(crate) participant: Participant,
    /// Our last stanza.
    sent: i32,
    /// The agent's last stanza that we saw.
    seen: i32,
}

/// Something that arrived, in its place.
enum Arrival {
    Packet(Vec<u8>),
    Stream(livekit::ByteStreamReader),
}

impl User {
    /// Joins, whether an agent is there or not.
    pub(crate) async fn join(server: &Server, room: &str, identity: &str) -> Self {
        Self::of(Participant::join(server, room, identity).await)
    }

    pub(crate) fn of(participant: Participant) -> Self {
        Self { participant, sent: 0, seen: 0 }
    }

    /// Says something and gives the message's id.
    pub(crate) async fn says(&mut self, text: &str) -> String {
        let id = new_id();
        self.sends_message(&id, text).await;
        id
    }

    /// Says something under an id of the test's own.
    pub(crate) async fn sends_message(&mut self, id: &str, text: &str) {
        self.sends(Body::UserMessage(UserMessage {
            id: id.to_owned(),
            previous_id: None,
            conversation_id: String::new(),
            content: text.to_owned(),
            timestamp: None,
            attachments: None,
        }))
        .await;
    }

    /// Stops whatever is running.
    pub(crate) async fn stops(&mut self) {
        self.sends(Body::ControlStop(ControlStop {
            conversation_id: String::new(),
            target_id: None,
            reason: None,
            stop_type: StopType::Generation,
        }))
        .await;
    }

    pub(crate) async fn varies(&mut self, target: &str, mode: VariationMode, new_content: Option<&str>) {
        self.sends(Body::ControlVariation(ControlVariation {
            conversation_id: String::new(),
            target_id: target.to_owned(),
            mode,
            new_content: new_content.map(str::to_owned),
        }))
        .await;
    }

    /// Says what it can do, and waits for what the agent says to that.
    pub(crate) async fn can(&mut self, features: &[&str]) {
        let features = Some(features.iter().map(|&feature| feature.to_owned()).collect());
        self.sends(Body::Configuration(Configuration { features, ..Configuration::default() })).await;
        assert_eq!(self.hears(2).await, [format!("ack {}", self.sent), "configuration".to_owned()]);
    }

    /// Sends a body with our next number.
    pub(crate) async fn sends(&mut self, body: Body) {
        self.sends_to(None, body).await;
    }

    /// The same for a conversation that is perhaps not the room's.
    pub(crate) async fn sends_to(&mut self, conversation: Option<&str>, body: Body) {
        self.sent += 1;
        let (meta, conversation) = (serde_json::Map::new(), conversation.map(str::to_owned));
        let bytes = wire::encode(&Envelope { stanza: self.sent, conversation, meta, body });
        self.sends_bytes(bytes).await;
    }

    /// Sends bytes, whatever they are, the way their size asks for.
    pub(crate) async fn sends_bytes(&self, payload: Vec<u8>) {
        if payload.len() <= LARGEST_PACKET {
            let packet = DataPacket { payload, reliable: true, ..DataPacket::default() };
            let sent = self.participant.room.local_participant().publish_data(packet).await;
            sent.expect("the user is connected");
        } else {
            let options = SendByteOptions::new_with_topic("envelope");
            let sent = self.participant.room.local_participant().send_bytes(payload, options).await;
            sent.expect("the user is connected");
        }
    }

    /// The next envelope of the agent; its number is below all before it.
    pub(crate) async fn next(&mut self) -> Envelope {
        loop {
            let arrival = self.participant.event("an envelope of the agent", |event| match event {
                RoomEvent::DataReceived { payload, topic: None, .. } => {
                    Some(Arrival::Packet(payload.as_ref().clone()))
                }
                RoomEvent::ByteStreamOpened { reader, topic, .. } if topic == "envelope" => {
                    reader.take().map(Arrival::Stream)
                }
                _ => None,
            });
            let bytes = match arrival.await {
                Arrival::Packet(bytes) => bytes,
                Arrival::Stream(reader) => reader.read_all().await.expect("the stream is whole").to_vec(),
            };
            // Others in the room may send anything; the sign tells the agent.
            if let Ok(envelope) = wire::decode(&bytes, &LIMITS)
                && envelope.stanza < 0
            {
                assert!(envelope.stanza < self.seen, "{} comes after {}", envelope.stanza, self.seen);
                self.seen = envelope.stanza;
                return envelope;
            }
        }
    }

    /// The next so many envelopes, a line each.
    pub(crate) async fn hears(&mut self, count: usize) -> Vec<String> {
        let mut lines = Vec::new();
        while lines.len() < count {
            lines.push(told(&self.next().await.body));
        }
        lines
    }

    /// Everything up to the envelope for which this holds, that one included.
    pub(crate) async fn until(&mut self, is_it: impl Fn(&Body) -> bool) -> Vec<Envelope> {
        let mut envelopes = Vec::new();
        loop {
            envelopes.push(self.next().await);
            if envelopes.last().is_some_and(|envelope| is_it(&envelope.body)) {
                return envelopes;
            }
        }
    }

    /// Everything up to the end of an answer.
    pub(crate) async fn exchange(&mut self) -> Vec<Envelope> {
        self.until(is_final).await
    }

    /// The same, a line each.
    pub(crate) async fn hears_to_the_end(&mut self) -> Vec<String> {
        self.exchange().await.iter().map(|envelope| told(&envelope.body)).collect()
    }

    /// The next answer, whatever else comes with it: its id and its text.
    pub(crate) async fn answer(&mut self) -> (String, String) {
        let mut answer = (String::new(), String::new());
        for envelope in self.exchange().await {
            if let Body::AssistantSentence(sentence) = envelope.body {
                answer.1.push_str(&sentence.text);
                answer.0 = sentence.previous_id;
            }
        }
        answer
    }

    /// Another agent counts anew, as long as nothing is stored.
    pub(crate) fn forgets_the_agents_numbers(&mut self) {
        self.seen = 0;
    }

    /// Says something and gives the answer's text.
    pub(crate) async fn asks(&mut self, text: &str) -> String {
        self.says(text).await;
        self.answer().await.1
    }
}

pub(crate) fn is_final(body: &Body) -> bool {
    matches!(body, Body::AssistantSentence(sentence) if sentence.is_final == Some(true))
}

fn new_id() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("message-{}", COUNT.fetch_add(1, Ordering::Relaxed))
}
