//! Tools of MCP servers in a conversation, and lists of them that change while it goes on.

use super::{PATIENT_WITH_MANY, calls, configured, offered, result_told, write};
use crate::agent::{SOTTO, Scene, user::User};
use serde_json::json;
use sotto_harness::{
    PATIENCE, agent,
    endpoint::{Answer, Reply, Request, Style},
    mcp,
    server::Server,
};
use tokio::time::timeout;

/// Our own server, with these further lines.
fn trials(terms: &str) -> String {
    let command: Vec<_> = mcp::trials().iter().map(|part| format!("{part:?}")).collect();
    format!("[[tools.mcp]]\nname = \"trials\"\ncommand = [{}]\neffects = []\n{terms}\n", command.join(", "))
}

pub(crate) async fn tools_of_others_are_used_as_our_own() {
    let (scene, directory) = configured(&trials("trust_first_use = true"), &[]).await;
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
    let offered = offered(&scene.asked(0).await);
    assert!(["trials__add", "calculator"].iter().all(|tool| offered.iter().any(|name| name == tool)));
    assert!(
        directory.path().join("tools.lock").exists(),
        "what was trusted is written down beside the configuration"
    );
}

/// A tool that somebody approved comes and goes; so it does for the model, without a new conversation.
pub(crate) async fn a_list_that_changes_reaches_the_running_conversation() {
    let (scene, _directory) = {
        // Approved while it is there, so that it is offered as soon as it comes.
        let directory = tempfile::tempdir().expect("a directory");
        let file = write(directory.path(), &trials("env = { GROWN = \"1\" }"));
        let arguments = ["--config", &file, "tools", "approve"];
        let approved = agent::run(SOTTO, &*Server::shared().await, &[], &arguments).await;
        assert!(approved.status.success(), "{}", String::from_utf8_lossy(&approved.stderr));
        let file = write(directory.path(), &trials(""));
        (Scene::begin_with(&[("SOTTO_CONFIG", &file), PATIENT_WITH_MANY]).await, directory)
    };
    let mut anna = scene.user("anna").await;
    let grown = |request: &Request| offered(request).contains(&"trials__grown".to_owned());

    scene.model.reply(calls("trials__grow", json!({})));
    assert_eq!(anna.asks("Grow.").await, "Yes.");
    let first = scene.asked(0).await;
    assert!(!grown(&first) && offered(&first).contains(&"trials__grow".to_owned()));
    asks_until(&scene, &mut anna, grown).await;
    scene.model.reply(calls("trials__grown", json!({})));
    assert_eq!(anna.asks("Use it.").await, "Yes.");
    assert!(result_told(&scene.asked(scene.asked_so_far() - 1).await).contains("here"));

    scene.model.reply(calls("trials__shrink", json!({})));
    assert_eq!(anna.asks("Shrink.").await, "Yes.");
    asks_until(&scene, &mut anna, |request| !grown(request)).await;
    scene.model.reply(calls("trials__grown", json!({})));
    assert_eq!(anna.asks("Use it again.").await, "Yes.");
    assert!(result_told(&scene.asked(scene.asked_so_far() - 1).await).contains("unknown_tool"));
}

/// Asks until the model is offered what it should be: only in a request does that show.
async fn asks_until(scene: &Scene, user: &mut User, is_it: impl Fn(&Request) -> bool) {
    let asking = async {
        loop {
            assert_eq!(user.asks("And now?").await, "Yes.");
            if is_it(&scene.asked(scene.asked_so_far() - 1).await) {
                return;
            }
        }
    };
    timeout(PATIENCE, asking).await.expect("the list that changed reaches the model");
}
