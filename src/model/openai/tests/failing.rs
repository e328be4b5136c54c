//! Retries, failover, time-outs, and the words for what went wrong.

use super::*;
use scripted::{Answer, End, Endpoint as Server, Reply, Style};
use serde_json::json;
use std::io;
use std::sync::Mutex;
use tracing::Dispatch;
use tracing::subscriber::{DefaultGuard, NoSubscriber};
use tracing_subscriber::fmt::MakeWriter;

fn error_event() -> serde_json::Value {
    json!({"error": {"message": "out of memory", "code": 500}})
}

fn text_event(text: &str) -> serde_json::Value {
    json!({"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": null}]})
}

#[tokio::test]
async fn what_may_pass_is_tried_again_before_the_first_token() {
    let faults = [
        ("429", Reply::status(429, "{}")),
        ("500", Reply::status(500, "{}")),
        ("502", Reply::status(502, "<html>")),
        ("503 while loading", Reply::status(503, r#"{"error":{"message":"Loading model","code":503}}"#)),
        ("504", Reply::status(504, "")),
        ("hangs up", Reply::hang_up()),
        ("breaks", Reply::stream().comment().close()),
        ("an error inside a 200", Reply::stream().event(&error_event()).done()),
        ("an error in place of a stream", Reply::status(200, &error_event().to_string())),
        ("an empty stream", Reply::stream()),
        ("garbage", Reply::stream().raw("\u{fffd}\0nonsense\n\n")),
    ];
    for (name, fault) in faults {
        let server = Server::start().await;
        server.reply(fault);
        server.reply(Reply::text("Hi"));
        assert_eq!(answer(&model(vec![known(&server)]), "Hello").await, (said("Hi"), None), "{name}");
        assert_eq!(requests(&server), 2, "{name}");
    }
}

#[tokio::test]
async fn what_will_not_pass_is_not_tried_again() {
    for status in [302, 400, 401, 403, 404, 413, 422] {
        let server = Server::start().await;
        server.reply_by(move |_| Reply::status(status, "{}"));
        let failure = failure(&model(vec![known(&server)])).await;
        assert!(!failure.recoverable, "{status}: {failure}");
        assert_eq!(requests(&server), 1, "{status}");
    }
}

#[tokio::test]
async fn retries_come_to_an_end() {
    let server = Server::start().await;
    server.reply_by(|_| Reply::status(503, "{}"));
    let failure = failure(&model(vec![known(&server)])).await;
    assert!(failure.recoverable && failure.message.contains("HTTP 503"), "{failure}");
    assert_eq!(requests(&server), 3);
}

#[test]
fn waits_double_up_to_a_limit_and_chance_shortens_them() {
    let first = Duration::from_millis(250);
    assert_eq!([0, 1, 2].map(|retries| back_off(first, retries)), [first, first * 2, first * 4]);
    assert_eq!(back_off(first, 1000), LONGEST_BACK_OFF);
    let waits: Vec<_> = (0..100).map(|_| jittered(first)).collect();
    assert!(waits.iter().all(|wait| (first / 2..=first).contains(wait)));
    assert!(waits.iter().any(|wait| *wait != waits[0]), "chance has no part in it");
}

#[tokio::test]
async fn limits_as_long_as_ever_are_taken_for_never() {
    let server = Server::start().await;
    server.reply(Reply::text("Hi"));
    let never = Duration::MAX;
    let limits =
        Limits { connect: never, first_token: never, between_chunks: never, total: never, ..limits() };
    assert_eq!(answer(&model_with(vec![known(&server)], limits), "Hello").await, (said("Hi"), None));
}

#[tokio::test]
async fn the_wait_that_an_endpoint_asks_for_is_kept() {
    // There is no time for it, so that keeping it shows without waiting.
    let server = Server::start().await;
    server.reply_by(|_| Reply::status(429, "{}").header("retry-after", "8"));
    let short = Limits { total: Duration::from_secs(5), ..limits() };
    let failure = failure(&model_with(vec![known(&server)], short)).await;
    assert!(failure.message.contains("model.total_timeout"), "{failure}");
    assert_eq!(requests(&server), 1);
}

#[tokio::test]
async fn who_asks_for_too_long_a_wait_is_not_asked_again() {
    let (busy, other) = (Server::start().await, Server::start().await);
    busy.reply_by(|_| Reply::status(429, "{}").header("retry-after", "60"));
    let failed = failure(&model(vec![known(&busy)])).await;
    assert!(failed.recoverable && failed.message.contains("try again in 60 s"), "{failed}");
    other.reply(Reply::text("Hi"));
    assert_eq!(answer(&model(vec![known(&busy), known(&other)]), "Hello").await, (said("Hi"), None));
    assert_eq!(requests(&busy), 2);
}

#[tokio::test]
async fn the_next_endpoint_is_asked_in_order_each_with_its_own_key() {
    let [first, second, third] = [Server::start().await, Server::start().await, Server::start().await];
    first.reply_by(|_| Reply::status(503, "{}"));
    second.reply_by(|_| Reply::status(401, "{}"));
    third.reply_by(|_| Reply::text("Hi"));
    let endpoints = vec![
        Endpoint { key: Key::new("main-key"), ..known(&first) },
        known(&second),
        Endpoint { key: Key::new("third-key"), ..known(&third) },
    ];
    assert_eq!(answer(&model(endpoints), "Hello").await, (said("Hi"), None));
    assert_eq!([requests(&first), requests(&second), requests(&third)], [3, 1, 1]);
    assert_eq!(first.request(0).await.header("authorization"), Some("Bearer main-key"));
    assert_eq!(second.request(0).await.header("authorization"), None);
    assert_eq!(third.request(0).await.header("authorization"), Some("Bearer third-key"));
}

#[tokio::test]
async fn an_endpoint_that_fails_again_and_again_is_asked_last() {
    let [main, fallback] = [Server::start().await, Server::start().await];
    main.reply_by(|_| Reply::status(503, "{}"));
    fallback.reply_by(|_| Reply::text("Hi"));
    let model = model(vec![known(&main), known(&fallback)]);
    for _ in 0..3 {
        assert_eq!(answer(&model, "Hello").await, (said("Hi"), None));
    }
    let tried = requests(&main);
    for _ in 0..5 {
        assert_eq!(answer(&model, "Hello").await, (said("Hi"), None));
    }
    assert_eq!(requests(&main), tried, "nobody waits for it any more");
    // But it is not given up: without the other it is asked, and once it answers it is the main one again.
    fallback.reply_by(|_| Reply::status(400, "{}"));
    main.reply_by(|_| Reply::text("back"));
    let asked = requests(&fallback);
    assert_eq!(answer(&model, "Hello").await, (said("back"), None));
    assert_eq!(requests(&fallback), asked + 1);
    assert_eq!(answer(&model, "Hello").await, (said("back"), None));
    assert_eq!(requests(&fallback), asked + 1);
}

#[tokio::test]
async fn what_was_wrong_with_the_question_does_not_speak_against_the_endpoint() {
    let [main, fallback] = [Server::start().await, Server::start().await];
    main.reply_by(|_| Reply::status(400, "{}"));
    fallback.reply_by(|_| Reply::text("Hi"));
    let model = model(vec![known(&main), known(&fallback)]);
    for _ in 0..5 {
        assert_eq!(answer(&model, "Hello").await, (said("Hi"), None));
    }
    assert_eq!(requests(&main), 5);
}

#[tokio::test]
async fn when_all_fail_each_is_told() {
    let [first, second] = [Server::start().await, Server::start().await];
    first.reply_by(|_| Reply::status(401, "{}"));
    second.reply_by(|_| Reply::status(503, "{}"));
    let failure = failure(&model(vec![known(&first), known(&second)])).await;
    let (main, fallback) = failure.message.split_once("; then ").expect("two are told");
    assert!(
        main.contains("the model endpoint refused") || main.contains("the model endpoint asks"),
        "{main}"
    );
    assert!(fallback.contains("the fallback endpoint is not ready"), "{fallback}");
    assert!(failure.recoverable, "one of them may come back");
}

#[tokio::test]
async fn after_the_first_token_a_failure_is_final() {
    let begun = || Reply::stream().event(&text_event("Well"));
    let faults = [
        ("breaks", begun().close(), "broke"),
        ("an error", begun().event(&error_event()).done(), "out of memory"),
        ("an end without a finish", begun(), "before it was finished"),
        ("a stall", begun().stall(), "model.chunk_timeout"),
        ("only comments", begun().comments_for_ever(Duration::from_millis(5)), "model.chunk_timeout"),
    ];
    for (name, fault, words) in faults {
        let (server, other) = (Server::start().await, Server::start().await);
        // Apart from the first event, so that it is heard before the fault.
        let gate = scripted::Gate::new();
        server.reply(fault.gated(&gate));
        let short = Limits { between_chunks: Duration::from_millis(100), ..limits() };
        let mut stream = model_with(vec![known(&server), known(&other)], short).answer(prompt("Hello"));
        gate.pass(1);
        assert_eq!(stream.next().await, Some(Ok(Chunk::Text("Well".to_owned()))), "{name}");
        gate.open();
        let (chunks, failure) = collect(stream).await;
        assert_eq!(chunks, [], "{name}");
        let failure = failure.expect("it failed");
        assert!(failure.recoverable && failure.message.contains(words), "{name}: {failure}");
        assert_eq!((requests(&server), requests(&other)), (1, 0), "{name}");
    }
}

#[tokio::test]
async fn silence_is_left_for_the_next_endpoint_and_comments_are_silence() {
    let silences = [
        ("no reply", Reply::silence()),
        ("no event", Reply::stream().stall()),
        ("only comments", Reply::stream().comments_for_ever(Duration::from_millis(5))),
        (
            "only a role",
            Reply::stream().event(&json!({"choices": [{"delta": {"role": "assistant"}}]})).stall(),
        ),
    ];
    for (name, silence) in silences {
        let (server, other) = (Server::start().await, Server::start().await);
        server.reply(silence);
        let short = Limits { first_token: Duration::from_millis(300), ..limits() };
        // The second one's silence would be told too, so it refuses.
        other.reply(Reply::status(400, "{}"));
        let failure = failure(&model_with(vec![known(&server), known(&other)], short)).await;
        assert!(failure.message.contains("model.first_token_timeout"), "{name}: {failure}");
        assert_eq!((requests(&server), requests(&other)), (1, 1), "{name}");
        assert_eq!(server.end(0).await, End::ClosedByClient, "{name}");
    }
}

#[tokio::test]
async fn an_answer_without_end_is_ended() {
    let server = Server::start().await;
    let endless = (0..50_000).fold(Reply::stream(), |reply, _| reply.event(&text_event("on ")));
    server.reply(endless.paced(Duration::from_millis(5)));
    let short = Limits { total: Duration::from_millis(500), ..limits() };
    let (_, failure) = answer(&model_with(vec![known(&server)], short), "Hello").await;
    assert!(failure.expect("it is over").message.contains("model.total_timeout"));
    assert_eq!(server.end(0).await, End::ClosedByClient);
}

#[tokio::test]
async fn an_endpoint_that_does_not_run_is_told() {
    let server = Server::start().await;
    let url = server.url();
    drop(server);
    let failure = failure(&model(vec![at(&url)])).await;
    assert!(failure.recoverable, "{failure}");
    assert!(failure.message.contains("cannot be reached"), "{failure}");
    assert!(failure.message.contains("SOTTO_MODEL_URL"), "{failure}");
}

#[tokio::test]
async fn whoever_runs_the_agent_is_told_why_an_endpoint_cannot_be_reached() {
    let server = Server::start().await;
    let url = server.url();
    drop(server);
    let probes = model(vec![Endpoint { starts_inside: None, ..at(&url) }]).probe().await;
    let failure = probes[0].as_ref().expect_err("nobody is there");
    assert!(failure.message.contains("(os error "), "{failure}");
}

/// Where the endpoint is concerns the log alone: the words go to everyone in the room.
#[tokio::test]
async fn the_words_never_say_where_the_endpoint_is() {
    let server = Server::start().await;
    let (url, authority) = (server.url(), server.url().replace("http://", "").replace("/v1", ""));
    let told = format!("upstream {url}/chat failed, see {authority}, or https://inner:1/x");
    let refusals = (300..600)
        .map(|status| Reply::status(status, &json!({"error": {"message": told.clone()}}).to_string()));
    let faults = [
        Reply::hang_up(),
        Reply::stream().event(&json!({"error": {"message": told.clone()}})).done(),
        Reply::stream(),
        Reply::stream().stall(),
        Reply::status(200, "<html>").header("content-type", "text/html"),
    ];
    let limits = Limits { retries: 0, first_token: Duration::from_millis(300), ..limits() };
    let host = authority.split(':').next().expect("a host").to_owned();
    for (number, reply) in refusals.into_iter().chain(faults).enumerate() {
        server.reply_by(move |_| reply.clone());
        let key = Key::new("s3cret-key");
        let model = model_with(vec![Endpoint { key, ..known(&server) }], limits.clone());
        let failure = failure(&model).await;
        let leaks = [host.as_str(), "inner", "s3cret"].iter().any(|part| failure.message.contains(part));
        assert!(!leaks, "{number}: {failure}");
    }
    drop(server);
    let failure = failure(&model(vec![at(&url)])).await;
    assert!(!failure.message.contains(&host), "{failure}");
}

#[tokio::test]
async fn words_say_what_to_do() {
    let cases = [
        (Reply::status(401, "{}"), vec!["refused the key", "SOTTO_MODEL_KEY"]),
        (Reply::status(403, "{}"), vec!["refused the key", "SOTTO_MODEL_KEY"]),
        (
            Reply::status(404, r#"{"error":{"message":"no such model"}}"#),
            vec!["\"scripted\"", "SOTTO_MODEL_NAME", "/v1"],
        ),
        (
            Reply::status(400, r#"{"error":{"message":"context too long"}}"#),
            vec!["HTTP 400", "context too long"],
        ),
        (
            Reply::status(308, "").header("location", "http://elsewhere/v1"),
            vec!["has moved", "SOTTO_MODEL_URL"],
        ),
        (Reply::stream().header("content-type", "x").raw(""), vec!["before it was finished"]),
    ];
    for (reply, words) in cases {
        let server = Server::start().await;
        server.reply_by(move |_| reply.clone());
        let failure = failure(&model(vec![Endpoint { key: Key::new("s3cret-key"), ..known(&server) }])).await;
        for word in words {
            assert!(failure.message.contains(word), "{word}: {failure}");
        }
    }
    let server = Server::start().await;
    server.reply(Reply::status(401, "{}"));
    let failure = failure(&model(vec![known(&server)])).await;
    assert!(
        failure.message.contains("asks for a key") && failure.message.contains("SOTTO_MODEL_KEY"),
        "{failure}"
    );
}

#[tokio::test]
async fn the_endpoints_words_are_cut_and_never_hold_a_key_or_what_was_said() {
    let refusal = |message: &str| Reply::status(400, &json!({"error": {"message": message}}).to_string());
    let key = "s3cret-key";
    let tell = async |message: &str| {
        let server = Server::start().await;
        server.reply(refusal(message));
        failure(&model(vec![Endpoint { key: Key::new(key), ..known(&server) }])).await.message
    };
    let masked = tell(&format!("the key {key} is not\nfor this model")).await;
    assert!(masked.contains(": the key *** is not for this model;"), "{masked}");
    let cut = tell(&"x".repeat(10_000)).await;
    assert!(cut.contains(&"x".repeat(300)) && !cut.contains(&"x".repeat(301)), "{cut}");
    // The prompt is "Hello".
    let repeated = tell("bad input: 'Hello'").await;
    assert!(repeated.contains("HTTP 400") && !repeated.contains("Hello"), "{repeated}");

    let server = Server::start().await;
    server.reply(refusal("cannot parse ...ecret garden gate is open tonight..."));
    let stream =
        model(vec![known(&server)]).answer(prompt("The secret garden gate\nis open tonight, she said."));
    let told = collect(stream).await.1.expect("it failed").message;
    assert!(told.contains("HTTP 400") && !told.contains("garden"), "{told}");
}

#[tokio::test]
async fn an_address_is_logged_without_its_password() {
    let server = Server::start().await;
    server.reply(Reply::status(400, "{}"));
    let url = server.url().replace("http://", "http://me:s3cret@") + "?token=s3cret";
    let (written, _logging) = log_everything();
    failure(&model(vec![at(&url)])).await;
    let log = written.text();
    assert!(log.contains(&server.url()) && !log.contains("s3cret"), "{log}");
}

/// Collects what is logged on this thread.
#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl Written {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().expect("no writer panics")).into_owned()
    }
}

/// Collects what this thread logs, at every level, until the guards are dropped.
fn log_everything() -> (Written, (DefaultGuard, Dispatch)) {
    let written = Written::default();
    let subscriber =
        tracing_subscriber::fmt().with_writer(written.clone()).with_max_level(tracing::Level::TRACE).finish();
    let logging = tracing::subscriber::set_default(subscriber);
    // While there is only one subscriber, `tracing` takes the thread that first meets an event for the judge of whether
    // anybody wants it, and other tests meet the same events without wanting them.
    let second = Dispatch::new(NoSubscriber::default());
    (written, (logging, second))
}

impl io::Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no writer panics").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Written {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

#[tokio::test]
async fn the_log_tells_of_trouble_but_not_what_was_said_nor_the_key() {
    let (written, _logging) = log_everything();
    let server = Server::start().await;
    let echo = |status| Reply::status(status, r#"{"error":{"message":"canary-word and s3cret-key"}}"#);
    server.reply(echo(500));
    server.reply(Reply::stream().event(&json!({"error": {"message": "canary-word, s3cret-key"}})));
    server.reply(Reply::answer(Style::Vllm, &Answer::default().text("canary-word")).close());
    server.reply(echo(400));
    let model = model(vec![Endpoint { key: Key::new("s3cret-key"), ..known(&server) }]);
    answer(&model, "canary-word").await;
    answer(&model, "canary-word").await;
    let log = written.text();
    assert!(log.contains("HTTP 500") && log.contains("HTTP 400") && log.contains(&server.url()), "{log}");
    assert!(!log.contains("canary-word") && !log.contains("s3cret"), "{log}");
}
