//! A tool that is used only with the leave of the one who asks.

use super::{Door, calls, configured, result_told};
use crate::agent::{SOTTO, Scene, told, user::is_final};
use crate::chat::Terminal;
use serde_json::json;
use sotto::client::{Client, ClientOptions, Event};
use sotto_core::wire::body::{Body, ToolConsent, ToolConsentRequest};
use sotto_harness::{PATIENCE, agent, endpoint::Reply};
use tempfile::TempDir;
use tokio::time::timeout;

const QUESTION: &str = "Open the front door.";
const OPENED: [&str; 2] = ["tool open_door {\"door\":\"front\"}", "result {\"door\":\"open\"}"];

/// A room whose agent can open a door, if it may.
struct House {
    scene: Scene,
    door: Door,
    _directory: TempDir,
}

impl House {
    async fn build(settings: &[(&str, &str)]) -> Self {
        let door = Door::build().await;
        let config = format!("[tools]\nallow_hosts = [\"127.0.0.1\"]\n{}", door.tool("confirm = true"));
        let (scene, directory) = configured(&config, settings).await;
        Self { scene, door, _directory: directory }
    }

    /// The model will want to open it, and then say this.
    fn will_call(&self, then: &str) {
        self.scene.model.reply(calls("open_door", json!({"door": "front"})));
        self.scene.model.reply(Reply::text(then));
    }

    /// Our own client, with somebody who can be asked.
    async fn client(&self) -> Client {
        let server = &self.scene.server;
        let (url, token) = (server.url(), server.token(&self.scene.room, "anna"));
        let options = ClientOptions { consent: true, reasoning: false, ..ClientOptions::default() };
        let joined = timeout(PATIENCE, Client::join(&url, &token, options));
        joined.await.expect("joining ends").expect("the room can be joined")
    }
}

/// Whatever comes, up to the message for which this holds.
async fn until(client: &mut Client, is_it: impl Fn(&Body) -> bool) -> Vec<Body> {
    let waiting = async {
        let mut bodies = Vec::new();
        loop {
            if let Event::Received(envelope) = client.next().await {
                bodies.push(envelope.body);
                if bodies.last().is_some_and(&is_it) {
                    return bodies;
                }
            }
        }
    };
    timeout(PATIENCE, waiting).await.expect("it comes")
}

async fn asked_for_leave(client: &mut Client) -> ToolConsentRequest {
    let bodies = until(client, |body| matches!(body, Body::ToolConsentRequest(_))).await;
    match bodies.into_iter().last() {
        Some(Body::ToolConsentRequest(request)) => request,
        other => panic!("no request: {other:?}"),
    }
}

/// What is heard of an answer to its end, but for acknowledgements.
async fn answer(client: &mut Client) -> Vec<String> {
    let bodies = until(client, is_final).await;
    bodies.iter().map(told).filter(|line| !line.starts_with("ack ")).collect()
}

pub(crate) async fn a_tool_that_is_allowed_runs_once() {
    let house = House::build(&[]).await;
    let mut mallory = house.scene.user("mallory").await;
    let mut anna = house.client().await;
    house.will_call("It is open.");
    let question = anna.say(QUESTION);
    let asked = asked_for_leave(&mut anna).await;
    assert_eq!((asked.tool_name.as_str(), &asked.message_id), ("open_door", &question));
    assert_eq!(json!(asked.parameters), json!({"door": "front"}), "exactly what would be run");
    assert!(asked.reason.is_some_and(|reason| reason.contains("leave")));

    // Nobody else was asked, and nobody else can allow it.
    let allow = |request: &str| ToolConsent {
        request_id: request.to_owned(),
        conversation_id: String::new(),
        allow: true,
    };
    mallory.sends(Body::ToolConsent(allow(&asked.request_id))).await;
    assert_eq!(mallory.hears(2).await, ["error 203 final", "refused 1"]);
    assert_eq!(house.door.asked(), Vec::<serde_json::Value>::new(), "nothing runs before it is allowed");

    anna.consent(&asked.request_id, true);
    let rest = ["start", "1: It is open. (final)"];
    assert_eq!(answer(&mut anna).await, [OPENED, rest].concat());
    assert_eq!(mallory.hears_to_the_end().await, [OPENED, rest].concat());
    assert_eq!(house.door.asked(), [json!({"door": "front"})]);
    assert!(result_told(&house.scene.asked(1).await).contains("open"));

    // Allowing it once more opens nothing.
    anna.consent(&asked.request_id, true);
    let refused = until(&mut anna, |body| matches!(body, Body::ErrorMessage(_))).await;
    assert_eq!(refused.last().map(told), Some("error 202 final".to_owned()));
    assert_eq!(house.door.asked().len(), 1);
}

