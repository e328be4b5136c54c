//! Servers of others do what they say they do.

use super::{Scene, failed, offered, program, remote, run, run_with, said, says, settings, silent, within};
use serde_json::{Map, Value, json};
use sotto::ports::{Progress, Tools};
use sotto::tools::RoomTools;
use sotto::tools::mcp::Settings;
use sotto_core::engine::event::ToolOutcome;
use sotto_harness::{PATIENCE, mcp};
use std::sync::{Arc, Mutex};

pub(crate) async fn npms_server_of_everything_over_stdio() {
    let scene = Scene::with(settings(program(&mcp::everything(), &[("COLOUR", "blue")])));
    let tools = scene.open().await;
    everything(&tools).await;
    let environment = says(&tools, "get-env").await;
    assert!(environment.contains("COLOUR"), "{environment}");
    assert!(!environment.contains("PATH") && !environment.contains("HOME"), "nothing else: {environment}");
}

pub(crate) async fn npms_server_of_everything_over_http() {
    let server = mcp::Remote::start(mcp::Kind::Everything).await;
    let scene = Scene::with(settings(remote(&server.url())));
    let tools = scene.open().await;
    everything(&tools).await;
}

/// What it can, in all the ways that results come in.
async fn everything(tools: &RoomTools) {
    let names = offered(tools);
    assert!(names.contains(&"server__echo".to_owned()), "{names:?}");
    // It offers these only to clients that say they can be asked.
    let asking = names.iter().find(|name| name.contains("sampling") || name.contains("elicitation"));
    assert_eq!(asking, None, "what servers ask is refused");

    assert_eq!(said(run(tools, "echo", json!({"message": "hello"})).await), "Echo: hello");
    assert_eq!(said(run(tools, "get-sum", json!({"a": 2, "b": 3})).await), "The sum of 2 and 3 is 5.");
    let weather = run(tools, "get-structured-content", json!({"location": "New York"})).await;
    let ToolOutcome::Done(weather) = weather else { panic!("{weather:?}") };
    assert!(weather["temperature"].is_number(), "{weather}");
    let image = says(tools, "get-tiny-image").await;
    assert!(image.contains("[an image of type image/png, "), "{image}");
    let resource =
        said(run(tools, "get-resource-reference", json!({"resourceType": "Text", "resourceId": 1})).await);
    assert!(resource.contains("[demo://resource/"), "{resource}");
    let wrong = run(tools, "echo", json!({"massage": "hello"})).await;
    assert!(!matches!(wrong, ToolOutcome::Done(_)), "{wrong:?}");

    let told = Arc::new(Mutex::new(Vec::new()));
    let telling = Arc::clone(&told);
    let progress: Progress = Arc::new(move |how_far| telling.lock().expect("nobody panics").push(how_far));
    let long =
        run_with(tools, "trigger-long-running-operation", json!({"duration": 0.2, "steps": 4}), progress)
            .await;
    assert!(said(long).starts_with("Long running operation completed."));
    // The last one may come behind the result, when nobody waits for it any more.
    let told = told.lock().expect("nobody panics").clone();
    assert!(told.starts_with(&["1 of 4", "2 of 4", "3 of 4"].map(str::to_owned)), "{told:?}");

    let calls = (0..50).map(|number| async move {
        let message = format!("number {number}");
        assert_eq!(said(run(tools, "echo", json!({"message": message})).await), format!("Echo: {message}"));
    });
    futures_util::future::join_all(calls).await;
}

