//! The client of the protocol, with the room adapter and a script in the agent's place.

use livekit::{DataPacket, SimulateScenario};
use serde_json::Map;
use sotto::client::{Client, ClientOptions, Event};
use sotto::ports::{Room, RoomCommand, RoomEvent};
use sotto::room::{Access, JoinOptions, join};
use sotto_core::engine::event::Recipients;
use sotto_core::wire::body::{Acknowledgement, AssistantSentence, Body, Configuration, UserMessage};
use sotto_core::wire::{self, Envelope, Limits};
use sotto_harness::{
    PATIENCE,
    participant::Participant,
    server::{Server, new_room},
};
use tokio::time::timeout;

const AGENT: &str = "agent-scripted";

/// An agent that does what the test says.
struct Agent(Room);

impl Agent {
    async fn join(server: &Server, room: &str, identity: &str) -> Self {
        let (api_key, api_secret) = server.api_key();
        let access = Access::Key { api_key: api_key.to_owned(), api_secret: api_secret.to_owned() };
        let joined = timeout(PATIENCE, join(JoinOptions::new(server.url(), access, room, identity)));
        Self(joined.await.expect("joining ends").expect("the room can be joined"))
    }

    /// Sends one to everyone; `previous` is the kept stanza before it.
    async fn sends(&self, stanza: i32, previous: Option<i32>, body: Body) {
        let meta = previous.map(|previous| ("sotto.prev".to_owned(), previous.into()));
        let conversation = Some(self.0.name.clone());
        let bytes = wire::encode(&Envelope { stanza, conversation, meta: Map::from_iter(meta), body });
        let command = RoomCommand::Send { to: Recipients::Everyone, bytes };
        self.0.commands.send(command).await.expect("the room is still there");
    }

    /// The first envelope to come from which `claim` takes something.
    async fn hears<T>(&mut self, what: &str, claim: impl Fn(i32, Body) -> Option<T>) -> T {
        let waiting = async {
            while let Some(event) = self.0.events.recv().await {
                if let RoomEvent::Packet { bytes, .. } = event {
                    let envelope = wire::decode(&bytes, &Limits::default()).expect("the client's is right");
                    if let Some(claimed) = claim(envelope.stanza, envelope.body) {
                        return claimed;
                    }
                }
            }
            panic!("the room is over, awaiting: {what}");
        };
        timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("the agent awaited in vain: {what}"))
    }

    async fn hears_message(&mut self) -> (i32, UserMessage) {
        self.hears("a message", |stanza, body| match body {
            Body::UserMessage(message) => Some((stanza, message)),
            _ => None,
        })
        .await
    }

    async fn hears_configuration(&mut self) -> Configuration {
        self.hears("a configuration", |_, body| match body {
            Body::Configuration(configuration) => Some(configuration),
            _ => None,
        })
        .await
    }
}

async fn join_client(server: &Server, room: &str) -> Client {
    let (url, token) = (server.url(), server.token(room, "anna"));
    let joined = timeout(PATIENCE, Client::join(&url, &token, ClientOptions::default()));
    joined.await.expect("joining ends").expect("the room can be joined")
}

async fn happens<T>(client: &mut Client, what: &str, claim: impl Fn(Event) -> Option<T>) -> T {
    let waiting = async {
        loop {
            if let Some(claimed) = claim(client.next().await) {
                return claimed;
            }
        }
    };
    timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("the client awaited in vain: {what}"))
}

async fn meets_agent(client: &mut Client) {
    happens(client, "an agent", |event| matches!(event, Event::AgentHere { .. }).then_some(())).await;
    assert!(client.agent_is_here());
}

async fn receives(client: &mut Client) -> Envelope {
    happens(client, "an envelope", |event| match event {
        Event::Received(envelope) => Some(*envelope),
        _ => None,
    })
    .await
}

fn sentence(text: &str) -> Body {
    Body::AssistantSentence(AssistantSentence {
        id: None,
        previous_id: "am_answer".to_owned(),
        conversation_id: String::new(),
        sequence: 1,
        text: text.to_owned(),
        is_final: None,
        audio: None,
    })
}

/// A client that has met an agent, which knows what the client can do.
async fn meeting(server: &Server, room: &str) -> (Client, Agent) {
    let mut agent = Agent::join(server, room, AGENT).await;
    let mut client = join_client(server, room).await;
    meets_agent(&mut client).await;
    agent.hears_configuration().await;
    (client, agent)
}

