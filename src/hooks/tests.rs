//! Hooks against a small real server; what is sent, and what may be said.

use super::*;
use axum::Router;
use axum::body::Bytes;
use axum::routing::post;
use serde_json::json;
use sotto_core::model::ToolCall;
use std::sync::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

const SECRET: &str = "of-all-the-hooks";

/// Header fields and body of each request, as they arrived.
type Seen = Arc<Mutex<Vec<(HeaderMap, String)>>>;

struct Service {
    url: String,
    seen: Seen,
    serving: JoinHandle<()>,
}

impl Drop for Service {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn service(status: u16, answer: &str) -> Service {
    let (seen, answer) = (Seen::default(), answer.to_owned());
    let noted = Arc::clone(&seen);
    let handler = async move |headers: HeaderMap, body: Bytes| {
        let request = (headers, String::from_utf8_lossy(&body).into_owned());
        noted.lock().expect("nobody panics while holding it").push(request);
        (axum::http::StatusCode::from_u16(status).expect("a status"), answer)
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}/hook?token=t0ken", listener.local_addr().expect("an address"));
    let router = Router::new().route("/hook", post(handler));
    let serving = tokio::spawn(async move { axum::serve(listener, router).await.expect("it serves") });
    Service { url, seen, serving }
}

fn hooks(hook: Hook, url: &str, allowed: &[&str]) -> HttpHooks {
    let allowed = allowed.iter().map(|host| (*host).to_owned());
    let targets = Targets::new(allowed, crate::tls::client_config()).listed_in("hooks.allow_hosts");
    let headers = [(reqwest::header::AUTHORIZATION, "Bearer abc".parse().expect("a value"))];
    let url = Url::parse(url).expect("a URL");
    let definition =
        Definition { hook, url, secret: SECRET.as_bytes().to_vec(), headers: headers.into_iter().collect() };
    HttpHooks::new(vec![definition], &targets).expect("it can be used")
}

fn question(matter: Matter) -> Question {
    let text = |text: &str| text.to_owned();
    Question { message: text("m1"), answer: text("am_1"), asker: text("anna"), number: 2, matter }
}

fn sentence() -> Matter {
    Matter::Sentence("Call 12345.".to_owned())
}

async fn answered(hook: Hook, status: u16, answer: &str) -> Result<Ruling, Trouble> {
    let service = service(status, answer).await;
    let hooks = hooks(hook, &service.url, &["127.0.0.1"]);
    hooks.check(hook, Duration::from_secs(20)).await
}

/// The vector is Python's: `hmac.new(secret, b"1700000000." + body, "sha256").hexdigest()`.
#[test]
fn the_signature_is_the_one_that_everybody_else_makes() {
    let key = signature::key(SECRET.as_bytes());
    let signed = signature::sign(&key, 1_700_000_000, br#"{"id":"hk_1"}"#);
    let hex = "963d75c70b54af4cb816bc43e509a336ae01ee128bf452a00ef2e3f5d9fa92bf";
    assert_eq!(signed, format!("t=1700000000,v1={hex}"));
}

#[tokio::test]
async fn a_question_is_signed_and_says_who_asks_what() {
    let service = service(200, r#"{"action": "block"}"#).await;
    let hooks = hooks(Hook::BeforeSay, &service.url, &["127.0.0.1"]);
    let ruling = hooks.ask("room", question(sentence())).await;
    assert_eq!(ruling, Some(Ruling::Refuse(None)));
    let seen = service.seen.lock().expect("nobody panics while holding it");
    let [(headers, body)] = &seen[..] else { panic!("asked once") };
    let written: Value = serde_json::from_str(body).expect("JSON");
    let id = written["id"].as_str().expect("an id");
    let expected = json!({
        "id": id, "hook": "before_say", "conversation": "room", "message": "m1", "answer": "am_1", "asker": "anna",
        "number": 2, "text": "Call 12345.",
    });
    assert_eq!(written, expected);
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    assert_eq!((header("sotto-request-id"), header("authorization")), (id, "Bearer abc"));
    assert_eq!(header("content-type"), "application/json");
    let (seconds, _) = header("sotto-signature")
        .strip_prefix("t=")
        .and_then(|rest| rest.split_once(','))
        .expect("time and signature");
    let seconds = seconds.parse().expect("a number");
    let key = signature::key(SECRET.as_bytes());
    assert_eq!(header("sotto-signature"), signature::sign(&key, seconds, body.as_bytes()));
}

#[test]
fn the_same_question_has_the_same_id_and_another_has_another() {
    let id = |conversation: &str, question: &Question| question::body(conversation, question)["id"].clone();
    let asked = question(sentence());
    // After a restart the answer has another id.
    let again = Question { answer: "am_2".to_owned(), ..asked.clone() };
    assert_eq!(id("room", &asked), id("room", &again));
    let others = [
        Question { number: 3, ..asked.clone() },
        Question { message: "m2".to_owned(), ..asked.clone() },
        question(Matter::Sentence("Another.".to_owned())),
    ];
    for other in others {
        assert_ne!(id("room", &asked), id("room", &other));
    }
    assert_ne!(id("room", &asked), id("another", &asked));
}

#[test]
fn prompts_and_calls_are_asked_about_as_the_model_knows_them() {
    let prompt = Prompt {
        messages: vec![Message::System("Be kind.".to_owned()), Message::User("Hello?".to_owned())],
        tools: Vec::new(),
        thinking: true,
    };
    let body = question::body("room", &question(Matter::Prompt(prompt)));
    let messages = json!([{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hello?"}]);
    assert_eq!((&body["messages"], &body["tools"], &body["thinking"]), (&messages, &json!([]), &json!(true)));
    let parameters = json!({"to": "bob"}).as_object().cloned().expect("an object");
    let body = question::body("room", &question(Matter::Call { tool: "mail".to_owned(), parameters }));
    assert_eq!((&body["tool"], &body["parameters"]), (&json!("mail"), &json!({"to": "bob"})));
}

#[tokio::test]
async fn whatever_is_allowed_to_be_said_is_understood() {
    let parameters = json!({"to": "bob"}).as_object().cloned().expect("an object");
    let user = || Message::User("Hi".to_owned());
    let called = Message::Assistant {
        text: String::new(),
        reasoning: None,
        calls: vec![ToolCall {
            id: "c1".to_owned(),
            name: "clock".to_owned(),
            arguments: Ok(serde_json::Map::new()),
        }],
    };
    let result = Message::Tool { call: "c1".to_owned(), content: "noon".to_owned() };
    let cases = [
        (Hook::BeforeModel, r#"{"action":"allow"}"#, Ruling::Allow),
        (
            Hook::BeforeModel,
            r#"{"action":"add","messages":[{"role":"system","content":"S"},{"role":"user","content":"Hi"}]}"#,
            Ruling::Add(vec![Message::System("S".to_owned()), user()]),
        ),
        (
            Hook::BeforeModel,
            r#"{"action":"replace","messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":null,"tool_calls":
               [{"id":"c1","type":"function","function":{"name":"clock","arguments":"{}"}}]},
               {"role":"tool","tool_call_id":"c1","content":"noon"}]}"#,
            Ruling::Messages(vec![user(), called, result]),
        ),
        (Hook::BeforeTool, r#"{"action":"allow"}"#, Ruling::Allow),
        (
            Hook::BeforeTool,
            r#"{"action":"change","parameters":{"to":"bob"}}"#,
            Ruling::Parameters(parameters),
        ),
        (Hook::BeforeTool, r#"{"action":"deny"}"#, Ruling::Refuse(None)),
        (Hook::BeforeTool, r#"{"action":"deny","reason":"no"}"#, Ruling::Refuse(Some("no".to_owned()))),
        (Hook::BeforeSay, r#"{"action":"allow"}"#, Ruling::Allow),
        (Hook::BeforeSay, r#"{"action":"replace","text":"[hidden]"}"#, Ruling::Text("[hidden]".to_owned())),
        (Hook::BeforeSay, r#"{"action":"block"}"#, Ruling::Refuse(None)),
    ];
    for (hook, answer, ruling) in cases {
        assert_eq!(answered(hook, 200, answer).await.expect(answer), ruling, "{answer}");
    }
}

#[tokio::test]
async fn whatever_else_is_said_makes_no_sense_and_is_not_repeated() {
    let cases = [
        (Hook::BeforeSay, ""),
        (Hook::BeforeSay, "canary"),
        (Hook::BeforeSay, r#"["canary"]"#),
        (Hook::BeforeSay, r#"{"action":"canary"}"#),
        (Hook::BeforeSay, r#"{"action":"allow","text":"canary"}"#),
        (Hook::BeforeSay, r#"{"action":"replace","text":7,"canary":1}"#),
        (Hook::BeforeSay, r#"{"action":"replace"}"#),
        (Hook::BeforeSay, r#"{"action":"allow"} canary"#),
        (Hook::BeforeSay, r#"{"action":"deny"}"#),
        (Hook::BeforeTool, r#"{"action":"change","parameters":["canary"]}"#),
        (Hook::BeforeTool, r#"{"action":"change"}"#),
        (Hook::BeforeModel, r#"{"action":"add","messages":"canary"}"#),
        (Hook::BeforeModel, r#"{"action":"add","messages":[{"role":"canary","content":"x"}]}"#),
        (Hook::BeforeModel, r#"{"action":"add","messages":[{"role":"user","content":"x","name":"canary"}]}"#),
        (
            Hook::BeforeModel,
            r#"{"action":"add","messages":[{"role":"tool","tool_call_id":"canary","content":"x"}]}"#,
        ),
        (Hook::BeforeModel, r#"{"action":"replace","messages":[]}"#),
        (
            Hook::BeforeModel,
            r#"{"action":"replace","messages":[{"role":"user","content":"canary"},{"role":"system","content":"S"}]}"#,
        ),
    ];
    for (hook, answer) in cases {
        match answered(hook, 200, answer).await {
            Err(trouble @ Trouble::Malformed(_)) => {
                let told = trouble.to_string();
                assert!(
                    told.starts_with("its answer makes no sense: ") && !told.contains("canary"),
                    "{told}"
                );
            }
            other => panic!("{answer}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn a_hook_that_fails_is_away_and_nothing_secret_is_told_of_it() {
    for (status, told) in [(500, "it answered 500 Internal Server Error"), (404, "it answered 404 Not Found")]
    {
        let trouble =
            answered(Hook::BeforeSay, status, r#"{"action":"allow"}"#).await.expect_err("it failed");
        assert_eq!(trouble.to_string(), told);
    }
    let long = format!(r#"{{"action":"replace","text":"{}"}}"#, "x".repeat(MOST_OTHER_BYTES));
    assert!(matches!(answered(Hook::BeforeSay, 200, &long).await, Err(Trouble::TooLong(MOST_OTHER_BYTES))));
    // Nobody listens.
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}/hook?token=t0ken", listener.local_addr().expect("an address"));
    drop(listener);
    let away = hooks(Hook::BeforeSay, &url, &["127.0.0.1"]);
    let trouble = away.check(Hook::BeforeSay, Duration::from_secs(20)).await.expect_err("nobody is there");
    let told = trouble.to_string();
    assert!(told.starts_with("the service cannot be reached: ") && !told.contains("t0ken"), "{told}");
    assert_eq!(away.ask("room", question(sentence())).await, None);
    assert_eq!(
        away.ask(
            "room",
            question(Matter::Prompt(Prompt { messages: Vec::new(), tools: Vec::new(), thinking: false }))
        )
        .await,
        None
    );
}

/// As a server does that closes an idle connection while the question is on its way.
#[tokio::test]
async fn a_connection_that_breaks_before_an_answer_is_tried_once_more() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}/hook", listener.local_addr().expect("an address"));
    let serving = tokio::spawn(async move {
        let (mut first, _) = listener.accept().await.expect("a connection");
        first.read_u8().await.expect("the question comes");
        drop(first);
        let (mut second, _) = listener.accept().await.expect("another connection");
        second.read_u8().await.expect("the question comes again");
        let answer = "HTTP/1.1 200 OK\r\ncontent-length: 18\r\n\r\n{\"action\":\"allow\"}";
        second.write_all(answer.as_bytes()).await.expect("it is taken");
        // Until the other side has read it.
        let _ = second.read_to_end(&mut Vec::new()).await;
    });
    let hooks = hooks(Hook::BeforeSay, &url, &["127.0.0.1"]);
    assert_eq!(hooks.ask("room", question(sentence())).await, Some(Ruling::Allow));
    drop(hooks);
    serving.await.expect("no panic there");
}

#[tokio::test]
async fn a_hook_that_says_nothing_is_late() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}/hook", listener.local_addr().expect("an address"));
    let silent = hooks(Hook::BeforeSay, &url, &["127.0.0.1"]);
    let trouble = silent.check(Hook::BeforeSay, Duration::from_millis(50)).await.expect_err("it is late");
    assert_eq!(trouble.to_string(), "it did not answer within 0.05 s");
}

#[test]
fn a_hook_on_a_private_address_must_be_listed() {
    let targets = Targets::new([], crate::tls::client_config()).listed_in("hooks.allow_hosts");
    let url = Url::parse("http://127.0.0.1:9/").expect("a URL");
    let definition = Definition {
        hook: Hook::BeforeTool,
        url,
        secret: SECRET.as_bytes().to_vec(),
        headers: HeaderMap::new(),
    };
    let refused = HttpHooks::new(vec![definition], &targets).err().expect("it is refused").to_string();
    assert!(
        refused.starts_with(
            "hooks.before_tool cannot be used: 127.0.0.1 is at 127.0.0.1, which is no public address"
        ) && refused.ends_with("list \"127.0.0.1\" in hooks.allow_hosts"),
        "{refused}"
    );
}
