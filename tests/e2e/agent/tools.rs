//! Tools, as those in a room meet them: whose they are, who may have them used, and who runs them.

mod calls;
mod consent;
mod hosts;
mod lists;
mod progress;
mod rights;

pub(crate) use calls::*;
pub(crate) use consent::*;
pub(crate) use hosts::*;
pub(crate) use lists::*;
pub(crate) use progress::*;
pub(crate) use rights::*;

use super::Scene;
use serde_json::Value;
use sotto_harness::endpoint::{Answer, Endpoint, Reply, Request, Style};
use std::path::Path;
use tempfile::TempDir;

/// A room whose agent has this configuration file, and the directory that it is in.
pub(super) async fn configured(config: &str, settings: &[(&str, &str)]) -> (Scene, TempDir) {
    let directory = tempfile::tempdir().expect("a directory");
    let file = write(directory.path(), config);
    let settings: Vec<_> =
        [("SOTTO_CONFIG", file.as_str())].into_iter().chain(settings.iter().copied()).collect();
    (Scene::begin_with(&settings).await, directory)
}

fn write(directory: &Path, config: &str) -> String {
    let file = directory.join("sotto.toml");
    std::fs::write(&file, config).expect("it can be written");
    file.to_string_lossy().into_owned()
}

/// For tests that ask again and again until something has reached the agent.
const PATIENT_WITH_MANY: (&str, &str) = ("SOTTO_LIMITS_MESSAGES_BURST", "10000");

/// The model wants a tool.
pub(super) fn calls(name: &str, arguments: Value) -> Reply {
    Reply::answer(Style::Vllm, &Answer::default().call(name, arguments))
}

/// The tools that the model was offered.
fn offered(request: &Request) -> Vec<String> {
    let tools = request.body["tools"].as_array().into_iter().flatten();
    tools.filter_map(|tool| tool["function"]["name"].as_str()).map(str::to_owned).collect()
}

/// What the model was told that its last call gave.
pub(super) fn result_told(request: &Request) -> String {
    let mut messages = request.body["messages"].as_array().into_iter().flatten();
    let last = messages.rfind(|message| message["role"] == "tool");
    last.and_then(|message| message["content"].as_str()).unwrap_or_default().to_owned()
}

/// A door that opens over HTTP.
pub(super) struct Door(Endpoint);

impl Door {
    pub(super) async fn build() -> Self {
        let endpoint = Endpoint::start().await;
        endpoint.reply_by(|_| Reply::status(200, r#"{"door":"open"}"#));
        Self(endpoint)
    }

    /// The tool that opens it, on these terms.
    pub(super) fn tool(&self, terms: &str) -> String {
        format!(
            "[[tools.http]]\nname = \"open_door\"\ndescription = \"Opens a door.\"\nurl = \"{}/door\"\neffects = []\n\
             parameters = {{ type = \"object\", properties = {{ door = {{ type = \"string\" }} }}, required = [\"door\"] }}\n\
             {terms}\n",
            self.0.url()
        )
    }

    /// With what it was asked to open, so far.
    pub(super) fn asked(&self) -> Vec<Value> {
        self.0.log().requests.iter().map(|request| request.body.clone()).collect()
    }
}