pub(crate) async fn what_no_agent_heard_is_sent_again_when_one_comes() {
    let server = Server::shared().await;
    let room = new_room();
    let mut client = join_client(&server, &room).await;
    assert!(!client.agent_is_here());
    let id = client.say("Is anybody here?");

    let mut agent = Agent::join(&server, &room, AGENT).await;
    meets_agent(&mut client).await;
    let configuration = agent.hears_configuration().await;
    let features = configuration.features.expect("a list");
    assert!(features.iter().any(|feature| feature == "turn_meta"), "{features:?}");
    assert_eq!(configuration.last_sequence_seen, None);
    let (stanza, message) = agent.hears_message().await;
    assert_eq!((message.id.as_str(), message.content.as_str()), (id.as_str(), "Is anybody here?"));
    assert!(stanza > 1, "the number {stanza} is the first one's");

    // Once acknowledged it is not sent again: a second agent hears the next message first.
    let conversation_id = room.clone();
    let acknowledgement = Acknowledgement { conversation_id, acknowledged_stanza_id: stanza, success: true };
    agent.sends(-1, None, Body::Acknowledgement(acknowledgement)).await;
    receives(&mut client).await;
    let mut second = Agent::join(&server, &room, "agent-second").await;
    meets_agent(&mut client).await;
    let next = client.say("And now?");
    assert_eq!(second.hears_message().await.1.id, next);
    client.leave().await;
}

pub(crate) async fn large_envelopes_keep_their_place_both_ways() {
    let server = Server::shared().await;
    let room = new_room();
    let (mut client, mut agent) = meeting(&server, &room).await;

    let long = "a long story ".repeat(4_000);
    client.say(&long);
    assert_eq!(agent.hears_message().await.1.content, long);

    for stanza in 1..=6 {
        let text = if stanza % 2 == 0 { long.as_str() } else { "Short." };
        agent.sends(-stanza, None, sentence(text)).await;
    }
    for stanza in 1..=6 {
        let envelope = receives(&mut client).await;
        assert_eq!(envelope.stanza, -stanza);
        assert_eq!(envelope.body, sentence(if stanza % 2 == 0 { &long } else { "Short." }));
    }
    client.leave().await;
}

pub(crate) async fn only_agents_are_heard() {
    let server = Server::shared().await;
    let room = new_room();
    let (mut client, agent) = meeting(&server, &room).await;
    let mut mallory = Participant::join(&server, &room, "mallory").await;
    mallory.meets("anna").await;
    let forged = Envelope { stanza: -1, conversation: None, meta: Map::new(), body: sentence("Trust me.") };
    let packet = DataPacket { payload: wire::encode(&forged), reliable: true, ..DataPacket::default() };
    mallory.room.local_participant().publish_data(packet).await.expect("mallory can send");
    // Sent by the same one, after the packet: whoever has the stream's place in line has had the packet before.
    let also_forged = wire::encode(&Envelope { stanza: -2, ..forged });
    let options = livekit::SendByteOptions::new_with_topic("envelope").with_compress(false);
    mallory.room.local_participant().send_bytes(also_forged, options).await.expect("mallory can send");
    mallory.leave().await;

    agent.sends(-1, None, sentence("It is me.")).await;
    agent.sends(-2, None, sentence("Really.")).await;
    assert_eq!(receives(&mut client).await.body, sentence("It is me."));
    assert_eq!(receives(&mut client).await.body, sentence("Really."));
    client.leave().await;
}

/// The server announces a newcomer up to 3 s late: until then nobody knows what it is.
pub(crate) async fn whoever_was_not_announced_is_no_agent() {
    let server = Server::shared().await;
    let room = new_room();
    let mut client = join_client(&server, &room).await;
    let mallory = Participant::join(&server, &room, "mallory").await;
    let forged = Envelope { stanza: -1, conversation: None, meta: Map::new(), body: sentence("Trust me.") };
    let packet = DataPacket { payload: wire::encode(&forged), reliable: true, ..DataPacket::default() };
    mallory.room.local_participant().publish_data(packet).await.expect("mallory can send");
    let also_forged = wire::encode(&Envelope { stanza: -2, ..forged });
    let options = livekit::SendByteOptions::new_with_topic("envelope").with_compress(false);
    mallory.room.local_participant().send_bytes(also_forged, options).await.expect("mallory can send");

    let agent = Agent::join(&server, &room, AGENT).await;
    happens(&mut client, "an agent", |event| match event {
        Event::Received(envelope) => panic!("nobody was announced, and yet: {envelope:?}"),
        event => matches!(event, Event::AgentHere { .. }).then_some(()),
    })
    .await;
    agent.sends(-1, None, sentence("It is me.")).await;
    assert_eq!(receives(&mut client).await.body, sentence("It is me."));
    client.leave().await;
}

