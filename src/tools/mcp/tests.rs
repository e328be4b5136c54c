//! A server that never comes: how often it is tried; and one that never ends what it says. What servers do that are there, the
//! end-to-end tests show.

use super::*;
use crate::tools::targets::Targets;
use sotto_core::tool::{Effects, Execution, Rights};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

fn missing(directory: &std::path::Path) -> Server {
    server(nowhere(), directory)
}

fn nowhere() -> Reach {
    Reach::Program(Program {
        program: "/nonexistent/server".to_owned(),
        arguments: Vec::new(),
        environment: BTreeMap::new(),
        directory: None,
    })
}

fn server(reach: Reach, directory: &std::path::Path) -> Server {
    Server::start(Arc::new(settings(reach)), Arc::new(Lock::new(directory.join("tools.lock"))))
}

fn settings(reach: Reach) -> Settings {
    Settings {
        name: "missing".to_owned(),
        reach,
        only: None,
        trust_first_use: true,
        shared: false,
        terms: Terms {
            effects: Effects::ALL,
            confirm: false,
            rights: Rights::Everyone,
            timeout: None,
            max_result_bytes: 1_000,
            repeatable: false,
            execution: Execution::Server,
        },
        own_terms: BTreeMap::new(),
    }
}

#[test]
fn terms_of_a_tool_that_there_is_not_are_noticed() {
    let mut settings = settings(nowhere());
    let tools = ["read", "write"].map(|name| model::Tool::new(name, "", Map::new()));
    assert!(settings.missing_from(&tools).is_empty());
    for name in ["read", "wirte"] {
        settings.own_terms.insert(name.to_owned(), settings.terms.clone());
    }
    assert_eq!(settings.missing_from(&tools), ["wirte"]);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_cannot_be_started_is_tried_again_after_pauses_that_grow() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = missing(directory.path());
    let reason = server.settled().await.expect_err("there is no such program");
    assert!(reason.starts_with("/nonexistent/server cannot be started: "), "{reason}");
    let mut link = server.link.clone();
    link.mark_unchanged();
    let mut tried = vec![Instant::now()];
    for _ in 0..11 {
        link.changed().await.expect("it is kept");
        tried.push(Instant::now());
    }
    let pauses: Vec<_> =
        tried.windows(2).map(|pair| (pair[1] - pair[0]).as_secs_f64().round() as u64).collect();
    assert_eq!(pauses, [0, 1, 1, 2, 4, 8, 16, 32, 60, 60, 60], "0.25 s, doubled each time up to a minute");
}

#[tokio::test(start_paused = true)]
async fn nobody_tries_when_nobody_needs_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = missing(directory.path());
    let mut link = server.link.clone();
    drop(server);
    while link.changed().await.is_ok() {}
    assert!(!directory.path().join("tools.lock").exists(), "nothing was approved");
}

/// Answers every request with this head and then the same again and again, for as long as somebody reads it.
async fn endless(head: &'static str, again: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}/mcp", listener.local_addr().expect("an address"));
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let _ = stream.read(&mut [0; 4_096]).await;
                let _ = stream.write_all(format!("HTTP/1.1 {head}\r\n\r\n").as_bytes()).await;
                let more = again.repeat(1_000);
                while stream.write_all(more.as_bytes()).await.is_ok() {}
            });
        }
    });
    url
}

#[tokio::test]
async fn an_answer_without_an_end_is_not_read_to_it() {
    crate::tls::choose_provider();
    let longer = "a message of the server is longer than 8388608 bytes";
    for (head, again, told) in [
        ("200 OK\r\ncontent-type: application/json", "[\"and so on\", ", longer),
        // The SDK keeps to itself why a stream of events has ended.
        ("200 OK\r\ncontent-type: text/event-stream", "data: and so on\n", "connection closed"),
        ("500 Oh\r\ncontent-type: application/json", "{\"and\": ", longer),
    ] {
        let url = endless(head, again).await.parse().expect("a URL");
        let targets = Targets::new(["127.0.0.1".to_owned()], crate::tls::client_config());
        let remote =
            Remote::new(url, reqwest::header::HeaderMap::new(), &targets).expect("it may be reached");
        let directory = tempfile::tempdir().expect("a directory");
        let server = server(Reach::Http(remote), directory.path());
        let settled = timeout(START, server.settled()).await.expect("it is not waited for");
        let reason = settled.expect_err("it says nothing of use");
        assert!(reason.contains(told), "{head}: {reason}");
    }
}
