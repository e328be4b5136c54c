//! A real browser as judge: LiveKit's own JavaScript client and React hooks in Chromium, the real `sotto join`, a real
//! server. What pages do is in tests/browser/pages; what is right is said here.

use serde_json::{Value, json};
use sotto_harness::{
    agent::{self, AGENT, Agent},
    browser::Browser,
    endpoint::{Answer, End, Endpoint, Gate, Reply, Request, Style},
    peer,
    server::{Server, new_room},
};
use std::{path::Path, sync::Arc};

const SOTTO: &str = env!("CARGO_BIN_EXE_sotto");
const QUESTION: &str = "Was ist 12*7? Und wo steht das?";
const THOUGHTS: [&str; 2] = ["Twelve sevens are asked for.", "Seventy and fourteen: eighty-four."];
const SENTENCES: [&str; 4] =
    ["12*7 ist 84.", " Das steht in v1.5 auf https://example.com/a.b?c=d.", "\n\nSo ist es…", " Schön! 🎉"];

const ACKNOWLEDGEMENT: u8 = 8;
const REASONING_STEP: u8 = 5;
const START_ANSWER: u8 = 13;
const ASSISTANT_SENTENCE: u8 = 16;

/// A room with an agent whose model is scripted, and a browser on its way there.
struct Scene {
    server: Arc<Server>,
    room: String,
    model: Endpoint,
    browser: Browser,
    _agent: Agent,
}

impl Scene {
    /// The model answers questions with this, and whatever else the agent wants to know of it with a word.
    async fn begin(reply: Reply) -> Self {
        // First, as it may skip the test.
        let browser = Browser::start();
        let (server, room, model) = (Server::shared().await, new_room(), Endpoint::start().await);
        model.reply_by(move |request| if is_asked(request) { reply.clone() } else { Reply::text("Yes.") });
        let agent = Agent::join(SOTTO, &server, &room, &[("SOTTO_MODEL_URL", &model.url())]).await;
        Self { server, room, model, browser, _agent: agent }
    }

    fn access(&self) -> Value {
        json!({"url": self.server.url(), "token": self.server.token(&self.room, "anna")})
    }

    /// Opens the page of the protocol and joins; gives the agent as livekit-client shows it.
    async fn join_with(&mut self, codec: &str, single_peer_connection: bool) -> Value {
        self.browser.open("envelopes").await;
        let mut how = self.access();
        how["codec"] = json!(codec);
        how["singlePeerConnection"] = json!(single_peer_connection);
        let mut others = self.browser.call("join", how).await;
        others[0].take()
    }

    async fn send(&mut self, envelope: Value) -> Value {
        self.browser.call("send", envelope).await
    }

    /// The next envelope of this type, past or to come.
    async fn envelope(&mut self, kind: u8) -> Value {
        let arrived = self.browser.event("envelope", |arrived| arrived["envelope"]["type"] == kind).await;
        assert_eq!(arrived["from"], AGENT, "{arrived}");
        arrived
    }

    async fn body(&mut self, kind: u8) -> Value {
        self.envelope(kind).await["envelope"]["body"].take()
    }

    /// All sentences up to the last.
    async fn sentences(&mut self) -> Vec<Value> {
        let mut sentences = Vec::new();
        loop {
            let sentence = self.body(ASSISTANT_SENTENCE).await;
            let last = sentence["isFinal"] == true;
            sentences.push(sentence);
            if last {
                return sentences;
            }
        }
    }

    /// The next state of the agent as livekit-client tells it.
    async fn state(&mut self) -> Value {
        self.browser.event("participant", |participant| participant["identity"] == AGENT).await["state"]
            .take()
    }

    /// What the model was asked, once it was.
    async fn question(&self) -> String {
        let find =
            |log: &sotto_harness::endpoint::Log| log.requests.iter().find(|asked| is_asked(asked)).map(asked);
        self.model.until("the question", find).await
    }
}

/// What was asked last.
fn asked(request: &Request) -> String {
    let messages = request.body["messages"].as_array();
    let last = messages.into_iter().flatten().rfind(|message| message["role"] == "user");
    last.and_then(|message| message["content"].as_str()).unwrap_or_default().to_owned()
}

fn is_asked(request: &Request) -> bool {
    asked(request).starts_with(QUESTION)
}

fn texts(sentences: &[Value]) -> String {
    sentences.iter().filter_map(|sentence| sentence["text"].as_str()).collect()
}

/// Thoughts, then sentences: the states between them can be seen only if there is time between them.
fn thoughtful(gate: &Gate) -> Reply {
    let thoughts = THOUGHTS.join("\n\n");
    let chunk = |delta: Value| json!({"choices": [{"index": 0, "delta": delta, "finish_reason": null}]});
    let mut reply = Reply::stream().event(&chunk(json!({"reasoning": thoughts}))).wait(gate);
    for (number, sentence) in SENTENCES.iter().enumerate() {
        reply = reply.event(&chunk(json!({"content": sentence})));
        if number == 1 {
            reply = reply.wait(gate);
        }
    }
    let end = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]});
    reply.event(&end).done()
}

