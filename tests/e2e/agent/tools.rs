//! Tools of others, as those in a room meet them.

use super::Scene;
use serde_json::json;
use sotto_harness::{
    endpoint::{Answer, Reply, Style},
    mcp,
};

pub(crate) async fn tools_of_others_are_used_as_our_own() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("sotto.toml");
    let command: Vec<_> = mcp::trials().iter().map(|part| format!("{part:?}")).collect();
    let config = format!(
        "[[tools.mcp]]\nname = \"trials\"\ncommand = [{}]\neffects = []\ntrust_first_use = true\n",
        command.join(", ")
    );
    std::fs::write(&file, config).expect("a file");
    let scene = Scene::begin_with(&[("SOTTO_CONFIG", &file.to_string_lossy())]).await;
    let mut anna = scene.user("anna").await;
    let call = Answer::default()
        .call("trials__add", json!({"a": 17, "b": 23}))
        .call("trials__remember", json!({"text": "forty"}));
    scene.model.reply(Reply::answer(Style::Vllm, &call));
    scene.model.reply(Reply::answer(Style::Vllm, &Answer::default().text("It is 40.")));
    anna.says("What is 17 and 23?").await;
    let mut heard = anna.hears_to_the_end().await;
    // Tools that run at once end in any order.
    heard.sort();
    assert_eq!(
        heard,
        [
            "1: It is 40. (final)",
            "ack 1",
            "result {\"result\":\"40\"}",
            "result {\"result\":\"kept\"}",
            "start",
            "tool trials__add {\"a\":17,\"b\":23}",
            "tool trials__remember {\"text\":\"forty\"}",
        ]
    );
    let request = scene.asked(0).await;
    let offered = request.body["tools"].to_string();
    assert!(offered.contains("trials__add") && offered.contains("calculator"), "{offered}");
    assert!(
        directory.path().join("tools.lock").exists(),
        "what was trusted is written down beside the configuration"
    );
}