pub(crate) async fn npms_server_of_files() {
    let files = tempfile::tempdir().expect("a directory");
    std::fs::write(files.path().join("a.txt"), "what is in a").expect("a file");
    let scene = Scene::of(&mcp::filesystem(files.path()));
    let tools = scene.open().await;
    let path = |name: &str| files.path().join(name).to_string_lossy().into_owned();
    let read = run(&tools, "read_text_file", json!({"path": path("a.txt")})).await;
    assert!(format!("{read:?}").contains("what is in a"), "{read:?}");
    let written = run(&tools, "write_file", json!({"path": path("b.txt"), "content": "b"})).await;
    assert!(matches!(written, ToolOutcome::Done(_)), "{written:?}");
    assert_eq!(std::fs::read_to_string(files.path().join("b.txt")).expect("it is there"), "b");
    let outside = run(&tools, "read_text_file", json!({"path": "/etc/passwd"})).await;
    assert!(failed(outside).contains("Access denied"));
}

pub(crate) async fn pypis_server_of_time() {
    let scene = Scene::of(&mcp::time());
    let tools = scene.open().await;
    let converted = run(
        &tools,
        "convert_time",
        json!({"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}),
    )
    .await;
    assert!(said(converted).contains("T21:00:00+09:00"));
}

pub(crate) async fn names_and_results_are_made_fit() {
    let scene = Scene::of(&mcp::trials());
    let tools = scene.open().await;
    let names = offered(&tools);
    let weird = names.iter().find(|name| name.starts_with("server__weird_name_")).expect("it is there");
    let outcome = within(tools.run(weird, Map::default(), PATIENCE, silent())).await;
    assert_eq!(said(outcome), "weird");
    let flood = said(run(&tools, "flood", json!({"size": 1_000_000})).await);
    assert!(flood.len() < 4_400 && flood.contains("[Cut here"), "{}", flood.len());
    let failure = failed(run(&tools, "fail", json!({})).await);
    assert!(failure.contains("fail"), "{failure}");
}

pub(crate) async fn fifty_calls_at_once_are_answered_each_with_its_own() {
    let scene = Scene::of(&mcp::trials());
    let tools = scene.open().await;
    let calls = (0..50).map(|number| {
        let tools = &tools;
        async move { said(run(tools, "add", json!({"a": number, "b": 1_000})).await) }
    });
    let sums = futures_util::future::join_all(calls).await;
    assert_eq!(sums, (1_000..1_050).map(|sum: i32| sum.to_string()).collect::<Vec<_>>());
}

pub(crate) async fn conversations_share_nothing_unless_they_are_told_to() {
    let scene = Scene::of(&mcp::trials());
    let (one, other) = (scene.open().await, scene.open().await);
    said(run(&one, "remember", json!({"text": "canary"})).await);
    assert_eq!(
        (says(&one, "recall").await, says(&other, "recall").await),
        ("canary".to_owned(), String::new())
    );

    let scene = Scene::with(Settings { shared: true, ..settings(program(&mcp::trials(), &[])) });
    let (one, other) = (scene.open().await, scene.open().await);
    said(run(&one, "remember", json!({"text": "canary"})).await);
    assert_eq!(says(&other, "recall").await, "canary");
    assert_eq!(says(&one, "process").await, says(&other, "process").await);
}

pub(crate) async fn a_hundred_conversations_with_one_server_never_meet() {
    let server = mcp::Remote::start(mcp::Kind::Trials).await;
    let scene = Scene::with(settings(remote(&server.url())));
    let rooms = futures_util::future::join_all((0..100).map(|_| scene.open())).await;
    let each = async |what: &dyn Fn(usize) -> (&'static str, Value)| {
        let calls = rooms.iter().enumerate().map(|(room, tools)| {
            let (name, arguments) = what(room);
            async move { said(run(tools, name, arguments).await) }
        });
        futures_util::future::join_all(calls).await
    };
    each(&|room| ("remember", json!({"text": format!("canary {room}")}))).await;
    let recalled = each(&|_| ("recall", json!({}))).await;
    assert_eq!(recalled, (0..100).map(|room| format!("canary {room}")).collect::<Vec<_>>());
    let sums = each(&|room| ("add", json!({"a": room, "b": 1_000}))).await;
    assert_eq!(sums, (1_000..1_100).map(|sum: i32| sum.to_string()).collect::<Vec<_>>());
}