pub(crate) async fn exchange_with_msgpack_and_one_peer_connection() {
    exchange("@msgpack/msgpack", true).await;
}

pub(crate) async fn exchange_with_msgpack_and_two_peer_connections() {
    exchange("@msgpack/msgpack", false).await;
}

pub(crate) async fn exchange_with_msgpackr_and_one_peer_connection() {
    exchange("msgpackr", true).await;
}

pub(crate) async fn exchange_with_msgpackr_and_two_peer_connections() {
    exchange("msgpackr", false).await;
}

async fn exchange(codec: &str, single_peer_connection: bool) {
    let gate = Gate::new();
    let mut scene = Scene::begin(thoughtful(&gate)).await;
    let agent = scene.join_with(codec, single_peer_connection).await;
    let listening = json!({"identity": AGENT, "kind": "AGENT", "isAgent": true, "state": "listening"});
    assert_eq!(agent, listening);
    let body = json!({"id": "q-1", "conversationId": scene.room, "content": QUESTION});
    let sent = scene.send(json!({"type": 2, "body": body, "absent": ["previousId", "attachments"]})).await;
    let acknowledged = scene.body(ACKNOWLEDGEMENT).await;
    assert_eq!(acknowledged["acknowledgedStanzaId"], sent["stanza"]);
    assert_eq!(acknowledged["success"], true);
    assert_eq!(scene.question().await, QUESTION);
    assert_eq!(scene.state().await, "thinking");

    gate.pass(1);
    let mut numbers = Vec::new();
    for (index, thought) in THOUGHTS.iter().enumerate() {
        let mut step = scene.envelope(REASONING_STEP).await["envelope"].take();
        numbers.push(step["stanzaId"].as_i64());
        let body = step["body"].take();
        assert_eq!([&body["content"], &body["previousId"]], [thought, "q-1"]);
        assert_eq!(body["stepIndex"], index + 1);
    }
    let start = scene.body(START_ANSWER).await;
    assert_eq!(start["previousId"], "q-1");
    assert_eq!(scene.state().await, "speaking");

    gate.pass(1);
    let sentences = scene.sentences().await;
    assert_eq!(texts(&sentences), SENTENCES.concat());
    for (index, sentence) in sentences.iter().enumerate() {
        assert_eq!(sentence["previousId"], start["id"]);
        assert_eq!(sentence["sequence"], index + 1);
    }
    assert_eq!(scene.state().await, "listening");
    assert!(numbers.is_sorted_by(|first, next| first > next), "{numbers:?}");
    let connections = if single_peer_connection { 1 } else { 2 };
    assert_eq!(scene.browser.call("protocols", json!({})).await, json!(vec!["udp"; connections]));
    scene.browser.call("leave", json!({})).await;
}

pub(crate) async fn a_stop_ends_the_answer() {
    let gate = Gate::new();
    let mut scene = Scene::begin(thoughtful(&gate)).await;
    scene.join_with("msgpackr", true).await;
    scene.send(json!({"type": 2, "body": {"id": "q-1", "content": QUESTION}})).await;
    gate.pass(1);
    let first = scene.body(ASSISTANT_SENTENCE).await;
    assert_eq!(first["text"], SENTENCES[0]);

    let stop = json!({"type": 10, "body": {"stopType": "all"}, "absent": ["targetId", "reason"]});
    let stop = scene.send(stop).await["stanza"].take();
    let acknowledged = scene
        .browser
        .event("envelope", |arrived| arrived["envelope"]["body"]["acknowledgedStanzaId"] == stop)
        .await;
    assert_eq!(acknowledged["envelope"]["body"]["success"], true);
    let rest = texts(&scene.sentences().await);
    let said = format!("{}{rest}", SENTENCES[0]);
    assert!(SENTENCES.concat().starts_with(&said), "{said}");
    assert!(!said.contains(SENTENCES[2]), "{said}");
    let asked = scene.model.log().requests.iter().position(is_asked).expect("it was asked");
    assert_eq!(scene.model.end(asked).await, End::ClosedByClient);
    // A state may be passed over when the next one follows at once; the last is always shown.
    scene.browser.event("participant", |participant| participant["state"] == "listening").await;
}

/// Larger than a packet, both ways: whole answers for a client that does not want them by sentence.
pub(crate) async fn large_envelopes_go_as_streams() {
    let answer = "Eine lange Antwort, Wort für Wort. ".repeat(1_200).trim_end().to_owned();
    let reply = Reply::answer(Style::Vllm, &Answer::default().text(&answer));
    let mut scene = Scene::begin(reply).await;
    scene.join_with("@msgpack/msgpack", true).await;
    scene.send(json!({"type": 12, "body": {"features": ["reasoning_steps"]}})).await;
    for way in ["bytes", "pieces"] {
        let question = format!("{QUESTION} {}", format!("Frage über {way}. ").repeat(2_000));
        let body = json!({"id": format!("q-{way}"), "content": question});
        let sent = scene.send(json!({"type": 2, "body": body, "as": way})).await;
        assert!(sent["length"].as_u64() > Some(30_000), "{sent}");
        let whole = scene.envelope(3).await;
        assert_eq!(whole["via"], "stream");
        assert!(whole["length"].as_u64() > Some(40_000), "{}", whole["length"]);
        assert_eq!(whole["envelope"]["body"]["previousId"], format!("q-{way}"));
        assert_eq!(whole["envelope"]["body"]["content"], answer);
        let heard = scene.model.log().requests.iter().any(|request| asked(request) == question);
        assert!(heard, "the question arrived changed");
    }
}

