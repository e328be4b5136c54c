//! Calls that are cancelled, servers that die, lists that change, and what is approved of them.

use super::{Scene, failed, offered, program, remote, run, said, says, settings, silent, toolbox, within};
use futures_util::{FutureExt, StreamExt};
use serde_json::{Map, Value, json};
use sotto::ports::Tools;
use sotto::tools::mcp::Settings;
use sotto::tools::{Approval, RoomTools};
use sotto_core::engine::event::ToolOutcome;
use sotto_harness::{PATIENCE, mcp};
use std::time::Duration;
use tokio::time::sleep;

/// Asks again until it is so: what the server counts can only be asked for.
async fn until(tools: &RoomTools, tool: &str, expected: &str) {
    within(async {
        while says(tools, tool).await != expected {
            sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}

pub(crate) async fn a_call_that_nobody_waits_for_is_cancelled_at_the_server() {
    let scene = Scene::of(&mcp::trials());
    let tools = scene.open().await;
    let call = tokio::spawn(tools.run("server__hang", Map::default(), PATIENCE, silent()));
    until(&tools, "hung", "1 began, 0 cancelled").await;
    call.abort();
    until(&tools, "hung", "1 began, 1 cancelled").await;
}

pub(crate) async fn a_server_that_dies_fails_its_calls_and_is_started_again() {
    let scene = Scene::of(&mcp::trials());
    let tools = scene.open().await;
    let before = says(&tools, "process").await;
    let hanging = tokio::spawn(tools.run("server__hang", Map::default(), PATIENCE, silent()));
    until(&tools, "hung", "1 began, 0 cancelled").await;
    let ended = failed(run(&tools, "end", json!({})).await);
    assert!(ended.contains("ended while it ran"), "{ended}");
    let hanging = within(hanging).await.expect("no panic");
    assert!(failed(hanging).contains("ended while it ran"));
    assert!(!offered(&tools).is_empty(), "its tools stay offered");
    // Only a call in the very moment of its end may still fail; others wait for the next process.
    let after = within(async {
        loop {
            if let ToolOutcome::Done(process) = run(&tools, "process", json!({})).await {
                break said(ToolOutcome::Done(process));
            }
        }
    })
    .await;
    assert_ne!(before, after);
}

pub(crate) async fn a_server_that_is_killed_from_outside_is_started_again() {
    // An argument that the server does not mind tells it from those of other tests.
    let marked: Vec<_> = mcp::everything().into_iter().chain(["to-be-killed".to_owned()]).collect();
    let scene = Scene::of(&marked);
    let tools = scene.open().await;
    let long = tools.run(
        "server__trigger-long-running-operation",
        json!({"duration": 1_000, "steps": 1_000}).as_object().expect("an object").clone(),
        PATIENCE,
        silent(),
    );
    let long = tokio::spawn(long);
    // It answers in order of arrival, so the call above has begun when this one is answered.
    says_hello(&tools).await;
    for process in children_of_this_process("to-be-killed") {
        let killed = std::process::Command::new("kill").args(["-KILL", &process.to_string()]).status();
        assert!(killed.expect("kill is there").success());
    }
    assert!(failed(within(long).await.expect("no panic")).contains("ended while it ran"));
    let hello = || run(&tools, "echo", json!({"message": "hello"}));
    within(async { while !matches!(hello().await, ToolOutcome::Done(_)) {} }).await;
}

async fn says_hello(tools: &RoomTools) {
    assert_eq!(said(run(tools, "echo", json!({"message": "hello"})).await), "Echo: hello");
}

/// Our own children whose command line has this in it.
fn children_of_this_process(what: &str) -> Vec<u32> {
    let ours = std::process::id().to_string();
    let processes = std::fs::read_dir("/proc").expect("it is there").flatten();
    let found = processes.filter_map(|entry| {
        let id: u32 = entry.file_name().to_str()?.parse().ok()?;
        let command = std::fs::read_to_string(entry.path().join("cmdline")).ok()?;
        let status = std::fs::read_to_string(entry.path().join("status")).ok()?;
        let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim();
        (parent == ours && command.contains(what)).then_some(id)
    });
    found.collect()
}

pub(crate) async fn a_server_elsewhere_that_was_restarted_is_found_again() {
    let server = mcp::Remote::start(mcp::Kind::Everything).await;
    let port = server.port();
    let scene = Scene::with(settings(remote(&server.url())));
    let tools = scene.open().await;
    says_hello(&tools).await;
    drop(server);
    let away = failed(run(&tools, "echo", json!({"message": "anyone?"})).await);
    assert!(away.starts_with("the server of this tool "), "{away}");
    assert!(!away.contains("localhost"), "no address: {away}");
    let _server = mcp::Remote::start_at(mcp::Kind::Everything, port).await;
    within(async {
        while !matches!(run(&tools, "echo", json!({"message": "hello"})).await, ToolOutcome::Done(_)) {
            sleep(Duration::from_millis(50)).await;
        }
    })
    .await;
}

pub(crate) async fn whatever_a_server_started_ends_with_it() {
    let scene = Scene::of(&mcp::trials());
    let tools = scene.open().await;
    let processes = [says(&tools, "process").await, says(&tools, "breed").await];
    let is_there = |process: &String| {
        let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
        // A zombie is an end that nobody has noticed yet.
        status.lines().any(|line| line.starts_with("State:") && !line.contains('Z'))
    };
    assert!(processes.iter().all(is_there), "both run");
    drop(tools);
    within(async {
        while processes.iter().any(is_there) {
            sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}

pub(crate) async fn a_list_that_changes_is_read_again_and_what_is_new_waits_for_approval() {
    let scene = Scene::of(&mcp::trials());
    let tools = scene.open().await;
    let server = &tools.servers()[0];
    assert!(offered(&tools).contains(&"server__add".to_owned()), "trusted at first sight");
    let mut changes = tools.changes();
    assert_eq!(changes.next().now_or_never(), None, "nothing has changed yet");
    assert_eq!(says(&tools, "grow").await, "grown");
    within(changes.next()).await.expect("a change");
    let grown =
        server.offers().iter().find(|offer| offer.original == "grown").cloned().expect("it is listed");
    assert_eq!(grown.approval, Approval::New);
    assert!(!offered(&tools).contains(&"server__grown".to_owned()));
    assert!(failed(run(&tools, "grown", json!({})).await).starts_with("there is no tool"));

    server.approve(Some(&["server__grown".to_owned()])).expect("it can be written");
    within(changes.next()).await.expect("a change");
    assert_eq!(says(&tools, "grown").await, "here");
}

pub(crate) async fn a_tool_is_offered_only_as_it_was_approved() {
    let careful = Settings { trust_first_use: false, ..settings(program(&mcp::trials(), &[])) };
    let scene = Scene::with(careful.clone());
    let tools = scene.open().await;
    assert_eq!(offered(&tools), Vec::<String>::new(), "nobody has approved anything");
    assert!(tools.all().iter().all(|listed| listed.approval == Approval::New));
    let mut changes = tools.changes();
    tools.servers()[0].approve(None).expect("it can be written");
    within(changes.next()).await.expect("a change");
    assert!(offered(&tools).contains(&"server__add".to_owned()));

    // As if the server had said something else when it was approved.
    let file = scene.directory.path().join("tools.lock");
    let text = std::fs::read_to_string(&file).expect("it is there");
    let mut lock: Value = serde_json::from_str(&text).expect("JSON");
    lock["servers"]["server"]["add"] = "sha256:0".into();
    std::fs::write(&file, lock.to_string()).expect("it can be written");
    let tools = scene.open().await;
    let names = offered(&tools);
    assert!(
        !names.contains(&"server__add".to_owned()) && names.contains(&"server__recall".to_owned()),
        "{names:?}"
    );
    let all = tools.all();
    let add = all.iter().find(|listed| listed.tool.spec.name == "server__add").expect("it is listed");
    assert_eq!(add.approval, Approval::Changed);

    let few = Settings { only: Some(vec!["recall".to_owned()]), ..careful };
    let few = toolbox(few, scene.directory.path());
    let tools = few.open();
    within(tools.servers()[0].settled()).await.expect("the server starts");
    assert_eq!(offered(&tools), ["server__recall"]);
}
