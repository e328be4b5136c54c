//! The life of an agent: it starts, is watched, killed, told to leave, or told nonsense.

use livekit::RoomEvent;
use serde_json::Value;
use sotto_harness::{
    agent::{Agent, Ended, run},
    endpoint::{Answer, Endpoint, Gate, Reply, Style},
    isolation,
    server::{Server, new_room},
};

use super::{SOTTO, Scene, User, dialogue, start_agent, unfinished};

/// The store is in memory: what was said is forgotten, and the numbers begin anew, until "Store" brings a durable one.
pub(crate) async fn after_a_crash_another_agent_answers() {
    let mut scene = Scene::begin().await;
    let mut anna = scene.user("anna").await;
    scene.model.reply(unfinished(&["I am here. And"]));
    anna.says("Are you there?").await;
    assert_eq!(anna.hears(3).await, ["ack 1", "start", "1: I am here."]);
    scene.agent.kill();
    // The server still waits for the old one; a new one with its identity takes its place.
    scene.agent = start_agent(&scene.server, &scene.room, &scene.model, &[]).await;
    leaves(&mut anna, scene.agent.identity()).await;
    scene.probes = scene.model.log().requests.len();
    anna.participant.meets(scene.agent.identity()).await;
    anna.forgets_the_agents_numbers();
    assert_eq!(anna.asks("And now?").await, "Yes.");
    assert_eq!(dialogue(&scene.asked(0).await), ["user: And now?"]);
}

pub(crate) async fn told_to_leave_it_finishes_its_answer_first() {
    let mut scene = Scene::begin().await;
    let mut anna = scene.user("anna").await;
    let gate = Gate::new();
    let answer = Answer::default().text("This takes ").text("a while. But it is done.");
    scene.model.reply(Reply::answer(Style::Vllm, &answer).gated(&gate));
    anna.says("Take your time.").await;
    assert_eq!(anna.hears(1).await, ["ack 1"]);
    // The role and the first piece.
    gate.pass(2);
    scene.agent.terminate();
    scene.agent.logs("that it leaves", |line| line.contains("\"leaving\"")).await;
    let (status, body) = scene.agent.get("/").await;
    assert_eq!((status, body.contains("leaving")), (503, true), "{body}");
    // Whatever is asked now is for the next one.
    anna.says("One more thing!").await;
    assert_eq!(anna.hears(1).await, ["error 501 recoverable"]);
    gate.open();
    assert_eq!(
        anna.hears_to_the_end().await,
        ["start", "1: This takes a while.", "2:  But it is done. (final)"]
    );
    assert_eq!(scene.agent.ended().await, Ended::WithCode(0));
    leaves(&mut anna, scene.agent.identity()).await;
    assert_eq!(scene.asked_so_far(), 1);
}

pub(crate) async fn an_answer_without_end_does_not_keep_it_for_ever() {
    let mut scene = Scene::begin_with(&[("SOTTO_AGENT_DRAIN_SECONDS", "1")]).await;
    let mut anna = scene.user("anna").await;
    scene.model.reply(unfinished(&["On and on. And"]));
    anna.says("Well?").await;
    assert_eq!(anna.hears(3).await, ["ack 1", "start", "1: On and on."]);
    scene.agent.terminate();
    assert_eq!(scene.agent.ended().await, Ended::WithCode(0));
    leaves(&mut anna, scene.agent.identity()).await;
}

/// As process 1 of a container it would not even notice a signal that it does not listen for.
pub(crate) async fn told_to_leave_while_it_still_starts_it_leaves() {
    let server = Server::shared().await;
    let model = Endpoint::start().await;
    model.reply_by(|_| Reply::silence());
    let url = model.url();
    let mut agent = Agent::launch(SOTTO, &server, &new_room(), &[("SOTTO_MODEL_URL", &url)]);
    model.request(0).await;
    agent.terminate();
    assert_eq!(agent.ended().await, Ended::WithCode(0));
}

pub(crate) async fn an_agent_that_is_sent_away_ends_and_says_why() {
    let mut scene = Scene::begin().await;
    let another = start_agent(&scene.server, &scene.room, &scene.model, &[]).await;
    assert_eq!(scene.agent.ended().await, Ended::WithCode(1));
    let last = scene.agent.logs("why it ended", |line| line.starts_with("sotto: ")).await;
    assert!(last.contains("the room is over") && last.contains("identity"), "{last}");
    let mut anna = scene.user("anna").await;
    assert_eq!(anna.asks("Are you the other one?").await, "Yes.");
    drop(another);
}