/// What LiveKit's own front ends show of the agent, without a line of ours.
pub(crate) async fn livekits_hooks_see_states_and_text() {
    let gate = Gate::new();
    let mut scene = Scene::begin(thoughtful(&gate)).await;
    scene.browser.open("hooks").await;
    let access = scene.access();
    scene.browser.call("join", access).await;
    state_in_hooks(&mut scene.browser, "listening").await;
    scene.browser.event("microphone", |told| told["value"] == true).await;
    scene.browser.call("say", json!({"text": QUESTION})).await;
    state_in_hooks(&mut scene.browser, "thinking").await;
    assert_eq!(scene.question().await, QUESTION);
    gate.pass(1);
    state_in_hooks(&mut scene.browser, "speaking").await;
    // The text grows while the model still writes.
    let begun = SENTENCES[..2].concat();
    scene.browser.event("useTranscriptions", |told| told["value"][0]["text"] == begun).await;
    gate.pass(1);
    state_in_hooks(&mut scene.browser, "listening").await;

    let answer = SENTENCES.concat();
    let shown = scene.browser.event("useTranscriptions", |told| told["value"][0]["text"] == answer).await;
    assert_eq!(shown["value"].as_array().map(Vec::len), Some(1), "{shown}");
    assert_eq!(shown["value"][0]["from"], AGENT);
    let messages = json!([
        {"type": "chatMessage", "message": QUESTION, "from": "anna"},
        {"type": "agentTranscript", "message": answer, "from": AGENT},
    ]);
    scene.browser.event("useSessionMessages", |told| told["value"] == messages).await;

    gate.open();
    scene.browser.call("say", json!({"text": QUESTION})).await;
    let both = |told: &Value| told["value"][1]["text"] == answer;
    let shown = scene.browser.event("useTranscriptions", both).await;
    assert_eq!(shown["value"][0]["text"], answer);
    assert_eq!(shown["value"][0]["attributes"]["lk.transcription_final"], "true");

    let told = scene.browser.call("everything", json!({})).await.to_string();
    assert!(told.contains(SENTENCES[0]) && THOUGHTS.iter().all(|thought| !told.contains(thought)), "{told}");
}

/// Both hooks come to say this. The identity may follow a moment after the state: they render one after the other.
async fn state_in_hooks(browser: &mut Browser, state: &str) {
    let agent = json!({"state": state, "identity": AGENT, "name": "Sotto", "isConnected": true});
    browser.event("useAgent", |told| told["value"] == agent).await;
    let assistant = json!({"state": state, "agent": AGENT});
    browser.event("useVoiceAssistant", |told| told["value"] == assistant).await;
}

/// The examples, as they are.
pub(crate) async fn the_javascript_example_works() {
    let mut scene = Scene::begin(example_reply()).await;
    let token = token(&scene.server, &scene.room).await;
    let query = json!({"url": scene.server.url(), "token": token, "question": QUESTION});
    scene.browser.show("examples/javascript/ask.html", query).await;
    let shown = scene.browser.call("text", json!({"until": SENTENCES[3]})).await;
    assert_eq!(shown, example_output());
    assert_eq!(scene.question().await, QUESTION);
}

pub(crate) async fn the_python_example_works() {
    let (server, room, model) = (Server::shared().await, new_room(), Endpoint::start().await);
    model.reply_by(|request| if is_asked(request) { example_reply() } else { Reply::text("Yes.") });
    let _agent = Agent::join(SOTTO, &server, &room, &[("SOTTO_MODEL_URL", &model.url())]).await;
    let token = token(&server, &room).await;
    let variables = [("LIVEKIT_URL", server.url()), ("LIVEKIT_TOKEN", token)];
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/python/ask.py");
    let ended = peer::run(&script, &variables, &[QUESTION]).await;
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert_eq!(said(&ended.stdout), example_output() + "\n", "{}", said(&ended.stderr));
    assert!(ended.status.success(), "{:?}: {}", ended.status, said(&ended.stderr));
}

fn example_reply() -> Reply {
    let thinking = Answer::default().reasoning(&THOUGHTS.join("\n\n"));
    Reply::answer(Style::LlamaCpp, &SENTENCES.iter().fold(thinking, |answer, sentence| answer.text(sentence)))
}

fn example_output() -> String {
    format!("(1) {}\n(2) {}\n{}", THOUGHTS[0], THOUGHTS[1], SENTENCES.concat())
}

/// A token as the examples say one comes by it.
async fn token(server: &Server, room: &str) -> String {
    let printed = agent::run(SOTTO, server, &[], &["token", room, "anna"]).await;
    String::from_utf8_lossy(&printed.stdout).trim().to_owned()
}
