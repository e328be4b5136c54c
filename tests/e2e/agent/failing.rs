//! Model endpoints that fail, and others that take their place.

use serde_json::json;
use sotto_core::wire::body::{Body, ErrorMessage};
use sotto_harness::{
    agent::Agent,
    endpoint::{Endpoint, Reply},
    isolation,
    server::{Server, new_room},
};

use super::{SOTTO, Scene, User, told};

const KEY: &str = "canary-key-7e1f0c";

pub(crate) async fn an_endpoint_that_is_not_ready_is_asked_again() {
    let scene = Scene::begin_with(&[("SOTTO_MODEL_RETRIES", "1")]).await;
    let mut anna = scene.user("anna").await;
    let busy = || Reply::status(503, r#"{"error":{"message":"loading"}}"#);
    scene.model.reply(busy());
    anna.says("Are you there?").await;
    assert_eq!(anna.hears_to_the_end().await, ["ack 1", "start", "1: Yes. (final)"], "nobody noticed");

    scene.model.reply(busy());
    scene.model.reply(busy());
    let question = anna.says("And now?").await;
    assert_eq!(anna.hears(1).await, ["ack 2"]);
    let error = error(&mut anna).await;
    assert_eq!((error.code, error.severity, error.recoverable), (503, 2, true), "{error:?}");
    assert_eq!(error.originating_id, Some(question));
    assert!(anna.asks("Still?").await.ends_with("Yes."));
}

pub(crate) async fn an_answer_that_breaks_off_is_kept_and_told_as_failed() {
    let scene = Scene::begin().await;
    let mut anna = scene.user("anna").await;
    let piece = json!({"choices": [{"index": 0, "delta": {"content": "It begins. And then"}}]});
    scene.model.reply(Reply::stream().event(&piece).close());
    let question = anna.says("Tell me.").await;
    assert_eq!(anna.hears_to_the_end().await, ["ack 1", "start", "1: It begins.", "2:  And then (final)"]);
    let error = error(&mut anna).await;
    assert_eq!((error.code, error.severity, error.recoverable), (503, 2, true), "{error:?}");
    assert_eq!(error.originating_id, Some(question));
    assert_eq!(scene.asked_so_far(), 1, "what was heard is never asked for again");
    anna.asks("Go on.").await;
    assert!(scene.asked(1).await.body.to_string().contains("It begins. And then"));
}

pub(crate) async fn a_refused_key_is_told_in_words_and_without_the_key() {
    let scene = Scene::begin_with(&[("SOTTO_MODEL_KEY", KEY)]).await;
    let mut anna = scene.user("anna").await;
    let refusal = json!({"error": {"message": format!("Incorrect API key provided: {KEY}")}});
    scene.model.reply(Reply::status(401, &refusal.to_string()));
    let question = anna.says("Are you there?").await;
    assert_eq!(anna.hears(1).await, ["ack 1"]);
    let error = error(&mut anna).await;
    assert_eq!((error.code, error.recoverable), (503, false), "{error:?}");
    assert_eq!(error.originating_id, Some(question));
    assert!(error.message.contains("SOTTO_MODEL_KEY") && !error.message.contains(KEY), "{}", error.message);
    assert_eq!(scene.asked(0).await.header("authorization"), Some(&*format!("Bearer {KEY}")));
    assert_eq!(scene.asked_so_far(), 1, "a refused key is not tried again");
}

pub(crate) async fn the_fallback_answers_with_a_key_of_its_own() {
    let server = Server::shared().await;
    let room = new_room();
    let (main, fallback) = (Endpoint::start().await, Endpoint::start().await);
    main.reply_by(|_| Reply::status(503, r#"{"error":{"message":"out of order"}}"#));
    fallback.reply_by(|_| Reply::text("I am the other one."));
    let file = isolation::directory().join(format!("{room}.toml"));
    let config = format!(
        "[model]\nurl = \"{}\"\nname = \"qwen3\"\nkey = \"main-key\"\nretries = 0\n\n[[model.fallback]]\nurl = \"{}\"\n\
         name = \"qwen3-small\"\nkey = \"${{FALLBACK_KEY}}\"\n",
        main.url(),
        fallback.url()
    );
    std::fs::write(&file, config).expect("the tests' directory is writable");
    let file = file.to_str().expect("a path in ASCII");
    let agent = Agent::join(SOTTO, &server, &room, &[("SOTTO_CONFIG", file), ("FALLBACK_KEY", KEY)]).await;
    let mut anna = User::join(&server, &room, "anna").await;
    anna.participant.meets(agent.identity()).await;
    anna.says("Who are you?").await;
    assert_eq!(anna.hears_to_the_end().await, ["ack 1", "start", "1: I am the other one. (final)"]);
    for (endpoint, key) in [(&main, "main-key"), (&fallback, KEY)] {
        let log = endpoint.log();
        assert!(!log.requests.is_empty());
        for request in &log.requests {
            assert_eq!(request.header("authorization"), Some(&*format!("Bearer {key}")));
        }
    }
    assert_eq!(fallback.log().requests.last().expect("it was asked").body["model"], "qwen3-small");
}

async fn error(user: &mut User) -> ErrorMessage {
    match user.next().await.body {
        Body::ErrorMessage(error) => error,
        other => panic!("not an error: {}", told(&other)),
    }
}
