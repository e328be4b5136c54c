//! Tools of real MCP servers: npm's and Python's, as child processes and over HTTP; and the commands around them.

mod commands;
mod lives;
mod servers;

pub(crate) use commands::*;
pub(crate) use lives::*;
pub(crate) use servers::*;

use reqwest::header::HeaderMap;
use serde_json::{Value, json};
use sotto::ports::{Progress, Tools};
use sotto::tls;
use sotto::tools::mcp::{Program, Reach, Remote, Settings};
use sotto::tools::{BuiltIn, ClientTools, HttpTools, Lock, RoomTools, Targets, Terms, Toolbox};
use sotto_core::engine::event::ToolOutcome;
use sotto_core::tool::{Effects, Execution, Rights};
use sotto_harness::PATIENCE;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;
use tokio::time::timeout;

/// A toolbox with one server, and the directory of its approvals.
struct Scene {
    directory: TempDir,
    toolbox: Toolbox,
}

fn settings(reach: Reach) -> Settings {
    Settings {
        name: "server".to_owned(),
        reach,
        only: None,
        trust_first_use: true,
        shared: false,
        terms: Terms {
            effects: Effects::ALL,
            confirm: false,
            rights: Rights::Everyone,
            timeout: None,
            max_result_bytes: 4_096,
            repeatable: false,
            execution: Execution::Server,
        },
        own_terms: BTreeMap::new(),
    }
}

fn program(command: &[String], environment: &[(&str, &str)]) -> Reach {
    let owned = |text: &str| text.to_owned();
    Reach::Program(Program {
        program: command[0].clone(),
        arguments: command[1..].to_vec(),
        environment: environment
            .iter()
            .map(|(name, value)| (owned(name), owned(value)))
            .collect::<BTreeMap<_, _>>(),
        directory: None,
    })
}

fn targets() -> Targets {
    Targets::new(["localhost".to_owned()], tls::client_config())
}

fn remote(url: &str) -> Reach {
    let url = url.parse().expect("a URL");
    Reach::Http(Remote::new(url, HeaderMap::default(), &targets()).expect("it may be reached"))
}

impl Scene {
    fn with(settings: Settings) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let toolbox = toolbox(settings, directory.path());
        Self { directory, toolbox }
    }

    /// A server that is started with nothing in its environment.
    fn of(command: &[String]) -> Self {
        Self::with(settings(program(command, &[])))
    }

    /// What one conversation has, with the server there.
    async fn open(&self) -> RoomTools {
        let tools = self.toolbox.open();
        within(tools.servers()[0].settled()).await.expect("the server starts");
        tools
    }
}

fn toolbox(settings: Settings, directory: &Path) -> Toolbox {
    let own = BuiltIn::only::<&str>(&[]).expect("none is a choice");
    let http = HttpTools::new(Vec::new(), &targets()).expect("none is no trouble");
    Toolbox::new(own, http, ClientTools::default(), vec![settings], Lock::new(directory.join("tools.lock")))
}

async fn within<T>(what: impl Future<Output = T>) -> T {
    timeout(PATIENCE, what).await.expect("it comes")
}

fn silent() -> Progress {
    Arc::new(|_| {})
}

/// Runs `server__NAME`.
async fn run(tools: &RoomTools, name: &str, arguments: Value) -> ToolOutcome {
    run_with(tools, name, arguments, silent()).await
}

async fn run_with(tools: &RoomTools, name: &str, arguments: Value, progress: Progress) -> ToolOutcome {
    let Value::Object(arguments) = arguments else { panic!("arguments are an object") };
    within(tools.run(&format!("server__{name}"), arguments, PATIENCE, progress)).await
}

/// What it said; Python's SDK wraps text in an object.
fn said(outcome: ToolOutcome) -> String {
    match outcome {
        ToolOutcome::Done(Value::String(text)) => text,
        ToolOutcome::Done(value) => value["result"].as_str().map_or_else(|| value.to_string(), str::to_owned),
        other => panic!("it failed: {other:?}"),
    }
}

fn failed(outcome: ToolOutcome) -> String {
    match outcome {
        ToolOutcome::Failed(reason) => reason,
        other => panic!("it did not fail: {other:?}"),
    }
}

async fn says(tools: &RoomTools, name: &str) -> String {
    said(run(tools, name, json!({})).await)
}

fn offered(tools: &RoomTools) -> Vec<String> {
    tools.offered().into_iter().map(|tool| tool.spec.name).collect()
}
