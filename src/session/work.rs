//! What takes long: requests to the model, runs of tools and questions to hooks, each a task that can be dropped at any time.

use super::Ports;
use crate::ports::{Calls, Progress};
use futures_util::{FutureExt, StreamExt};
use serde_json::{Map, Value};
use sotto_core::engine::event::{Input, RequestId, RunId, ToolOutcome};
use sotto_core::engine::hook::{Question, QuestionId};
use sotto_core::model::{Chunk, Failure, Prompt};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::future::pending;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;
use tokio::task::JoinSet;

pub(super) struct Work {
    ports: Ports,
    calls: Arc<dyn Calls>,
    results: mpsc::Sender<Input>,
    /// Dropping the set ends every task.
    tasks: JoinSet<()>,
    requests: BTreeMap<RequestId, AbortHandle>,
    runs: BTreeMap<RunId, AbortHandle>,
    questions: BTreeMap<QuestionId, AbortHandle>,
}

impl Work {
    pub(super) fn new(ports: Ports, calls: Arc<dyn Calls>, results: mpsc::Sender<Input>) -> Self {
        let (requests, runs, questions) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { ports, calls, results, tasks: JoinSet::new(), requests, runs, questions }
    }

    pub(super) fn generate(&mut self, request: RequestId, prompt: Prompt) {
        self.forget_finished();
        let (ports, results) = (self.ports.clone(), self.results.clone());
        let task = async move {
            let relay = AssertUnwindSafe(relay(&ports, request, prompt, &results)).catch_unwind().await;
            let failure = match relay {
                Ok(None) => return,
                Ok(Some(failure)) => failure,
                Err(_) => {
                    ports.metrics.panics.inc();
                    internal("the code that asks the model failed")
                }
            };
            // The session is gone if nobody takes it.
            let _ = results.send(Input::Model { request, result: Err(failure) }).await;
        };
        self.requests.insert(request, self.tasks.spawn(task));
    }

    pub(super) fn run_tool(
        &mut self,
        run: RunId,
        name: String,
        arguments: Map<String, Value>,
        timeout: Duration,
        callee: Option<String>,
    ) {
        self.forget_finished();
        let (ports, calls, results) = (self.ports.clone(), Arc::clone(&self.calls), self.results.clone());
        let task = async move {
            // Only the newest word waits: a tool that talks much keeps nobody busy.
            let (tell, told) = watch::channel(String::new());
            let progress: Progress = Arc::new(move |how_far| drop(tell.send(how_far)));
            let outcome = async {
                match callee {
                    Some(callee) => calls.call(&callee, &name, arguments, timeout).await,
                    None => ports.tools.run(&name, arguments, timeout, progress).await,
                }
            };
            let outcome = tokio::select! {
                biased;
                outcome = AssertUnwindSafe(outcome).catch_unwind() => outcome,
                never = pass_on(run, told, &results) => match never {},
            };
            let outcome = outcome.unwrap_or_else(|_| {
                ports.metrics.panics.inc();
                ToolOutcome::Failed("the tool's code failed".to_owned())
            });
            let _ = results.send(Input::Tool { run, outcome }).await;
        };
        self.runs.insert(run, self.tasks.spawn(task));
    }

    pub(super) fn ask_hook(&mut self, question: QuestionId, conversation: &str, about: Question) {
        self.forget_finished();
        let (ports, results) = (self.ports.clone(), self.results.clone());
        let conversation = conversation.to_owned();
        let task = async move {
            let ruling = async { ports.hooks.ask(&conversation, about).await };
            let ruling = AssertUnwindSafe(ruling).catch_unwind().await.unwrap_or_else(|_| {
                ports.metrics.panics.inc();
                None
            });
            let _ = results.send(Input::Ruled { question, ruling }).await;
        };
        self.questions.insert(question, self.tasks.spawn(task));
    }

    pub(super) fn cancel_question(&mut self, question: QuestionId) {
        self.questions.remove(&question).inspect(AbortHandle::abort);
    }

    pub(super) fn cancel_request(&mut self, request: RequestId) {
        self.requests.remove(&request).inspect(AbortHandle::abort);
    }

    pub(super) fn cancel_run(&mut self, run: RunId) {
        self.runs.remove(&run).inspect(AbortHandle::abort);
    }

    pub(super) fn cancel_all(&mut self) {
        self.tasks.abort_all();
        self.requests.clear();
        self.runs.clear();
        self.questions.clear();
    }

    fn forget_finished(&mut self) {
        while self.tasks.try_join_next().is_some() {}
        self.requests.retain(|_, task| !task.is_finished());
        self.runs.retain(|_, task| !task.is_finished());
        self.questions.retain(|_, task| !task.is_finished());
    }
}

/// Passes on how far a tool says that it is, for as long as somebody listens.
async fn pass_on(run: RunId, mut told: watch::Receiver<String>, results: &mpsc::Sender<Input>) -> Infallible {
    while told.changed().await.is_ok() {
        let text = told.borrow_and_update().clone();
        let _ = results.send(Input::Progress { run, text }).await;
    }
    pending().await
}

/// Passes on what the model streams; the failure that ended it, if it was one.
async fn relay(
    ports: &Ports,
    request: RequestId,
    prompt: Prompt,
    results: &mpsc::Sender<Input>,
) -> Option<Failure> {
    let mut stream = ports.model.answer(prompt);
    while let Some(item) = stream.next().await {
        let chunk = match item {
            Ok(chunk) => chunk,
            Err(failure) => return Some(failure),
        };
        let last = matches!(chunk, Chunk::Finish(_));
        if results.send(Input::Model { request, result: Ok(chunk) }).await.is_err() || last {
            return None;
        }
    }
    Some(internal("the model's answer ended without an end"))
}

fn internal(what: &str) -> Failure {
    Failure {
        message: format!("Something went wrong inside the agent: {what}. Try again."),
        recoverable: true,
    }
}
