//! Tools that people's apps run as methods of LiveKit's RPC: LiveKit's Python SDK, its JavaScript client in a browser, and the
//! Rust SDK where things go wrong.

use super::hosts::{ASSISTANT_SENTENCE, Host, TOOL_USE_REQUEST, TOOL_USE_RESULT};
use super::{calls, configured, result_told};
use crate::agent::user::{User, is_final};
use crate::agent::{Scene, told};
use livekit::prelude::RpcError;
use serde_json::{Value, json};
use sotto_core::wire::body::Body;
use sotto_harness::{browser::Browser, endpoint::Reply};
use std::future::pending;
use tempfile::TempDir;
use tokio::sync::mpsc;

/// A room whose agent knows these tools as methods of clients.
async fn scene(names: &[&str], terms: &str) -> (Scene, TempDir) {
    let tool = |name: &&str| {
        format!(
            "[[tools.client]]\nname = \"{name}\"\ndescription = \"Does it.\"\nrpc = true\neffects = []\n\
             parameters = {{ type = \"object\", properties = {{ text = {{ type = \"string\" }} }} }}\n{terms}\n"
        )
    };
    configured(&names.iter().map(tool).collect::<String>(), &[]).await
}

pub(crate) async fn a_python_app_runs_a_tool_as_a_method() {
    let (scene, directory) = scene(&["upper"], "").await;
    let host = Host::python(&scene).await;
    runs_a_tool_as_a_method((scene, directory), host).await;
}

pub(crate) async fn a_javascript_app_runs_a_tool_as_a_method() {
    let browser = Browser::start();
    let (scene, directory) = scene(&["upper"], "").await;
    let host = Host::javascript(browser, &scene, "@msgpack/msgpack").await;
    runs_a_tool_as_a_method((scene, directory), host).await;
}

async fn runs_a_tool_as_a_method((scene, _directory): (Scene, TempDir), mut host: Host) {
    let mut mallory = scene.user("mallory").await;
    host.serves("upper").await;
    scene.model.reply(calls("upper", json!({"text": "pear"})));
    scene.model.reply(Reply::text("A PEAR."));
    host.says("q-1", "In capitals!").await;
    // It is told that it is used; to run it, it is called.
    let request = host.gets(TOOL_USE_REQUEST).await;
    assert_eq!([&request["toolName"], &request["execution"]], ["upper", "server"], "{request}");
    let result = host.gets(TOOL_USE_RESULT).await;
    assert_eq!(result["requestId"], request["id"]);
    let expected = format!("{}:{{\"TEXT\":\"PEAR\"}}", scene.agent.identity());
    assert_eq!(result["result"], expected.as_str(), "the agent calls with the arguments as JSON");
    assert_eq!(host.gets(ASSISTANT_SENTENCE).await["text"], "A PEAR.");
    assert!(result_told(&scene.asked(1).await).contains("PEAR"));
    let heard = mallory.hears_to_the_end().await;
    assert_eq!(
        heard,
        [format!("result {}", Value::from(expected)), "start".to_owned(), "1: A PEAR. (final)".to_owned()]
    );
}

/// Methods that do what the test wants; each says when it was called, and with what.
fn serve(user: &User) -> mpsc::UnboundedReceiver<String> {
    let (tell, called) = mpsc::unbounded_channel();
    for method in ["fails", "hangs", "counts"] {
        let tell = tell.clone();
        user.participant.room.local_participant().register_rpc_method(method.to_owned(), move |call| {
            let _ = tell.send(call.payload.clone());
            Box::pin(async move {
                match method {
                    "fails" => {
                        Err(RpcError::new(1234, "the lamp is broken".to_owned(), Some("bulb 3".to_owned())))
                    }
                    "hangs" => pending().await,
                    _ => Ok(json!({"bytes": call.payload.len()}).to_string()),
                }
            })
        });
    }
    called
}

pub(crate) async fn a_method_that_fails_or_is_missing_is_told_to_the_model() {
    let (scene, _directory) = scene(&["fails", "missing", "counts"], "").await;
    let mut anna = scene.user("anna").await;
    let mut called = serve(&anna);
    let cases = [
        ("fails", json!({}), "execution_error", "the lamp is broken: bulb 3"),
        ("missing", json!({}), "execution_error", "The user's client has no such method."),
        ("counts", json!({"text": "x".repeat(16_000)}), "invalid_parameters", "takes at most 15360"),
    ];
    for (number, (tool, arguments, word, words)) in cases.into_iter().enumerate() {
        scene.model.reply(calls(tool, arguments));
        anna.says("Do it.").await;
        let heard = anna.hears_to_the_end().await;
        assert!(heard.contains(&format!("failed {word}")), "{heard:?}");
        let told = result_told(&scene.asked(2 * number + 1).await);
        assert!(told.contains(word) && told.contains(words), "{told}");
    }
    // What fits goes through, and comes back as JSON.
    scene.model.reply(calls("counts", json!({"text": "x".repeat(14_000)})));
    anna.says("Less, then.").await;
    assert!(anna.hears_to_the_end().await.contains(&"result {\"bytes\":14011}".to_owned()));
    let called: Vec<usize> =
        std::iter::from_fn(|| called.try_recv().ok()).map(|payload| payload.len()).collect();
    assert_eq!(called, [2, 14_011], "what is too long is not sent");
}

pub(crate) async fn a_method_that_hangs_keeps_nobody_waiting() {
    let (scene, _directory) = scene(&["hangs", "counts"], "timeout = 1").await;
    let mut anna = scene.user("anna").await;
    let mut called = serve(&anna);
    scene.model.reply(calls("hangs", json!({})));
    anna.says("Do it.").await;
    let heard = anna.hears_to_the_end().await;
    assert!(heard.contains(&"failed timeout".to_owned()), "{heard:?}");
    assert_eq!(called.recv().await.as_deref(), Some("{}"));
    // The next call is a call of its own.
    scene.model.reply(calls("counts", json!({})));
    anna.says("Count, then.").await;
    assert!(anna.hears_to_the_end().await.contains(&"result {\"bytes\":2}".to_owned()));
    assert_eq!(called.recv().await.as_deref(), Some("{}"));
}

pub(crate) async fn a_stop_gives_up_a_method_that_runs() {
    let (scene, _directory) = scene(&["hangs"], "").await;
    let mut anna = scene.user("anna").await;
    let mut called = serve(&anna);
    scene.model.reply(calls("hangs", json!({})));
    anna.says("Do it.").await;
    called.recv().await.expect("it is called");
    anna.stops().await;
    let heard = anna.until(is_final).await;
    let heard: Vec<_> = heard.iter().map(|envelope| told(&envelope.body)).collect();
    assert!(heard.contains(&"failed cancelled".to_owned()), "{heard:?}");
    assert!(!heard.iter().any(|line| line.starts_with("result")), "{heard:?}");
    assert!(anna.until(|body| matches!(body, Body::Acknowledgement(_))).await.len() == 1);
    assert_eq!(anna.asks("And now?").await, "Yes.");
}
