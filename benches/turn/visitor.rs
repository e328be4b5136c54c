//! Someone in a room who asks and listens, and knows when what arrived. Keeps nothing, so that hundreds of them can listen.

use crate::{beacon, relay, script};
use livekit::{TextStreamReader, prelude::*};
use sotto_core::wire::{
    self, Envelope, Limits,
    body::{Body, UserMessage},
};
use sotto_harness::{PATIENCE, agent::AGENT, server::Server};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{sync::mpsc::UnboundedReceiver, time::timeout};

/// Who they are in their rooms.
pub(crate) const VISITOR: &str = "visitor";
const LIMITS: Limits = Limits { bytes: 1 << 20, depth: 32, keys: 1_000, content_bytes: 1 << 20 };

pub(crate) struct Visitor {
    room: Arc<Room>,
    events: UnboundedReceiver<RoomEvent>,
    asked: usize,
}

/// What a visitor notices.
pub(crate) enum Noticed {
    /// A sentence of the agent, and whether it was the last.
    Sentence { last: bool },
    /// A bare packet, and how long it was under way.
    Bare(Duration),
    /// What a relay passed on.
    Relayed(Arc<Vec<u8>>),
    /// The answer, as stock clients read it.
    Transcript(TextStreamReader),
}

impl Visitor {
    /// Joins and waits for the agent.
    pub(crate) async fn join(server: &Server, room: &str) -> Self {
        let token = server.token(room, VISITOR);
        let joined = timeout(PATIENCE, Room::connect(&server.url(), &token, RoomOptions::default())).await;
        let joined = joined.unwrap_or_else(|_| panic!("{room} cannot be joined in {PATIENCE:?}"));
        let (room, events) = joined.unwrap_or_else(|error| panic!("a room cannot be joined: {error}"));
        let mut visitor = Self { room: Arc::new(room), events, asked: 0 };
        let name = visitor.room();
        let meeting = timeout(PATIENCE, visitor.meet_agent()).await;
        meeting.unwrap_or_else(|_| panic!("no agent came to {name} in {PATIENCE:?}"));
        visitor
    }

    pub(crate) fn room(&self) -> String {
        self.room.name()
    }

    /// Asks the next question with a packet of ours; its text, and when it was about to be sent.
    pub(crate) async fn ask(&mut self) -> (String, Instant) {
        let text = self.next_question();
        let body = Body::UserMessage(UserMessage {
            id: format!("message-{}", self.asked),
            previous_id: None,
            conversation_id: String::new(),
            content: text.clone(),
            timestamp: None,
            attachments: None,
        });
        let envelope = Envelope {
            stanza: i32::try_from(self.asked).unwrap_or(i32::MAX),
            conversation: None,
            meta: serde_json::Map::new(),
            body,
        };
        let payload = wire::encode(&envelope);
        let sent = Instant::now();
        let packet = DataPacket { payload, reliable: true, ..DataPacket::default() };
        self.room.local_participant().publish_data(packet).await.expect("the visitor is connected");
        (text, sent)
    }

    /// Asks the next question in LiveKit's own chat, as stock clients do.
    pub(crate) async fn chat(&mut self) -> Instant {
        let text = self.next_question();
        let sent = Instant::now();
        let options = livekit::SendTextOptions::new_with_topic("lk.chat");
        self.room.local_participant().send_text(&text, options).await.expect("the visitor is connected");
        sent
    }

    /// Asks and waits for the end of the answer.
    pub(crate) async fn ask_and_wait(&mut self) {
        self.ask().await;
        while !matches!(self.notice().await, (_, Noticed::Sentence { last: true })) {}
    }

    /// What happens next, and when.
    pub(crate) async fn notice(&mut self) -> (Instant, Noticed) {
        loop {
            let event = timeout(PATIENCE, self.events.recv()).await;
            let event = event.unwrap_or_else(|_| panic!("silence in {}", self.room()));
            let event = event.expect("the room is not left");
            let at = Instant::now();
            if let Some(noticed) = self.read(event) {
                return (at, noticed);
            }
        }
    }

    fn read(&self, event: RoomEvent) -> Option<Noticed> {
        match event {
            RoomEvent::DataReceived { payload, topic: Some(topic), .. } if topic == beacon::TOPIC => {
                beacon::trip(&payload).map(Noticed::Bare)
            }
            RoomEvent::DataReceived { payload, topic: Some(topic), .. } if topic == relay::TOPIC => {
                Some(Noticed::Relayed(payload))
            }
            RoomEvent::DataReceived { payload, topic: None, .. } => {
                match wire::decode(&payload, &LIMITS).expect("the agent sends what can be read").body {
                    Body::AssistantSentence(sentence) => {
                        Some(Noticed::Sentence { last: sentence.is_final == Some(true) })
                    }
                    Body::ErrorMessage(error) => panic!("the agent answers in {}: {error:?}", self.room()),
                    _ => None,
                }
            }
            RoomEvent::TextStreamOpened { reader, topic, .. } if topic == "lk.transcription" => {
                reader.take().map(Noticed::Transcript)
            }
            RoomEvent::Disconnected { reason } => panic!("{} is over: {reason:?}", self.room()),
            _ => None,
        }
    }

    async fn meet_agent(&mut self) {
        let is_it = |participant: &RemoteParticipant| {
            participant.identity().as_str() == AGENT
                && participant.state() == livekit::ParticipantState::Active
        };
        while !self.room.remote_participants().values().any(is_it) {
            self.events.recv().await.expect("the room is not left");
        }
    }

    fn next_question(&mut self) -> String {
        self.asked += 1;
        script::question_text(&self.room(), self.asked)
    }
}

impl Noticed {
    /// Lets go of what is not to be read.
    pub(crate) fn close(self) {
        if let Self::Transcript(reader) = self {
            reader.closer().close();
        }
    }
}