pub(crate) async fn what_others_ask_is_overheard() {
    let server = Server::shared().await;
    let room = new_room();
    // There first, so that everybody knows who it is.
    let bob = Participant::join(&server, &room, "bob").await;
    let mut client = join_client(&server, &room).await;
    let asks = |id: &str, content: &str| {
        let message = UserMessage {
            id: id.to_owned(),
            previous_id: None,
            conversation_id: String::new(),
            content: content.to_owned(),
            timestamp: None,
            attachments: None,
        };
        let body = Body::UserMessage(message);
        wire::encode(&Envelope { stanza: 1, conversation: None, meta: Map::new(), body })
    };
    let speaker = bob.room.local_participant();
    let packet = |payload| DataPacket { payload, reliable: true, ..DataPacket::default() };
    for _ in 0..2 {
        speaker.publish_data(packet(asks("m1", "One?"))).await.expect("bob can send");
    }
    let long = "Two? ".repeat(4_000);
    let options = livekit::SendByteOptions::new_with_topic("envelope").with_compress(false);
    speaker.send_bytes(asks("m2", &long), options).await.expect("bob can send");
    let chat = livekit::SendTextOptions::new_with_topic("lk.chat");
    speaker.send_text("Three?", chat).await.expect("bob can send");
    let mut heard = Vec::new();
    while heard.len() < 3 {
        heard.push(
            happens(&mut client, "what bob asks", |event| match event {
                Event::Overheard { who, text } => Some((who, text)),
                _ => None,
            })
            .await,
        );
    }
    // A short stream may be complete before a long one that was begun earlier.
    heard.sort();
    let expected = ["One?", "Three?", &long].map(|text| ("bob".to_owned(), text.to_owned()));
    assert_eq!(heard, expected);
    client.leave().await;
}

pub(crate) async fn what_is_missing_is_asked_for() {
    let server = Server::shared().await;
    let room = new_room();
    let (mut client, mut agent) = meeting(&server, &room).await;
    agent.sends(-1, Some(0), sentence("One.")).await;
    agent.sends(-5, Some(-3), sentence("Three.")).await;
    receives(&mut client).await;
    receives(&mut client).await;
    assert_eq!(agent.hears_configuration().await.last_sequence_seen, Some(2));
    // What comes twice by that is seen once.
    agent.sends(-3, Some(-1), sentence("Two.")).await;
    agent.sends(-5, Some(-3), sentence("Three.")).await;
    agent.sends(-6, Some(-5), sentence("Four.")).await;
    assert_eq!(receives(&mut client).await.body, sentence("Two."));
    assert_eq!(receives(&mut client).await.body, sentence("Four."));
    client.leave().await;
}

pub(crate) async fn after_a_reconnect_the_agent_learns_how_far_we_came() {
    let server = Server::shared().await;
    let room = new_room();
    let (mut client, mut agent) = meeting(&server, &room).await;
    agent.sends(-7, None, sentence("So far.")).await;
    receives(&mut client).await;
    let id = client.say("Not acknowledged yet.");
    assert_eq!(agent.hears_message().await.1.id, id);

    let simulated = client.livekit_room().simulate_scenario(SimulateScenario::SignalReconnect);
    timeout(PATIENCE, simulated).await.expect("the call returns").expect("the scenario starts");
    happens(&mut client, "that it is back", |event| (event == Event::Reconnected).then_some(())).await;
    assert_eq!(agent.hears_configuration().await.last_sequence_seen, Some(7));
    assert_eq!(agent.hears_message().await.1.id, id);
    client.leave().await;
}

pub(crate) async fn a_new_agent_that_counts_anew_is_heard() {
    let server = Server::shared().await;
    let room = new_room();
    let (mut client, agent) = meeting(&server, &room).await;
    agent.sends(-1, Some(0), sentence("I leave.")).await;
    receives(&mut client).await;
    drop(agent);
    happens(&mut client, "that it left", |event| matches!(event, Event::AgentGone { .. }).then_some(()))
        .await;
    assert!(!client.agent_is_here());

    let mut agent = Agent::join(&server, &room, "agent-second").await;
    meets_agent(&mut client).await;
    assert_eq!(agent.hears_configuration().await.last_sequence_seen, Some(1), "it may remember");
    agent.sends(-1, Some(0), sentence("I am new.")).await;
    assert_eq!(receives(&mut client).await.body, sentence("I am new."));
    client.leave().await;
}
