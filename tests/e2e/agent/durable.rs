//! What outlives an agent: it is killed or frozen, and another one goes on from the same store.

use sotto::client::{Client, ClientOptions, Event};
use sotto_core::wire::{
    Envelope,
    body::{Body, Configuration, UserMessage, VariationMode},
};
use sotto_harness::{PATIENCE, agent::Agent, endpoint::Reply, isolation, postgres::Postgres};
use std::sync::atomic::{AtomicU32, Ordering};
use tokio::time::timeout;

use super::{Scene, dialogue, start_agent, told, unfinished};

/// A file for one conversation, or more.
pub(super) fn new_store() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("sqlite:{}", isolation::directory().join(format!("store-{number}.db")).display())
}

impl Scene {
    /// Kills the agent, and starts another one on the same store.
    async fn replace_agent(&mut self, store: &str) {
        self.agent.kill();
        self.agent = start_agent(&self.server, &self.room, &self.model, &[("SOTTO_STORE_URL", store)]).await;
        self.probes = self.model.log().requests.len();
    }
}

pub(crate) async fn killed_in_the_middle_of_an_answer_it_answers_again() {
    let store = new_store();
    let mut scene = Scene::begin_with(&[("SOTTO_STORE_URL", &store)]).await;
    let mut anna = scene.user("anna").await;
    scene.model.reply(unfinished(&["I am here. And"]));
    let question = anna.says("Are you there?").await;
    assert_eq!(anna.hears(3).await, ["ack 1", "start", "1: I am here."]);
    scene.agent.kill();
    scene.model.reply_by(|request| match request.body["max_tokens"].as_i64() {
        // What gets to know the model is short.
        Some(..=100) => Reply::text("Yes."),
        _ => Reply::text("Here I am again. For good."),
    });
    scene.replace_agent(&store).await;
    // What was begun is closed, and the question is answered under a new answer, without being asked again.
    let heard: Vec<Envelope> = anna.until(|body| matches!(body, Body::StartAnswer(_))).await;
    assert!(heard.iter().any(|envelope| told(&envelope.body) == "2:  (final)"), "{heard:?}");
    let Some(Body::StartAnswer(start)) = heard.last().map(|envelope| &envelope.body) else {
        panic!("awaited it just now")
    };
    assert_eq!(start.previous_id, question);
    assert_eq!(anna.hears(2).await, ["1: Here I am again.", "2:  For good. (final)"]);
    // It remembers.
    anna.participant.meets(scene.agent.identity()).await;
    anna.asks("And now?").await;
    let asked = dialogue(&scene.asked(1).await);
    assert_eq!(asked, ["user: Are you there?", "assistant: Here I am again. For good.", "user: And now?"]);
}

pub(crate) async fn what_was_missed_comes_again_as_it_was_also_from_another_agent() {
    let store = new_store();
    let mut scene = Scene::begin_with(&[("SOTTO_STORE_URL", &store)]).await;
    let mut anna = scene.user("anna").await;
    let mut bob = scene.user("bob").await;
    // Whoever has spoken is known to be there; others the server announces up to three seconds late.
    bob.says("One").await;
    let first = bob.exchange().await;
    anna.exchange().await;
    bob.participant.leave().await;
    anna.says("Two").await;
    let second = anna.exchange().await;
    scene.replace_agent(&store).await;
    anna.says("Three").await;
    let third = anna.exchange().await;

    let seen = first.last().map(|envelope| envelope.stanza);
    let mut bob = scene.user("bob").await;
    bob.sends(Body::Configuration(Configuration { last_sequence_seen: seen, ..Configuration::default() }))
        .await;
    bob.forgets_the_agents_numbers();
    assert_eq!(bob.hears(2).await, ["ack 1", "configuration"]);
    bob.forgets_the_agents_numbers();
    let kept = |envelope: &&Envelope| envelope.meta.contains_key("sotto.prev");
    let missed: Vec<&Envelope> = second.iter().chain(&third).filter(kept).collect();
    let mut again = Vec::new();
    while again.len() < missed.len() {
        again.push(bob.next().await);
    }
    assert_eq!(again.iter().collect::<Vec<_>>(), missed);
    // A newcomer cannot ask for what was said before.
    let mut carl = scene.user("carl").await;
    carl.sends(Body::Configuration(Configuration {
        last_sequence_seen: Some(0),
        ..Configuration::default()
    }))
    .await;
    assert_eq!(carl.hears(2).await, ["ack 1", "configuration"]);
    carl.says("Four").await;
    let next = carl.exchange().await;
    assert_eq!(told(&next[0].body), "ack 2", "nothing came before: {next:?}");
}

