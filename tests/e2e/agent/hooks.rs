//! The developer's own logic, as those in a room meet it: what hooks allow, change and refuse, and what happens without them.
//!
//! The hooks are our example in Python, which checks signatures with Python's own `hmac`; and, where they are to fail, the
//! scripted endpoint.

use super::durable::new_store;
use super::tools::{Door, calls, configured, result_told};
use super::{SOTTO, dialogue, messages, start_agent, told, unfinished};
use serde_json::{Value, json};
use sotto_core::wire::body::{Body, ToolConsent};
use sotto_harness::{
    agent,
    endpoint::{Endpoint, Reply, Request},
    peer::Peer,
    service::Service,
};
use std::path::Path;

const SECRET: &str = "a-secret-of-the-tests";
const ALLOW: &str = r#"{"action": "allow"}"#;

/// A hook of this name, in a configuration.
fn hook(name: &str, url: &str, terms: &str) -> String {
    format!("[hooks.{name}]\nurl = \"{url}\"\nsecret = \"${{SIGN}}\"\n{terms}\n")
}

fn hooks(names: &[&str], url: &str, terms: &str) -> String {
    let all: String = names.iter().map(|name| hook(name, url, terms)).collect();
    format!("[hooks]\nallow_hosts = [\"127.0.0.1\"]\n{all}")
}

async fn example() -> Service {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/python/hooks.py");
    Service::start(&script, &[("HOOK_SECRET", SECRET)]).await
}

