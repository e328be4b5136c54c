//! The agent as those in a room meet it: the real `sotto join` against a real server, with a scripted model.
//!
//! One [`Scene`] is one room with one agent. What the agent sends is compared as a list of short lines (see
//! [`told`]), so that a test reads like the exchange it is about.

mod chat;
mod clients;
mod durable;
mod exchange;
mod failing;
mod full_disk;
mod hooks;
mod hostile;
mod life;
mod people;
mod sealed;
mod secrecy;
mod told;
mod tools;
pub(crate) mod user;
mod variations;

pub(crate) use chat::*;
pub(crate) use clients::*;
pub(crate) use durable::*;
pub(crate) use exchange::*;
pub(crate) use failing::*;
pub(crate) use full_disk::*;
pub(crate) use hooks::*;
pub(crate) use hostile::*;
pub(crate) use life::*;
pub(crate) use people::*;
pub(crate) use sealed::*;
pub(crate) use secrecy::*;
pub(crate) use tools::*;
pub(crate) use variations::*;

use serde_json::{Value, json};
use sotto_harness::{
    agent::Agent,
    endpoint::{Endpoint, Reply, Request},
    server::{Server, new_room},
};
use std::sync::Arc;
use told::told;
use user::User;

/// The program under test, built by cargo for this very run.
const SOTTO: &str = env!("CARGO_BIN_EXE_sotto");

/// A room with an agent in it whose model does what the test says.
struct Scene {
    server: Arc<Server>,
    room: String,
    agent: Agent,
    model: Endpoint,
    /// Requests that the agent made before it joined, to get to know the model.
    probes: usize,
}

impl Scene {
    async fn begin() -> Self {
        Self::begin_with(&[]).await
    }

    /// With these variables in the agent's environment.
    async fn begin_with(settings: &[(&str, &str)]) -> Self {
        let server = Server::shared().await;
        let room = new_room();
        let model = Endpoint::start().await;
        // Whatever the agent wants to know about the model, and whatever a test does not care about.
        model.reply_by(|_| Reply::text("Yes."));
        let agent = start_agent(&server, &room, &model, settings).await;
        let probes = model.log().requests.len();
        Self { server, room, agent, model, probes }
    }

    /// Someone who is in the room and has met the agent.
    async fn user(&self, identity: &str) -> User {
        let mut user = User::join(&self.server, &self.room, identity).await;
        user.participant.meets(self.agent.identity()).await;
        user
    }

    /// Waits for the request of this number that answers someone, counted from 0.
    async fn asked(&self, number: usize) -> Request {
        self.model.request(self.probes + number).await
    }

    /// How many requests answer someone so far.
    fn asked_so_far(&self) -> usize {
        self.model.log().requests.len() - self.probes
    }
}

async fn start_agent(server: &Server, room: &str, model: &Endpoint, settings: &[(&str, &str)]) -> Agent {
    let url = model.url();
    let settings: Vec<_> =
        [("SOTTO_MODEL_URL", url.as_str())].into_iter().chain(settings.iter().copied()).collect();
    Agent::join(SOTTO, server, room, &settings).await
}

/// An answer that begins so, says no more, and never ends.
fn unfinished(pieces: &[&str]) -> Reply {
    let event = |text: &&str| json!({"choices": [{"index": 0, "delta": {"content": text}}]});
    pieces.iter().map(event).fold(Reply::stream(), |reply, event| reply.event(&event)).stall()
}

/// The messages of a prompt as `role: content`.
fn messages(request: &Request) -> Vec<String> {
    let list = request.body["messages"].as_array().expect("a prompt has messages");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    list.iter().map(|message| format!("{}: {}", text(&message["role"]), text(&message["content"]))).collect()
}

/// The messages but for the instructions.
fn dialogue(request: &Request) -> Vec<String> {
    messages(request).into_iter().filter(|message| !message.starts_with("system: ")).collect()
}
