//! The port [`Room`] over the `livekit` crate: joins a room as an agent, and turns what happens there into events and
//! commands into deeds.
//!
//! It carries envelopes without looking inside, LiveKit's own chat and transcription beside them, and the agent's state.
//! It knows nothing of conversations, publishes and subscribes to no tracks, and keeps nothing that people said.
//!
//! | module | what it is for |
//! |---|---|
//! | `incoming` | what happens in the room → events; whose words count |
//! | `senders` | who sent a packet before the server announced its sender |
//! | `streams` | incoming streams, within limits |
//! | `line`, `order` | each sender's words in the order in which they were begun |
//! | `delivery` | events to the session, without waiting for it |
//! | `budget` | bytes that may wait in this process |
//! | `outgoing` | commands → packets, streams, attributes; the farewell |
//! | `calls` | tools that people's clients run as methods (RPC) |
//! | `transcript` | the answer as LiveKit's front ends read it |
//! | `pace` | how often it goes on |
//! | `attributes` | our own attributes |
//! | `described` | what the server says of people |
//! | `seldom` | warnings that strangers can cause |
//! | `counts` | what was dropped, refused or failed |

mod attributes;
mod budget;
mod calls;
mod counts;
mod delivery;
mod described;
mod incoming;
/// Also for the client, to whom the SDK tells of streams the same way.
pub(crate) mod line;
mod order;
mod outgoing;
mod pace;
mod seldom;
mod senders;
/// Also for the client, whose agents send large envelopes the same way.
pub(crate) mod streams;
mod transcript;

pub use budget::ByteBudget;
pub use counts::{Count, Counts};
pub use pace::Pace;

use crate::address;
use crate::ports::Room;
use calls::Calls;
use incoming::{Incoming, Rules};
use livekit::prelude::RoomOptions;
use livekit::{ConnectionState, ParticipantKind, RoomDataStreamOptions};
use livekit_api::access_token::{AccessToken, VideoGrants};
use outgoing::Outgoing;
use sotto_core::engine::event::AgentState;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};

/// Envelopes that are too large for a packet travel under this topic.
const ENVELOPE_TOPIC: &str = "envelope";
const CHAT_TOPIC: &str = "lk.chat";
const LEGACY_CHAT_TOPIC: &str = "lk-chat-topic";
const STATE_ATTRIBUTE: &str = "lk.agent.state";
/// Old and new front ends look in different places.
const NAME_ATTRIBUTES: [&str; 2] = ["lk.agent_name", "lk.agent.name"];
/// What the SDK itself may gather of one stream. It only has to read remote calls: all others are gathered here.
const SDK_STREAM_BYTES: usize = 64 * 1024;
const WAITING_EVENTS: usize = 256;
const WAITING_COMMANDS: usize = 64;

/// Where and as whom to join, and what to put up with there.
#[derive(Clone, Debug)]
pub struct JoinOptions {
    /// The server (`ws://` or `wss://`).
    pub url: String,
    /// The address as it may be shown, if it holds a secret.
    pub shown_url: Option<String>,
    /// With what right.
    pub access: Access,
    /// Which room. A token says so itself.
    pub room: String,
    /// As whom. A token says so itself.
    pub identity: String,
    /// The agent's name, for people to read.
    pub name: String,
    /// More attributes for others to see.
    pub attributes: HashMap<String, String>,
    /// The topic of our packets, if they have one; those without any are ours too.
    pub topic: Option<String>,
    /// Limits for incoming streams.
    pub limits: StreamLimits,
    /// What may wait in memory, over all rooms that share it.
    pub budget: ByteBudget,
    /// Whether packets without a sender (hidden participants, the server's API) count; their sender is then "".
    pub allow_anonymous: bool,
    /// One peer connection for both directions; older servers need two and get them in any case.
    pub single_peer_connection: bool,
    /// Where to count what goes wrong.
    pub counts: Arc<Counts>,
    /// How often transcripts go on, over all rooms that share it.
    pub pace: Pace,
}

impl JoinOptions {
    /// The defaults for everything but where and who.
    pub fn new(
        url: impl Into<String>,
        access: Access,
        room: impl Into<String>,
        identity: impl Into<String>,
    ) -> Self {
        Self {
            url: url.into(),
            shown_url: None,
            access,
            room: room.into(),
            identity: identity.into(),
            name: "Sotto".to_owned(),
            attributes: HashMap::new(),
            topic: None,
            limits: StreamLimits::default(),
            budget: ByteBudget::new(256 * 1024 * 1024),
            allow_anonymous: false,
            single_peer_connection: true,
            counts: Arc::default(),
            pace: Pace::default(),
        }
    }
}

/// The right to join.
#[derive(Clone)]
pub enum Access {
    /// A token that somebody else made, for example the server for a job.
    Token(String),
    /// A key to make one with.
    Key {
        /// The key's name.
        api_key: String,
        /// Its secret.
        api_secret: String,
    },
}

impl fmt::Debug for Access {
    /// Without secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Token(_) => "Token(…)",
            Self::Key { .. } => "Key(…)",
        })
    }
}

/// What one participant may send as streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamLimits {
    /// Bytes of one stream, uncompressed.
    pub bytes: usize,
    /// Streams at once.
    pub open_per_participant: usize,
    /// The longest silence within a stream.
    pub idle: Duration,
}

impl Default for StreamLimits {
    fn default() -> Self {
        Self { bytes: 1024 * 1024, open_per_participant: 4, idle: Duration::from_secs(10) }
    }
}

/// Why a room could not be joined.
#[derive(Debug, Error)]
pub enum JoinError {
    /// No token could be made.
    #[error("cannot make a token for the room: {0}; check the API key and its secret")]
    Token(String),
    /// The server could not be reached, or does not want us.
    #[error("cannot join a room at {url}: {reason}")]
    Connect {
        /// Where, as it may be shown.
        url: String,
        /// What `livekit` says, without addresses.
        reason: String,
    },
}