pub(crate) async fn a_tool_that_is_denied_does_not_run() {
    let house = House::build(&[]).await;
    let mut anna = house.client().await;
    house.will_call("Then it stays shut.");
    anna.say(QUESTION);
    let asked = asked_for_leave(&mut anna).await;
    anna.consent(&asked.request_id, false);
    assert_eq!(answer(&mut anna).await, ["start", "1: Then it stays shut. (final)"]);
    assert!(result_told(&house.scene.asked(1).await).contains("did not allow"));
    assert!(house.door.asked().is_empty());
}

pub(crate) async fn a_tool_that_nobody_allows_in_time_does_not_run() {
    let house = House::build(&[("SOTTO_TOOLS_CONSENT_TIMEOUT", "1")]).await;
    let mut anna = house.client().await;
    house.will_call("Nobody is there.");
    anna.say(QUESTION);
    assert_eq!(asked_for_leave(&mut anna).await.timeout_ms, 1_000);
    assert_eq!(answer(&mut anna).await, ["start", "1: Nobody is there. (final)"]);
    assert!(result_told(&house.scene.asked(1).await).contains("Nobody allowed"));
    assert!(house.door.asked().is_empty());
}

pub(crate) async fn whoever_cannot_be_asked_has_not_allowed_it() {
    let house = House::build(&[]).await;
    let mut boris = house.scene.user("boris").await;
    house.will_call("I may not.");
    boris.says(QUESTION).await;
    assert_eq!(boris.hears_to_the_end().await, ["ack 1", "start", "1: I may not. (final)"]);
    assert!(result_told(&house.scene.asked(1).await).contains("cannot ask"));
    assert!(house.door.asked().is_empty());
}

/// `sotto chat` without a terminal: only what is named is allowed.
pub(crate) async fn the_chat_allows_what_it_is_told_to() {
    let house = House::build(&[]).await;
    let room = house.scene.room.as_str();
    let cases: [(&[&str], usize, &str); 3] = [
        (&[], 0, "cannot ask"),
        (&["--allow", "another_tool"], 0, "did not allow"),
        (&["--allow", "another_tool", "--allow", "open_door"], 1, "open"),
    ];
    for (number, (allowed, opened, reason)) in cases.into_iter().enumerate() {
        house.will_call("So it is.");
        let arguments = [&["chat", room, "--message", QUESTION], allowed].concat();
        let output = agent::run(SOTTO, &house.scene.server, &[], &arguments).await;
        let shown = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && shown.contains("So it is."), "{allowed:?}: {shown}");
        assert_eq!(shown.contains("tool: open_door"), opened == 1, "{allowed:?}: {shown}");
        assert_eq!(house.door.asked().len(), opened, "{allowed:?}");
        let told = result_told(&house.scene.asked(2 * number + 1).await);
        assert!(told.contains(reason), "{allowed:?}: {told}");
    }
}

pub(crate) async fn at_a_terminal_somebody_is_asked() {
    let house = House::build(&[]).await;
    let mut terminal = Terminal::open(&house.scene.server, &house.scene.room);
    terminal.shows("the agent is here").await;
    for (word, then, opened) in [("/deny", "It stays shut.", 0), ("/allow", "It is open.", 1)] {
        house.will_call(then);
        terminal.types("Open it.\n").await;
        terminal.shows("may the agent use open_door {\"door\":\"front\"}?").await;
        assert!(house.door.asked().is_empty());
        terminal.types(&format!("{word}\n")).await;
        terminal.shows(then).await;
        assert_eq!(house.door.asked().len(), opened, "after {word}");
    }
}