pub(crate) async fn the_same_message_after_a_crash_is_acknowledged_and_not_answered_twice() {
    let store = new_store();
    let mut scene = Scene::begin_with(&[("SOTTO_STORE_URL", &store)]).await;
    let mut anna = scene.user("anna").await;
    anna.sends_message("m1", "One").await;
    assert_eq!(anna.answer().await.1, "Yes.");
    scene.replace_agent(&store).await;
    anna.participant.meets(scene.agent.identity()).await;
    anna.sends_message("m1", "One").await;
    assert_eq!(anna.hears(1).await, ["ack 2"]);
    anna.sends_message("m1", "Something else").await;
    assert_eq!(anna.hears(2).await, ["error 202 final", "refused 3"]);
    assert_eq!(scene.asked_so_far(), 0);
}

pub(crate) async fn variations_of_what_was_said_before_a_crash() {
    let store = new_store();
    let mut scene = Scene::begin_with(&[("SOTTO_STORE_URL", &store)]).await;
    let mut anna = scene.user("anna").await;
    let question = anna.says("One").await;
    let (answer, _) = anna.answer().await;
    scene.replace_agent(&store).await;
    anna.participant.meets(scene.agent.identity()).await;
    anna.varies(&answer, VariationMode::Regenerate, None).await;
    assert_eq!(anna.answer().await.1, "Yes.");
    scene.replace_agent(&store).await;
    anna.participant.meets(scene.agent.identity()).await;
    anna.varies(&question, VariationMode::Edit, Some("Uno")).await;
    assert_eq!(anna.answer().await.1, "Yes.");
    assert_eq!(dialogue(&scene.asked(0).await), ["user: Uno"]);
}

/// Two agents on one store: one answers, the other waits, and is there the moment the first is gone.
pub(crate) async fn of_two_agents_one_answers_and_the_other_takes_over() {
    let store = new_store();
    let mut scene = Scene::begin_with(&[("SOTTO_STORE_URL", &store)]).await;
    let mut anna = scene.user("anna").await;
    let url = scene.model.url();
    let settings = [
        ("SOTTO_MODEL_URL", url.as_str()),
        ("SOTTO_STORE_URL", &store),
        ("SOTTO_AGENT_IDENTITY", "agent-second"),
    ];
    let second = Agent::launch(super::SOTTO, &scene.server, &scene.room, &settings);
    second
        .logs("that another one is there", |line| line.contains("another agent has this conversation"))
        .await;
    assert_eq!(anna.asks("Who is there?").await, "Yes.");
    scene.agent.kill();
    second.logs("that it joined", |line| line.contains("\"joined\"")).await;
    anna.participant.meets("agent-second").await;
    assert_eq!(anna.asks("And now?").await, "Yes.");
}

/// The engine's own fault: those who wait are told, and the conversation goes on with what was said before.
pub(crate) async fn a_panic_of_the_engine_ends_open_messages_and_nothing_else() {
    let store = new_store();
    let scene = Scene::begin_with(&[("SOTTO_STORE_URL", &store), ("SOTTO_PANIC_AT", "40")]).await;
    let mut anna = scene.user("anna").await;
    let mut said = Vec::new();
    // Somewhere in one of these exchanges it happens.
    for count in 0..20 {
        anna.says(&format!("Number {count}")).await;
        let heard = anna
            .until(|body| {
                super::user::is_final(body) || matches!(body, Body::ErrorMessage(error) if error.code == 501)
            })
            .await;
        let failed = heard.iter().any(|envelope| told(&envelope.body) == "error 501 recoverable");
        said.push((count, failed));
        if failed {
            break;
        }
    }
    assert!(said.last().is_some_and(|(_, failed)| *failed), "the panic was to come: {said:?}");
    assert_eq!(anna.asks("Still there?").await, "Yes.");
    let asked = dialogue(&scene.asked(scene.asked_so_far() - 1).await);
    assert!(asked.contains(&"user: Number 0".to_owned()), "what was said is known: {asked:?}");
    assert_eq!(scene.agent.metric("sotto_panics_total").await, 1);
}