/// Keeps out what the SDK would handle by itself, on every connection of this process from now on: remote calls, which it
/// takes in without limits, and transcriptions, of which the wrong one makes it panic. An agent uses neither; of answers
/// only those to its own calls come in (`calls`).
pub fn keep_out_what_agents_do_not_use() {
    libwebrtc::sender_identity::keep_out_calls_and_transcriptions();
}

/// Joins a room as an agent. The room is left when its commands are dropped.
pub async fn join(options: JoinOptions) -> Result<Room, JoinError> {
    let lasting = lasting_attributes(&options);
    let token = match &options.access {
        Access::Token(token) => token.clone(),
        Access::Key { api_key, api_secret } => make_token(&options, &lasting, api_key, api_secret)?,
    };
    let mut room_options = RoomOptions::default();
    room_options.auto_subscribe = false;
    room_options.single_peer_connection = options.single_peer_connection;
    room_options.data_stream =
        RoomDataStreamOptions::default().with_max_payload_byte_length(SDK_STREAM_BYTES);
    let connected = livekit::Room::connect(&options.url, &token, room_options).await;
    let (room, livekit_events) = connected.map_err(|error| JoinError::Connect {
        url: options.shown_url.clone().unwrap_or_else(|| address::shown(&options.url)),
        reason: address::hidden_in(&error.to_string()),
    })?;
    let room = Arc::new(room);
    let present = Present(room.clone());

    let ourselves = room.local_participant();
    if ourselves.kind() != ParticipantKind::Agent {
        tracing::warn!("the token is not one of an agent: LiveKit's front ends will not recognise us");
    }
    // A change is announced at once, so that our first words have a sender. For the same reason no token of ours has the
    // state in it: it must be a change.
    let mut shown = lasting;
    shown.insert(STATE_ATTRIBUTE.to_owned(), AgentState::Initializing.as_str().to_owned());
    if let Err(error) = attributes::set(&room, shown).await {
        options.counts.failed_states.add_one();
        tracing::warn!("our attributes could not be set (does the token allow it?): {error}");
    }

    let name = room.name();
    let calls = Arc::new(Calls(ourselves));
    let (tell, events) = mpsc::channel(WAITING_EVENTS);
    let (commands, asked) = mpsc::channel(WAITING_COMMANDS);
    let (reconnected, connection) = watch::channel(0);
    let (tell_connected, connected) = watch::channel(true);
    let outgoing = Outgoing {
        room: room.clone(),
        commands: asked,
        topic: options.topic.clone(),
        counts: options.counts.clone(),
        pace: options.pace,
        connection,
    };
    let rules = Rules {
        topic: options.topic,
        allow_anonymous: options.allow_anonymous,
        connected: tell_connected,
        limits: options.limits,
        budget: options.budget,
        counts: options.counts,
    };
    // Whoever waits for the end of the events may end the process then: not before the server knows that we have left.
    let until_left = tell.clone();
    let incoming = Incoming::new(room, livekit_events, tell, reconnected, rules);
    tokio::spawn(async move {
        let _present = present;
        tokio::join!(incoming.run(), outgoing.run());
        drop(until_left);
    });
    Ok(Room { name, events, commands, connected, calls })
}

/// Leaves when it is dropped, however that comes about: a room whose handle is dropped lives on.
struct Present(Arc<livekit::Room>);

impl Drop for Present {
    fn drop(&mut self) {
        if self.0.connection_state() == ConnectionState::Disconnected {
            return;
        }
        if let Ok(runtime) = Handle::try_current() {
            let room = self.0.clone();
            runtime.spawn(async move { room.close().await });
        }
    }
}

fn lasting_attributes(options: &JoinOptions) -> HashMap<String, String> {
    let mut attributes: HashMap<_, _> =
        NAME_ATTRIBUTES.iter().map(|name| ((*name).to_owned(), options.name.clone())).collect();
    attributes.extend(options.attributes.clone());
    attributes.remove(STATE_ATTRIBUTE);
    attributes
}

fn make_token(
    options: &JoinOptions,
    attributes: &HashMap<String, String>,
    api_key: &str,
    api_secret: &str,
) -> Result<String, JoinError> {
    let grants = VideoGrants {
        room_join: true,
        room: options.room.clone(),
        can_update_own_metadata: Some(true),
        ..VideoGrants::default()
    };
    AccessToken::with_api_key(api_key, api_secret)
        .with_identity(&options.identity)
        .with_name(&options.name)
        .with_kind("agent")
        .with_attributes(attributes)
        .with_grants(grants)
        .to_jwt()
        .map_err(|error| JoinError::Token(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_server_that_cannot_be_reached_is_named_without_its_secrets() {
        crate::tls::choose_provider();
        let access = || Access::Key { api_key: "key".to_owned(), api_secret: "s3cret".repeat(8) };
        // Nobody listens on port 1.
        let options =
            JoinOptions::new("ws://me:s3cret@127.0.0.1:1/path?token=s3cret", access(), "room", "agent");
        let told = join(options).await.expect_err("nobody is there").to_string();
        assert!(told.contains("ws://127.0.0.1:1/path") && !told.contains("s3cret"), "{told}");
        let options = JoinOptions {
            shown_url: Some("ws://127.0.0.1:1/${TENANT}".to_owned()),
            ..JoinOptions::new("ws://127.0.0.1:1/s3cret", access(), "room", "agent")
        };
        let told = join(options).await.expect_err("nobody is there").to_string();
        assert!(told.contains("${TENANT}") && !told.contains("s3cret"), "{told}");
    }
}