/// With nothing configured but the server.
pub(crate) async fn without_an_endpoint_the_demo_answers() {
    let server = Server::shared().await;
    let room = new_room();
    let agent = Agent::join(SOTTO, &server, &room, &[]).await;
    let mut anna = User::join(&server, &room, "anna").await;
    anna.participant.meets(agent.identity()).await;
    anna.says("What is 12*7?").await;
    let heard = anna.hears_to_the_end().await;
    let place = |start: &str| heard.iter().position(|line| line.starts_with(start));
    let order =
        ["ack 1", "step 1: ", "step 2: ", "tool calculator ", "result {\"result\":84}", "start", "1: "]
            .map(place);
    assert!(order.iter().all(Option::is_some) && order.is_sorted(), "{heard:#?}");
    assert!(
        heard.last().is_some_and(|last| last.ends_with("(final)")) && heard.join("").contains("84"),
        "{heard:#?}"
    );
}

pub(crate) async fn health_and_metrics_tell_how_it_is() {
    let server = Server::shared().await;
    let room = new_room();
    let model = Endpoint::start().await;
    let gate = Gate::new();
    model.reply(Reply::text("Yes.").gated(&gate));
    model.reply_by(|_| {
        Reply::answer(Style::Vllm, &Answer::default().reasoning("Hm.").text("Yes.").usage(50, 0, 5))
    });
    let url = model.url();
    let agent = Agent::launch(SOTTO, &server, &room, &[("SOTTO_MODEL_URL", &url)]);
    let health = |body: &str| serde_json::from_str::<Value>(body).expect("health is JSON")["status"].clone();
    // It gets to know the model before anyone can hear it.
    let (status, body) = agent.get("/").await;
    assert_eq!((status, health(&body)), (503, "connecting".into()));
    gate.open();
    let mut anna = User::join(&server, &room, "anna").await;
    anna.participant.meets(agent.identity()).await;
    let turns = "sotto_turns_total{kind=\"answered\"}";
    assert_eq!(agent.metric(turns).await, 0);
    assert_eq!(anna.asks("Are you well?").await, "Yes.");
    let (status, body) = agent.get("/").await;
    assert_eq!((status, health(&body)), (200, "ok".into()));
    agent.metric_reaches(&[turns], 1).await;
    for (name, value) in [
        ("sotto_conversations", 1),
        ("sotto_panics_total", 0),
        ("sotto_reasoning_steps_total", 1),
        ("sotto_sentences_total", 1),
        ("sotto_model_tokens_total{kind=\"input\"}", 50),
        ("sotto_model_tokens_total{kind=\"output\"}", 5),
        ("sotto_first_sentence_seconds_count", 1),
    ] {
        assert_eq!(agent.metric(name).await, value, "{name}");
    }
    anna.sends_bytes(b"garbage".to_vec()).await;
    agent.metric_reaches(&["sotto_events_total{kind=\"malformed\"}"], 1).await;
    assert_eq!(agent.get("/elsewhere").await.0, 404);
}

pub(crate) async fn a_bad_configuration_is_told_clearly_with_exit_code_2() {
    let server = Server::shared().await;
    let file = isolation::directory().join("misspelt.toml");
    std::fs::write(&file, "[model]\nurll = \"http://localhost:1/v1\"\nkey = \"canary-in-file\"\n")
        .expect("writable");
    let file = file.to_str().expect("a path in ASCII");
    let cases: [(&str, &str, &[&str]); 5] = [
        ("SOTTO_MODEL_RETRIES", "canary", &["SOTTO_MODEL_RETRIES"]),
        ("SOTTO_MODEL_URL", "not an address", &["SOTTO_MODEL_URL"]),
        ("SOTTO_CONFIG", file, &["urll", "misspelt.toml", "url"]),
        ("SOTTO_CONFIG", "nowhere.toml", &["nowhere.toml"]),
        ("LIVEKIT_API_SECRET", "", &["LIVEKIT_API_SECRET"]),
    ];
    for (name, value, words) in cases {
        let output = run(SOTTO, &server, &[(name, value)], &["join", "room"]).await;
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{name}={value}: {said}");
        assert!(words.iter().all(|word| said.contains(word)), "{name}={value}: {said}");
        assert!(!said.contains("canary-in-file") && output.stdout.is_empty(), "{said}");
    }
}

async fn leaves(user: &mut User, identity: &str) {
    user.participant
        .happens("the agent leaves", |event| {
            matches!(event, RoomEvent::ParticipantDisconnected(who) if who.identity().as_str() == identity)
        })
        .await;
}