/// The database is killed and comes back: nothing is acknowledged meanwhile, nobody is left without a word, and what was
/// sent again is answered. (PostgreSQL itself may have lost its last instants; then the agent takes the conversation up
/// anew.)
pub(crate) async fn a_store_that_goes_away_is_told_and_comes_back() {
    let postgres = Postgres::start().await;
    let database = postgres.database();
    let scene = Scene::begin_with(&[("SOTTO_STORE_URL", database.url())]).await;
    let (url, token) = (scene.server.url(), scene.server.token(&scene.room, "anna"));
    let mut anna =
        Client::join(&url, &token, ClientOptions::default()).await.expect("the room can be joined");
    let first = anna.say("One");
    answered(&mut anna, &first).await;
    postgres.kill();
    let second = anna.say("Two");
    heard(
        &mut anna,
        "that it cannot be stored",
        |body| matches!(body, Body::ErrorMessage(error) if error.code == 501 && error.recoverable),
    )
    .await;
    postgres.restart().await;
    // As a client does that is told to send it again.
    anna.send(message(&second, "Two"));
    answered(&mut anna, &second).await;
    let third = anna.say("Three");
    answered(&mut anna, &third).await;
}

/// A message with an id of the sender's choice.
pub(super) fn message(id: &str, content: &str) -> Body {
    Body::UserMessage(UserMessage {
        id: id.to_owned(),
        previous_id: None,
        conversation_id: String::new(),
        content: content.to_owned(),
        timestamp: None,
        attachments: None,
    })
}

/// Waits for the first stanza that is it.
pub(super) async fn heard(client: &mut Client, what: &str, mut is_it: impl FnMut(&Body) -> bool) {
    let waiting = async {
        loop {
            if let Event::Received(envelope) = client.next().await
                && is_it(&envelope.body)
            {
                return;
            }
        }
    };
    timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("awaited in vain: {what}"));
}

/// Waits for the end of an answer to a message.
pub(super) async fn answered(client: &mut Client, message: &str) {
    let mut answer = None;
    heard(client, "an answer", |body| match body {
        Body::StartAnswer(start) if start.previous_id == message => {
            answer = Some(start.id.clone());
            false
        }
        Body::AssistantSentence(sentence) => {
            sentence.is_final == Some(true) && answer.as_ref() == Some(&sentence.previous_id)
        }
        _ => false,
    })
    .await;
}

/// A process that slept through its time finds that another one answers, and says nothing more.
pub(crate) async fn an_old_process_that_wakes_up_says_nothing() {
    let store = new_store();
    let scene = Scene::begin_with(&[("SOTTO_STORE_URL", &store)]).await;
    let mut anna = scene.user("anna").await;
    scene.model.reply(unfinished(&["I am here. And"]));
    let question = anna.says("Are you there?").await;
    assert_eq!(anna.hears(3).await, ["ack 1", "start", "1: I am here."]);
    scene.agent.freeze();
    let url = scene.model.url();
    let settings = [
        ("SOTTO_MODEL_URL", url.as_str()),
        ("SOTTO_STORE_URL", &store),
        ("SOTTO_AGENT_IDENTITY", "agent-second"),
    ];
    let second = Agent::launch(super::SOTTO, &scene.server, &scene.room, &settings);
    // The first one's heartbeat must be old enough.
    second.logs_within(3 * PATIENCE, "that it joined", |line| line.contains("\"joined\"")).await;
    let heard = anna.until(|body| matches!(body, Body::StartAnswer(_))).await;
    let Some(Body::StartAnswer(start)) = heard.last().map(|envelope| &envelope.body) else {
        panic!("awaited it just now")
    };
    assert_eq!(start.previous_id, question);
    assert_eq!(anna.hears_to_the_end().await, ["1: Yes. (final)"]);
    scene.agent.thaw();
    scene.agent.logs("that another one took over", |line| line.contains("taken the conversation over")).await;
    assert_eq!(anna.asks("And now?").await, "Yes.");
}