/// A hook that does what it is told by what it is asked about.
async fn scripted(rule: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Endpoint {
    let endpoint = Endpoint::start().await;
    endpoint.reply_by(rule);
    endpoint
}

fn about(request: &Request, what: &str) -> bool {
    let said = &request.body["messages"].as_array().and_then(|messages| messages.last()).cloned();
    let said = said.as_ref().map_or(&request.body["text"], |message| &message["content"]);
    said.as_str().is_some_and(|said| said.contains(what))
}

pub(crate) async fn the_python_example_of_hooks_works() {
    let (python, door) = (example().await, Door::build().await);
    let terms = "when_away = \"closed\"\ntimeout = 30";
    let config = hooks(&["before_tool", "before_say"], &python.url(), terms)
        + &hook("before_model", &python.url(), &format!("{terms}\neffects = []"))
        + &format!("[tools]\nallow_hosts = [\"127.0.0.1\"]\n{}", door.tool(""));
    let (scene, directory) = configured(&config, &[("SIGN", SECRET)]).await;
    let mut anna = scene.user("anna").await;
    let mut boris = scene.user("boris").await;
    let mut stock = Peer::join(&scene.server, &scene.room, "stock").await;
    boris.can(&["reasoning_steps"]).await;
    // Where someone is left out, the agent writes to those it knows.
    anna.can(&["streaming"]).await;

    // Replaced and blocked: for streaming clients, for whole answers, in transcripts, and for the model afterwards.
    let said = "Call me at 0123456789. That is confidential. Goodbye.";
    scene.model.reply(Reply::text(said));
    anna.says("Well?").await;
    let expected = ["ack 2", "start", "1: Call me at [number].", "2:  Goodbye. (final)"];
    assert_eq!(anna.hears_to_the_end().await, expected);
    let whole = boris.until(|body| matches!(body, Body::AssistantMessage(_))).await;
    assert_eq!(
        whole.last().map(|last| told(&last.body)),
        Some("answer: Call me at [number]. Goodbye.".to_owned())
    );
    let read = stock.event("transcription", |_| true).await;
    assert_eq!(read["text"], "Call me at [number]. Goodbye.");
    let prompt = messages(&scene.asked(0).await);
    assert!(prompt[0].starts_with("system: ") && prompt[0].ends_with("You talk to anna."), "{prompt:?}");

    // Changed: run, shown and told as it was changed.
    scene.model.reply(calls("open_door", json!({"door": "any"})));
    scene.model.reply(Reply::text("It is open."));
    anna.says("Open any door.").await;
    let expected = [
        "ack 3",
        "tool open_door {\"door\":\"front\"}",
        "result {\"door\":\"open\"}",
        "start",
        "1: It is open. (final)",
    ];
    assert_eq!(anna.hears_to_the_end().await, expected);
    assert_eq!(door.asked(), [json!({"door": "front"})]);
    let prompt = dialogue(&scene.asked(1).await);
    assert_eq!(prompt[1], "assistant: Call me at [number]. Goodbye.", "what was judged is what was said");
    let told_again = scene.asked(2).await.body["messages"].to_string();
    assert!(told_again.contains(r#"{\"door\":\"front\"}"#) && !told_again.contains(r#"{\"door\":\"any\"}"#));

    // Denied: shown, told to the model, and not run.
    scene.model.reply(calls("open_door", json!({"door": "cellar"})));
    scene.model.reply(Reply::text("I may not."));
    anna.says("Open the cellar.").await;
    let expected = [
        "ack 4",
        "tool open_door {\"door\":\"cellar\"}",
        "failed cancelled",
        "start",
        "1: I may not. (final)",
    ];
    assert_eq!(anna.hears_to_the_end().await, expected);
    assert_eq!(door.asked().len(), 1);
    assert!(result_told(&scene.asked(4).await).contains("nobody may open the cellar"));

    for (name, outcome, least) in [
        ("before_model", "changed", 5),
        ("before_tool", "changed", 1),
        ("before_tool", "refused", 1),
        ("before_say", "allowed", 3),
        ("before_say", "changed", 1),
        ("before_say", "refused", 1),
    ] {
        let figure = format!("sotto_hooks_total{{hook=\"{name}\",outcome=\"{outcome}\"}}");
        assert_eq!(scene.agent.metric(&figure).await, least, "{figure}");
    }

    // `sotto check` asks them too.
    let file = directory.path().join("sotto.toml");
    let settings = [("SIGN", SECRET), ("SOTTO_CONFIG", file.to_str().expect("UTF-8"))];
    let checked = agent::run(SOTTO, &scene.server, &settings, &["check"]).await;
    let shown = String::from_utf8_lossy(&checked.stdout).into_owned();
    for name in ["before_model", "before_tool", "before_say"] {
        assert!(shown.contains(&format!("✓ hook {name}: answers within ")), "{shown}");
    }
}

/// The hook is the one that looks: it refuses what another secret has signed, and nobody's words are in the log.
pub(crate) async fn a_hook_refuses_what_another_secret_has_signed() {
    let python = example().await;
    let config = hooks(&["before_model"], &python.url(), "when_away = \"closed\"\ntimeout = 30");
    let (scene, directory) = configured(&config, &[("SIGN", "another-secret-of-the-tests")]).await;
    let mut anna = scene.user("anna").await;
    anna.says("A canary sings.").await;
    assert_eq!(anna.hears(2).await, ["ack 1", "error 503 recoverable"]);
    scene.agent.logs("that the hook refused", |line| line.contains("it answered 401 Unauthorized")).await;
    assert_eq!(scene.asked_so_far(), 0, "the model was not asked");
    let log = scene.agent.log();
    assert!(!log.contains("canary") && !log.contains("secret-of-the-tests"), "{log}");

    let file = directory.path().join("sotto.toml");
    let settings = [("SIGN", "another-secret-of-the-tests"), ("SOTTO_CONFIG", file.to_str().expect("UTF-8"))];
    let checked = agent::run(SOTTO, &scene.server, &settings, &["check"]).await;
    let shown = String::from_utf8_lossy(&checked.stdout).into_owned();
    assert!(!checked.status.success() && shown.contains("✗ hook before_model: it answered 401"), "{shown}");
}

/// What fails how: by what it is asked about.
fn failing(request: &Request) -> Reply {
    match request.body["hook"].as_str() {
        Some("before_tool") => Reply::status(500, "{}"),
        _ if about(request, "broken") => Reply::hang_up(),
        _ if about(request, "nonsense") => Reply::status(200, r#"{"action": "dance"}"#),
        _ if about(request, "slow") => Reply::silence(),
        _ => Reply::status(200, ALLOW),
    }
}

pub(crate) async fn hooks_that_are_away_and_closed_let_nothing_pass() {
    let (away, door) = (scripted(failing).await, Door::build().await);
    let config = hooks(
        &["before_model", "before_tool", "before_say"],
        &away.url(),
        "when_away = \"closed\"\ntimeout = 2",
    ) + &format!("[tools]\nallow_hosts = [\"127.0.0.1\"]\n{}", door.tool(""));
    let (scene, _directory) = configured(&config, &[("SIGN", SECRET)]).await;
    let mut anna = scene.user("anna").await;
    for (number, how) in (1..).zip(["broken", "nonsense", "slow"]) {
        anna.says(&format!("Is it {how}?")).await;
        assert_eq!(
            anna.hears(2).await,
            [format!("ack {number}"), "error 503 recoverable".to_owned()],
            "{how}"
        );
    }
    assert_eq!(scene.asked_so_far(), 0, "the model was not asked");

    // Sentences that nobody judged are not said, and the asker is told once.
    scene
        .model
        .reply(Reply::text("This is fine. This is broken. This is slow. This is nonsense. All is said."));
    anna.says("Well?").await;
    let mut heard = anna.hears_to_the_end().await;
    assert_eq!(heard.iter().filter(|line| *line == "error 100 recoverable").count(), 1, "{heard:?}");
    heard.retain(|line| !line.starts_with("error"));
    assert_eq!(heard, ["ack 4", "start", "1: This is fine.", "2:  All is said. (final)"]);

    scene.model.reply(calls("open_door", json!({"door": "front"})));
    scene.model.reply(Reply::text("I cannot."));
    anna.says("Open it.").await;
    let expected =
        ["ack 5", "tool open_door {\"door\":\"front\"}", "failed cancelled", "start", "1: I cannot. (final)"];
    assert_eq!(anna.hears_to_the_end().await, expected);
    assert_eq!(door.asked(), Vec::<Value>::new());
    let late = "sotto_hooks_total{hook=\"before_say\",outcome=\"late\"}";
    assert_eq!(scene.agent.metric(late).await, 1);
}

pub(crate) async fn hooks_that_are_away_and_open_are_as_if_there_were_none() {
    let (away, door) = (scripted(failing).await, Door::build().await);
    let config = hooks(
        &["before_model", "before_tool", "before_say"],
        &away.url(),
        "when_away = \"open\"\ntimeout = 2",
    ) + &format!("[tools]\nallow_hosts = [\"127.0.0.1\"]\n{}", door.tool(""));
    let (scene, _directory) = configured(&config, &[("SIGN", SECRET)]).await;
    let mut anna = scene.user("anna").await;
    let said = "This is fine. This is broken. This is slow. This is nonsense. All is said.";
    for how in ["broken", "nonsense", "slow"] {
        scene.model.reply(Reply::text(said));
        assert_eq!(anna.asks(&format!("Is it {how}?")).await, said);
    }
    scene.model.reply(calls("open_door", json!({"door": "front"})));
    scene.model.reply(Reply::text("It is open."));
    assert_eq!(anna.asks("Open it.").await, "It is open.");
    assert_eq!(door.asked(), [json!({"door": "front"})]);
}

/// What a hook makes of a call is judged like any other: somebody is asked, and sees exactly what would be run.
pub(crate) async fn what_a_hook_has_changed_needs_leave_as_it_was_changed() {
    let changing =
        scripted(|_| Reply::status(200, r#"{"action": "change", "parameters": {"door": "garden"}}"#)).await;
    let door = Door::build().await;
    let config = hooks(&["before_tool"], &changing.url(), "when_away = \"closed\"\ntimeout = 30")
        + &format!("[tools]\nallow_hosts = [\"127.0.0.1\"]\n{}", door.tool("confirm = true"));
    let (scene, _directory) = configured(&config, &[("SIGN", SECRET)]).await;
    let mut anna = scene.user("anna").await;
    anna.can(&["streaming", "tool_consent"]).await;
    scene.model.reply(calls("open_door", json!({"door": "front"})));
    scene.model.reply(Reply::text("It is open."));
    anna.says("Open it.").await;
    let asked = anna.until(|body| matches!(body, Body::ToolConsentRequest(_))).await;
    let Some(Body::ToolConsentRequest(request)) = asked.last().map(|last| &last.body) else {
        panic!("awaited it just now")
    };
    assert_eq!(json!(request.parameters), json!({"door": "garden"}));
    assert_eq!(door.asked(), Vec::<Value>::new(), "nothing runs before it is allowed");
    let (request_id, conversation_id) = (request.request_id.clone(), String::new());
    anna.sends(Body::ToolConsent(ToolConsent { request_id, conversation_id, allow: true })).await;
    let expected = [
        "tool open_door {\"door\":\"garden\"}",
        "ack 3",
        "result {\"door\":\"open\"}",
        "start",
        "1: It is open. (final)",
    ];
    assert_eq!(anna.hears_to_the_end().await, expected);
    assert_eq!(door.asked(), [json!({"door": "garden"})]);
}

/// Nobody waits for a hook that has not answered: what it was asked is not said, and its connection is closed.
pub(crate) async fn a_stop_does_not_wait_for_a_hook() {
    let slow = scripted(failing).await;
    let config = hooks(&["before_say"], &slow.url(), "when_away = \"open\"\ntimeout = 60");
    let (scene, _directory) = configured(&config, &[("SIGN", SECRET)]).await;
    let mut anna = scene.user("anna").await;
    scene.model.reply(unfinished(&["This is fine. This is slow. And"]));
    anna.says("Well?").await;
    assert_eq!(anna.hears(3).await, ["ack 1", "start", "1: This is fine."]);
    slow.request(1).await;
    anna.stops().await;
    assert_eq!(anna.hears(2).await, ["2:  (final)", "ack 2"]);
    slow.until("that nobody waits", |log| {
        (log.requests.len() == 2 && log.requests[1].end.is_some()).then_some(())
    })
    .await;
    assert_eq!(anna.asks("And now?").await, "Yes.");
}

/// Killed while a sentence is judged: nothing of it was said or kept, and the next agent asks again, about the same under the same id.
pub(crate) async fn killed_while_a_hook_is_asked_nothing_unjudged_is_said() {
    let hook = scripted(failing).await;
    let store = new_store();
    let config = hooks(&["before_model", "before_say"], &hook.url(), "when_away = \"closed\"\ntimeout = 60");
    let (mut scene, directory) = configured(&config, &[("SIGN", SECRET), ("SOTTO_STORE_URL", &store)]).await;
    let mut anna = scene.user("anna").await;
    scene.model.reply(Reply::text("This is fine. This is slow. All is said."));
    anna.says("Well?").await;
    assert_eq!(anna.hears(3).await, ["ack 1", "start", "1: This is fine."]);
    hook.until("all questions", |log| (log.requests.len() == 4).then_some(())).await;
    scene.agent.kill();
    hook.reply_by(|request| {
        let blocked = about(request, "slow");
        Reply::status(200, if blocked { r#"{"action": "block"}"# } else { ALLOW })
    });
    scene.model.reply_by(|request| match request.body["max_tokens"].as_i64() {
        // What gets to know the model is short.
        Some(..=100) => Reply::text("Yes."),
        _ => Reply::text("This is fine. This is slow. All is said."),
    });
    let file = directory.path().join("sotto.toml").to_string_lossy().into_owned();
    let settings = [("SIGN", SECRET), ("SOTTO_STORE_URL", store.as_str()), ("SOTTO_CONFIG", file.as_str())];
    scene.agent = start_agent(&scene.server, &scene.room, &scene.model, &settings).await;
    let heard = anna.until(|body| matches!(body, Body::StartAnswer(_))).await;
    let heard: Vec<_> = heard.iter().map(|envelope| told(&envelope.body)).collect();
    assert_eq!(heard, ["2:  (final)", "start"]);
    assert_eq!(anna.hears(2).await, ["1: This is fine.", "2:  All is said. (final)"]);
    let asked: Vec<(Value, Value)> = hook
        .log()
        .requests
        .iter()
        .map(|request| (request.body["hook"].clone(), request.body["id"].clone()))
        .collect();
    let ids =
        |hook: &str| asked.iter().filter(|(name, _)| name == hook).map(|(_, id)| id).collect::<Vec<_>>();
    let models = ids("before_model");
    assert_eq!(models.len(), 2);
    assert_eq!(models[0], models[1], "the same question has the same id");
    let mut says = ids("before_say");
    says.sort_by_key(ToString::to_string);
    assert_eq!(says.len(), 6);
    assert!(says.chunks(2).all(|pair| pair[0] == pair[1]), "{says:?}");
}
