//! How far a tool is, told to the room while it runs: npm's own server, which reports it.

use super::{calls, configured};
use crate::agent::{SOTTO, Scene, told};
use serde_json::json;
use sotto_core::wire::body::Body;
use sotto_harness::{agent, endpoint::Reply, mcp};
use tempfile::TempDir;

const TOOL: &str = "server__trigger-long-running-operation";

/// A room whose agent has npm's server, and a model that has it work for a while.
async fn scene() -> (Scene, TempDir) {
    let command: Vec<_> = mcp::everything().iter().map(|part| format!("{part:?}")).collect();
    let config = format!(
        "[[tools.mcp]]\nname = \"server\"\ncommand = [{}]\npass_env = [\"PATH\"]\neffects = []\ntrust_first_use = true\n",
        command.join(", ")
    );
    let (scene, directory) = configured(&config, &[]).await;
    scene.model.reply(calls(TOOL, json!({"duration": 3, "steps": 6})));
    scene.model.reply(Reply::text("Done."));
    (scene, directory)
}

pub(crate) async fn the_room_sees_how_far_a_tool_is() {
    let (scene, _directory) = scene().await;
    let mut anna = scene.user("anna").await;
    let message = anna.says("Work.").await;
    let exchange = anna.exchange().await;
    let place = |is_it: fn(&Body) -> bool| {
        exchange.iter().position(|envelope| is_it(&envelope.body)).expect("it comes")
    };
    let begin = place(|body| matches!(body, Body::ToolUseRequest(_)));
    let end = place(|body| matches!(body, Body::ToolUseResult(_)));
    let comments: Vec<_> = exchange[begin..end]
        .iter()
        .filter_map(|envelope| match &envelope.body {
            Body::Commentary(commentary) => Some(commentary),
            _ => None,
        })
        .collect();
    let first = comments.first().expect("something is told of it");
    assert_eq!(first.content, format!("{TOOL}: 1 of 6"));
    assert_eq!(
        (first.message_id.as_str(), first.commentary_type.as_deref()),
        (message.as_str(), Some("tool_progress"))
    );
    assert!(first.id.starts_with("aucc_"), "{}", first.id);
    // How often depends on the clock; that none is told twice or late does not.
    assert!(comments.len() < 6, "not each of them: {comments:?}");
    assert!(comments.is_sorted_by(|one, next| one.content < next.content), "{comments:?}");
    assert!(
        !exchange[end..].iter().any(|envelope| told(&envelope.body).starts_with("comment")),
        "none comes late"
    );
}

pub(crate) async fn chat_shows_how_far_a_tool_is() {
    let (scene, _directory) = scene().await;
    let output = agent::run(SOTTO, &scene.server, &[], &["chat", &scene.room, "--message", "Work."]).await;
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(shown.contains(&format!("\nprogress: {TOOL}: 1 of 6\n")), "{shown}");
    assert!(shown.contains("Done."), "{shown}");
}
