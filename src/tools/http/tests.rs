//! HTTP tools against a small real server.

use super::*;
use axum::Router;
use axum::body::Bytes;
use axum::http::Uri;
use axum::routing::any;
use reqwest::header::HeaderValue;
use serde_json::json;
use sotto_core::tool::{Effects, Execution, Rights};
use std::future::pending;
use std::sync::{Arc, Mutex};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

const ENOUGH: Duration = Duration::from_secs(20);

/// One request as it arrived: method, path and query, the header `x-key`, body.
type Seen = Arc<Mutex<Vec<(String, String, String, String)>>>;

struct Service {
    port: u16,
    seen: Seen,
    serving: JoinHandle<()>,
}

impl Drop for Service {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// A service that answers each request with the same.
async fn service(status: u16, answer: impl Into<String>) -> Service {
    let (seen, answer) = (Seen::default(), answer.into());
    let noted = Arc::clone(&seen);
    let handler = async move |method: axum::http::Method, uri: Uri, headers: HeaderMap, body: Bytes| {
        let key = headers.get("x-key").map(|key| String::from_utf8_lossy(key.as_bytes()).into_owned());
        let request = (
            method.to_string(),
            uri.to_string(),
            key.unwrap_or_default(),
            String::from_utf8_lossy(&body).into_owned(),
        );
        noted.lock().expect("nobody panics while holding it").push(request);
        (axum::http::StatusCode::from_u16(status).expect("a status"), answer)
    };
    serve(Router::new().fallback(any(handler)), seen).await
}

async fn serve(router: Router, seen: Seen) -> Service {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let serving = tokio::spawn(async move { axum::serve(listener, router).await.expect("it serves") });
    Service { port, seen, serving }
}

fn definition(port: u16, method: Method) -> Definition {
    let mut key = HeaderValue::from_static("s3cret");
    key.set_sensitive(true);
    Definition {
        name: "weather".to_owned(),
        description: "Tells the weather.".to_owned(),
        url: Url::parse(&format!("http://localhost:{port}/weather?units=metric&token=t0ken")).expect("a URL"),
        method,
        headers: [(reqwest::header::HeaderName::from_static("x-key"), key)].into_iter().collect(),
        parameters: json!({"type": "object"}),
        terms: Terms {
            effects: Effects::ALL,
            confirm: false,
            rights: Rights::Everyone,
            timeout: None,
            max_result_bytes: 1_000,
            repeatable: false,
            execution: Execution::Server,
        },
    }
}

fn tools(definition: Definition) -> HttpTools {
    crate::tls::choose_provider();
    let targets = Targets::new(["localhost".to_owned()], crate::tls::client_config());
    HttpTools::new(vec![definition], &targets).expect("it may be used")
}

async fn run(port: u16, method: Method, arguments: Value) -> ToolOutcome {
    let Value::Object(arguments) = arguments else { panic!("arguments are an object") };
    tools(definition(port, method)).run("weather", arguments, ENOUGH, Arc::new(|_| {})).await
}

#[tokio::test]
async fn arguments_go_in_as_json_and_json_comes_out() {
    let service = service(200, r#"{"sky": "clear"}"#).await;
    let outcome = run(service.port, Method::POST, json!({"city": "Bonn", "days": 2})).await;
    assert_eq!(outcome, ToolOutcome::Done(json!({"sky": "clear"})));
    let seen = service.seen.lock().expect("nobody panics while holding it");
    let (method, place, key, body) = &seen[0];
    assert_eq!((method.as_str(), place.as_str()), ("POST", "/weather?units=metric&token=t0ken"));
    assert_eq!(key, "s3cret");
    assert_eq!(body, r#"{"city":"Bonn","days":2}"#);
}

#[tokio::test]
async fn what_is_fetched_has_its_arguments_in_the_query() {
    let service = service(200, "clear").await;
    let outcome =
        run(service.port, Method::GET, json!({"city": "Bad Ems & Co", "days": 2, "none": null, "list": [1]}))
            .await;
    assert_eq!(outcome, ToolOutcome::Done("clear".into()), "text stays text");
    let seen = service.seen.lock().expect("nobody panics while holding it");
    assert_eq!(seen[0].1, "/weather?units=metric&token=t0ken&city=Bad+Ems+%26+Co&days=2&list=%5B1%5D");
    assert_eq!(seen[0].3, "");
}

#[tokio::test]
async fn what_services_complain_of_is_told_to_the_model() {
    let unknown = service(422, r#"{"error": "no such city"}"#).await;
    let outcome = run(unknown.port, Method::POST, json!({})).await;
    let reason = "the service answered 422 Unprocessable Entity: {\"error\": \"no such city\"}".to_owned();
    assert_eq!(outcome, ToolOutcome::InvalidParameters(reason));
    let broken = service(500, "").await;
    let outcome = run(broken.port, Method::POST, json!({})).await;
    assert_eq!(outcome, ToolOutcome::Failed("the service answered 500 Internal Server Error".to_owned()));
}

#[tokio::test]
async fn a_long_answer_is_cut_and_not_even_read_to_its_end() {
    let service = service(200, "x".repeat(1 << 20)).await;
    let ToolOutcome::Done(Value::String(text)) = run(service.port, Method::POST, json!({})).await else {
        panic!("it is text")
    };
    assert!(text.len() <= 1_000, "{}", text.len());
    assert!(text.starts_with("xxx") && text.contains("[Cut here"), "{text}");
}

#[tokio::test]
async fn what_went_wrong_is_told_without_url_and_headers() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    drop(listener);
    let ToolOutcome::Failed(reason) = run(port, Method::POST, json!({})).await else {
        panic!("nobody is there")
    };
    assert!(reason.starts_with("the service cannot be reached: "), "{reason}");
    assert!(
        !reason.contains("t0ken") && !reason.contains("s3cret") && !reason.contains("weather"),
        "{reason}"
    );
}

#[tokio::test]
async fn a_private_host_that_is_not_listed_is_refused_when_it_is_resolved() {
    crate::tls::choose_provider();
    let targets = Targets::new([], crate::tls::client_config());
    let tools = HttpTools::new(vec![definition(1, Method::POST)], &targets).expect("a name may be anywhere");
    let outcome = tools.run("weather", Map::new(), ENOUGH, Arc::new(|_| {})).await;
    let ToolOutcome::Failed(reason) = outcome else { panic!("it is refused") };
    assert!(reason.starts_with("the service cannot be used: localhost is at "), "{reason}");
    assert!(reason.ends_with("list \"localhost\" in tools.allow_hosts"), "{reason}");
    let by_address = Definition {
        url: Url::parse("http://169.254.169.254/").expect("a URL"),
        ..definition(1, Method::POST)
    };
    assert!(HttpTools::new(vec![by_address], &targets).is_err(), "an address is refused at once");
}

#[tokio::test]
async fn dropping_a_run_closes_its_connection() {
    /// Tells when it is dropped.
    struct Dropped(mpsc::UnboundedSender<&'static str>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            let _ = self.0.send("gone");
        }
    }
    let (events, mut happened) = mpsc::unbounded_channel();
    let handler = move || {
        let events = events.clone();
        async move {
            let _ = events.send("came");
            let _dropped = Dropped(events);
            pending::<()>().await;
        }
    };
    let service = serve(Router::new().fallback(any(handler)), Seen::default()).await;
    let tools = tools(definition(service.port, Method::POST));
    let run = tokio::spawn(tools.run("weather", Map::new(), ENOUGH, Arc::new(|_| {})));
    assert_eq!(happened.recv().await, Some("came"));
    run.abort();
    assert_eq!(happened.recv().await, Some("gone"));
}
