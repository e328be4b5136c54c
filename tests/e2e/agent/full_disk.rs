//! A disk that is really full: the agent has its store on a small file system of its own.

use sotto::client::{Client, ClientOptions};
use sotto_core::wire::body::Body;
use sotto_harness::{
    agent::Agent,
    endpoint::{Answer, Endpoint, Gate, Reply, Style},
    isolation,
    server::{Server, new_room},
};
use std::{
    fs::{self, OpenOptions},
    io::{ErrorKind, Write},
    os::unix::fs::PermissionsExt,
    path::PathBuf,
};

use super::{
    SOTTO,
    durable::{answered, heard, message},
};

struct SmallDisk {
    place: PathBuf,
    /// The agent, in a namespace of mounts in which this disk is.
    program: PathBuf,
}

impl SmallDisk {
    fn new() -> Self {
        let place = isolation::directory().join("small-disk");
        let program = isolation::directory().join("agent-with-small-disk");
        fs::create_dir(&place).expect("nobody else makes it");
        let mount = format!("mount -t tmpfs -o size=16m none {}", place.display());
        let script = format!("#!/bin/sh\nexec unshare -m sh -c '{mount} && exec {SOTTO} \"$@\"' sh \"$@\"\n");
        fs::write(&program, script).expect("the tests' directory can be written");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).expect("it is ours");
        Self { place, program }
    }

    fn store(&self) -> String {
        format!("sqlite:{}", self.place.join("sotto.db").display())
    }

    /// A file on it, as seen from outside.
    fn filler(&self, agent: &Agent) -> PathBuf {
        let root = PathBuf::from(format!("/proc/{}/root", agent.process_id()));
        root.join(self.place.strip_prefix("/").expect("an absolute path")).join("filler")
    }

    fn fill(&self, agent: &Agent) {
        let mut filler =
            OpenOptions::new().create(true).append(true).open(self.filler(agent)).expect("a file");
        let error = loop {
            if let Err(error) = filler.write_all(&[1; 4_096]) {
                break error;
            }
        };
        assert_eq!(error.kind(), ErrorKind::StorageFull);
    }

    fn empty(&self, agent: &Agent) {
        fs::remove_file(self.filler(agent)).expect("it was filled");
    }
}

/// What can be kept is sent, what cannot is not acknowledged, and all goes on when there is room again.
pub(crate) async fn a_full_disk_is_told_and_nothing_is_lost() {
    let disk = SmallDisk::new();
    let (server, room, model) = (Server::shared().await, new_room(), Endpoint::start().await);
    model.reply_by(|_| Reply::text("Yes."));
    let (url, store) = (model.url(), disk.store());
    let settings = [("SOTTO_MODEL_URL", url.as_str()), ("SOTTO_STORE_URL", &store)];
    let agent = Agent::join(&disk.program.to_string_lossy(), &server, &room, &settings).await;
    let (url, token) = (server.url(), server.token(&room, "anna"));
    let mut anna =
        Client::join(&url, &token, ClientOptions::default()).await.expect("the room can be joined");
    let first = anna.say("Are you there?");
    answered(&mut anna, &first).await;

    let gate = Gate::new();
    let answer = Answer::default().text("This takes ").text("a while. But it ").text("is done. And over.");
    model.reply(Reply::answer(Style::Vllm, &answer).gated(&gate));
    anna.say("Take your time.");
    // The role and two pieces.
    gate.pass(3);
    says(&mut anna, "This takes a while.").await;
    disk.fill(&agent);
    gate.open();
    says(&mut anna, " But it is done.").await;
    let refused = anna.say("Did you hear me?");
    let is_refusal =
        |body: &Body| matches!(body, Body::ErrorMessage(error) if error.code == 501 && error.recoverable);
    heard(&mut anna, "that it cannot be stored", is_refusal).await;
    agent.logs("why", |line| line.contains("disk is full")).await;

    disk.empty(&agent);
    says(&mut anna, " And over.").await;
    anna.send(message(&refused, "Did you hear me?"));
    answered(&mut anna, &refused).await;
}

async fn says(client: &mut Client, text: &str) {
    let is_it = |body: &Body| matches!(body, Body::AssistantSentence(said) if said.text == text);
    heard(client, text, is_it).await;
}
