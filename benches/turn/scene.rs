//! A server, a scripted model, and the agent in a process of its own.

use crate::{script::Script, visitor::Visitor};
use sotto_harness::{
    agent::Agent,
    endpoint::Endpoint,
    footprint,
    server::{Server, new_room},
};
use std::{env, time::Duration};

/// The command, built by cargo with the same profile.
const SOTTO: &str = env!("CARGO_BIN_EXE_sotto");
/// What keeps strangers from asking so much, and so much at once, as is asked here.
const RAISED_LIMITS: [(&str, &str); 3] = [
    ("SOTTO_MODEL_MAX_CONCURRENT", "2000"),
    ("SOTTO_LIMITS_MESSAGES_BURST", "1000"),
    ("SOTTO_LIMITS_MESSAGES_PER_SECOND", "1000"),
];

pub(crate) struct Scene {
    pub(crate) server: Server,
    pub(crate) endpoint: Endpoint,
    pub(crate) agent: Agent,
}

impl Scene {
    /// The real `sotto join` in one room, and someone who has met it.
    pub(crate) async fn in_one_room(script: &Script, settings: &[(&str, &str)]) -> (Self, Visitor) {
        let room = new_room();
        let scene = Self::begin(script, SOTTO, &["join", &room], settings).await;
        scene.agent.logs("that it knows the model", |line| line.contains("the model answers")).await;
        let visitor = Visitor::join(&scene.server, &room).await;
        (scene, visitor)
    }

    /// A process for agents in many rooms; none yet.
    pub(crate) async fn for_many_rooms(script: &Script, settings: &[(&str, &str)]) -> Self {
        let program = env::current_exe().expect("a running program knows its own file");
        let scene = Self::begin(script, &program.to_string_lossy(), &["agents"], settings).await;
        scene.agent.logs("that it knows the model", |line| line.contains("the model answers")).await;
        scene
    }

    /// One more room with an agent, and someone who has met it.
    pub(crate) async fn open_room(&mut self) -> Visitor {
        let room = new_room();
        self.agent.tell(&room);
        Visitor::join(&self.server, &room).await
    }

    /// Resident memory of the agent's process in kB.
    pub(crate) fn agent_kb(&self) -> f64 {
        footprint::resident_kb_of(self.agent.process_id()) as f64
    }

    /// Processor time so far: of the agent's process, of the server's, and of this one.
    pub(crate) fn processor_times(&self) -> [Duration; 3] {
        let server = self.server.process_id().expect("it runs");
        [
            footprint::processor_time_of(self.agent.process_id()),
            footprint::processor_time_of(server),
            footprint::processor_time(),
        ]
    }

    async fn begin(script: &Script, program: &str, arguments: &[&str], settings: &[(&str, &str)]) -> Self {
        let server = Server::start().await;
        let endpoint = Endpoint::start().await;
        script.play(&endpoint);
        let url = endpoint.url();
        let settings: Vec<_> = [("SOTTO_MODEL_URL", url.as_str())]
            .into_iter()
            .chain(RAISED_LIMITS)
            .chain(settings.iter().copied())
            .collect();
        let agent = Agent::start(program, &server, arguments, &settings);
        Self { server, endpoint, agent }
    }
}
