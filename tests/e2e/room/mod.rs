//! The room adapter as a session sees it, and as others in the room see the agent.

mod arrival;
mod limits;
mod speaking;
mod staying;

pub(crate) use arrival::*;
pub(crate) use limits::*;
pub(crate) use speaking::*;
pub(crate) use staying::*;

use std::collections::VecDeque;
use std::sync::Arc;

use sotto::{
    ports::{Room, RoomCommand, RoomEvent},
    room::{Access, Counts, JoinOptions, join},
};
use sotto_core::engine::event::{Participant as Person, Recipients};
use sotto_harness::{PATIENCE, server::Server};
use tokio::time::timeout;

const AGENT: &str = "agent-sotto";

/// The adapter with a test in the session's place.
struct Agent {
    room: Room,
    counts: Arc<Counts>,
    unclaimed: VecDeque<RoomEvent>,
}

impl Agent {
    async fn join(server: &Server, room: &str) -> Self {
        Self::join_with(options(server, room)).await
    }

    async fn join_with(options: JoinOptions) -> Self {
        let counts = options.counts.clone();
        let room =
            timeout(PATIENCE, join(options)).await.expect("joining ends").expect("the room can be joined");
        Self { room, counts, unclaimed: VecDeque::new() }
    }

    async fn does(&self, command: RoomCommand) {
        let taken =
            timeout(PATIENCE, self.room.commands.send(command)).await.expect("the room takes commands");
        taken.expect("the room is still there");
    }

    async fn sends(&self, bytes: impl Into<Vec<u8>>) {
        self.does(RoomCommand::Send { to: Recipients::Everyone, bytes: bytes.into() }).await;
    }

    /// The next event, whatever it is; but that nothing is known of someone is told of everyone, at a time of its own.
    async fn next(&mut self) -> RoomEvent {
        let says_nothing = |event: &RoomEvent| matches!(event, RoomEvent::Attributes { attributes, .. } if attributes.is_empty());
        loop {
            let event = if let Some(event) = self.unclaimed.pop_front() {
                event
            } else {
                let event = timeout(PATIENCE, self.room.events.recv()).await.expect("an event comes");
                event.expect("the room is not over")
            };
            if !says_nothing(&event) {
                return event;
            }
        }
    }

    /// The first event, past or to come, from which `claim` takes something.
    async fn event<T>(&mut self, what: &str, claim: impl Fn(&RoomEvent) -> Option<T>) -> T {
        if let Some((index, claimed)) =
            self.unclaimed.iter().enumerate().find_map(|(index, event)| Some((index, claim(event)?)))
        {
            self.unclaimed.remove(index);
            return claimed;
        }
        let waiting = async {
            while let Some(event) = self.room.events.recv().await {
                if let Some(claimed) = claim(&event) {
                    return claimed;
                }
                self.unclaimed.push_back(event);
            }
            panic!("the room is over, awaiting: {what}");
        };
        let claimed = timeout(PATIENCE, waiting).await;
        claimed.unwrap_or_else(|_| panic!("awaited in vain: {what}; what came: {:?}", self.unclaimed))
    }

    async fn happens(&mut self, expected: RoomEvent) {
        let what = format!("{expected:?}");
        self.event(&what, |event| (*event == expected).then_some(())).await;
    }

    async fn meets(&mut self, identity: &str) {
        self.event(identity, |event| {
            matches!(event, RoomEvent::Joined(person) if person.identity == identity).then_some(())
        })
        .await;
    }

    /// Waits until the room is over and gives the reason.
    async fn closed(&mut self) -> String {
        let reason = self.event("the end", |event| match event {
            RoomEvent::Closed { reason } => Some(reason.clone()),
            _ => None,
        });
        let reason = reason.await;
        let after = timeout(PATIENCE, self.room.events.recv()).await.expect("nothing more to wait for");
        assert_eq!(after, None, "nothing follows the end");
        reason
    }
}

fn options(server: &Server, room: &str) -> JoinOptions {
    let (api_key, api_secret) = server.api_key();
    let access = Access::Key { api_key: api_key.to_owned(), api_secret: api_secret.to_owned() };
    JoinOptions::new(server.url(), access, room, AGENT)
}

fn joined(identity: &str) -> RoomEvent {
    RoomEvent::Joined(Person { identity: identity.to_owned(), name: String::new() })
}

fn left(identity: &str) -> RoomEvent {
    RoomEvent::Left { identity: identity.to_owned() }
}

fn packet(from: &str, bytes: impl Into<Vec<u8>>) -> RoomEvent {
    RoomEvent::Packet { from: from.to_owned(), bytes: bytes.into() }
}
