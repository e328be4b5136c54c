//! A server that never comes: how often it is tried. What servers do that are there, the end-to-end tests show.

use super::*;
use sotto_core::tool::{Effects, Execution, Rights};

fn missing(directory: &std::path::Path) -> Server {
    let settings = Settings {
        name: "missing".to_owned(),
        reach: Reach::Program(Program {
            program: "/nonexistent/server".to_owned(),
            arguments: Vec::new(),
            environment: std::collections::BTreeMap::new(),
            directory: None,
        }),
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
    };
    Server::start(Arc::new(settings), Arc::new(Lock::new(directory.join("tools.lock"))))
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
