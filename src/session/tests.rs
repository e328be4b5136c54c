//! A session between ports made of channels: what it carries, in which order, and what it survives.

use super::*;
use crate::ports::{Calls, Progress, Store};
use crate::store::memory::Memory;
use futures_util::future::BoxFuture;
use futures_util::future::ready;
use futures_util::stream::{self, BoxStream};
use futures_util::{FutureExt, StreamExt};
use serde_json::{Map, Value, json};
use sotto_core::engine::event::{AgentState, Recipients, ToolOutcome, Transcript};
use sotto_core::engine::hook::{self, Question, Ruling, WhenAway};
use sotto_core::engine::policy::Taint;
use sotto_core::engine::record::{History, Joined, Page, Record};
use sotto_core::model::{Chunk, Failure, Finish, Prompt, ToolCall, ToolSpec};
use sotto_core::tool::Tool;
use sotto_core::wire::body::{Body, Configuration, UserMessage};
use sotto_core::wire::{Envelope, Limits};
use std::sync::Mutex;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Far above what anything here takes.
const PATIENCE: Duration = Duration::from_secs(20);

/// A model that says what it is told to, request by request; a request without words never ends.
#[derive(Default)]
struct Scripted(Mutex<Vec<Vec<Line>>>);

enum Line {
    Say(Chunk),
    Wait(oneshot::Receiver<()>),
    Panic,
}

impl Scripted {
    fn new(answers: impl IntoIterator<Item = Vec<Line>>) -> Arc<Self> {
        Arc::new(Self(Mutex::new(answers.into_iter().collect())))
    }
}

impl Model for Scripted {
    fn answer(&self, _: Prompt) -> BoxStream<'static, Result<Chunk, Failure>> {
        let mut answers = self.0.lock().expect("no test panics while it holds the lock");
        if answers.is_empty() {
            return stream::pending().boxed();
        }
        let lines = stream::iter(answers.remove(0)).then(|line| async {
            match line {
                Line::Say(chunk) => Some(Ok(chunk)),
                Line::Wait(go_on) => {
                    let _ = go_on.await;
                    None
                }
                Line::Panic => panic!("this is what the test is about"),
            }
        });
        lines.filter_map(ready).boxed()
    }
}

fn says(text: &str) -> Vec<Line> {
    vec![Line::Say(Chunk::Text(text.to_owned())), Line::Say(Chunk::Finish(Finish::Stop))]
}

/// A tool that panics.
struct Broken;

impl Hooks for Broken {
    fn ask(&self, _conversation: &str, _question: Question) -> BoxFuture<'static, Option<Ruling>> {
        panic!("a broken hook");
    }
}

impl Tools for Broken {
    fn offered(&self) -> Vec<Tool> {
        vec![Tool::harmless(ToolSpec {
            name: "broken".to_owned(),
            description: String::new(),
            repeatable: true,
            parameters: json!({}),
        })]
    }

    fn changes(&self) -> BoxStream<'static, ()> {
        stream::empty().boxed()
    }

    fn run(
        &self,
        _: &str,
        _: Map<String, Value>,
        _: Duration,
        _: Progress,
    ) -> BoxFuture<'static, ToolOutcome> {
        async { panic!("this is what the test is about") }.boxed()
    }
}

/// Clients that take no calls.
#[derive(Debug)]
struct Deaf;

impl Calls for Deaf {
    fn call(&self, _: &str, _: &str, _: Map<String, Value>, _: Duration) -> BoxFuture<'static, ToolOutcome> {
        futures_util::future::pending().boxed()
    }
}

/// A store that answers when the test says so.
#[derive(Clone, Default)]
struct Slow(Arc<Mutex<Vec<Waiting>>>);

/// Someone who waits for it.
type Waiting = oneshot::Sender<Result<(), StoreError>>;

impl Journal for Slow {
    fn history(&self) -> BoxFuture<'static, Result<History, StoreError>> {
        ready(Ok(History { reserved: -1_024, ..History::default() })).boxed()
    }

    fn append(&self, _: Vec<Record>, _: bool) -> BoxFuture<'static, Result<(), StoreError>> {
        let (answer, answered) = oneshot::channel();
        self.0.lock().expect("no test panics while it holds the lock").push(answer);
        async move { answered.await.unwrap_or(Err(StoreError::Lost)) }.boxed()
    }

    fn stanzas(&self, _: i32, _: i32, _: usize) -> BoxFuture<'static, Result<Page, StoreError>> {
        ready(Err(full())).boxed()
    }
}

fn full() -> StoreError {
    StoreError::Unavailable("the disk is full".to_owned())
}

impl Slow {
    /// Answers the oldest batch that waits, as soon as there is one.
    async fn answer(&self, result: Result<(), StoreError>) {
        let next = || {
            let mut waiting = self.0.lock().expect("no test panics while it holds the lock");
            (!waiting.is_empty()).then(|| waiting.remove(0))
        };
        let answer = loop {
            match next() {
                Some(answer) => break answer,
                None => tokio::task::yield_now().await,
            }
        };
        let _ = answer.send(result);
    }
}

/// The other end of a session.
struct Bench {
    events: mpsc::Sender<RoomEvent>,
    commands: mpsc::Receiver<RoomCommand>,
    shutdown: watch::Sender<bool>,
    metrics: Arc<Metrics>,
    session: JoinHandle<End>,
    stanza: i32,
}

impl Bench {
    async fn start(model: Arc<dyn Model>) -> Self {
        let journal = Memory::default().open("room").await.expect("nobody else has it");
        Self::with_journal(model, journal)
    }

    fn with_journal(model: Arc<dyn Model>, journal: Box<dyn Journal>) -> Self {
        Self::with_hooks(model, journal, hook::Hooks::default())
    }

    fn with_hooks(model: Arc<dyn Model>, journal: Box<dyn Journal>, asked: hook::Hooks) -> Self {
        let (events, for_session) = mpsc::channel(16);
        let (from_session, commands) = mpsc::channel(16);
        let connected = watch::channel(true).1;
        let (name, calls) = ("room".to_owned(), Arc::new(Deaf));
        let room = Room { name, events: for_session, commands: from_session, connected, calls };
        let metrics = Arc::new(Metrics::default());
        let (tools, hooks) = (Arc::new(Broken), Arc::new(Broken));
        let ports = Ports { model, tools, hooks, metrics: Arc::clone(&metrics) };
        let conversation = "room".to_owned();
        let settings =
            Settings { conversation, tools: Broken.offered(), hooks: asked, ..Settings::default() };
        let options = Options {
            settings,
            limits: Limits::default(),
            drain: PATIENCE,
            rest_after: None,
            log_content: false,
        };
        let (shutdown, leaving) = watch::channel(false);
        let session = tokio::spawn(run(room, journal, options, ports, leaving));
        Self { events, commands, shutdown, metrics, session, stanza: 0 }
    }

    async fn write(&mut self, id: &str) {
        let message = UserMessage {
            id: id.to_owned(),
            previous_id: None,
            conversation_id: String::new(),
            content: "Hello".to_owned(),
            timestamp: None,
            attachments: None,
        };
        self.send(Body::UserMessage(message)).await;
    }

    async fn send(&mut self, body: Body) {
        self.stanza += 1;
        let envelope = Envelope { stanza: self.stanza, conversation: None, meta: Map::new(), body };
        let packet = RoomEvent::Packet { from: "anna".to_owned(), bytes: wire::encode(&envelope) };
        self.events.send(packet).await.expect("the session runs");
    }

    /// The next message that is sent.
    async fn next(&mut self) -> Body {
        loop {
            let command =
                timeout(PATIENCE, self.commands.recv()).await.expect("in time").expect("the session runs");
            if let RoomCommand::Send { bytes, .. } = command {
                return wire::decode(&bytes, &Limits::default()).expect("ours is readable").body;
            }
        }
    }

    /// What is sent up to the end of an answer: its text, and the code of an error if there was one.
    async fn answer(&mut self) -> (String, Option<i32>) {
        let mut text = String::new();
        loop {
            match self.next().await {
                Body::AssistantSentence(sentence) => {
                    text.push_str(&sentence.text);
                    if sentence.is_final == Some(true) {
                        return (text, None);
                    }
                }
                Body::ErrorMessage(error) => return (text, Some(error.code)),
                _ => {}
            }
        }
    }

    async fn end(self) -> End {
        timeout(PATIENCE, self.session).await.expect("in time").expect("a session never panics")
    }
}

#[tokio::test]
async fn a_message_is_acknowledged_and_answered() {
    let mut bench = Bench::start(Scripted::new([says("Hello. And welcome.")])).await;
    assert_eq!(
        bench.commands.recv().await,
        Some(RoomCommand::State(AgentState::Listening)),
        "before any packet"
    );
    bench.write("m1").await;
    assert!(matches!(bench.next().await, Body::Acknowledgement(ack) if ack.success));
    assert_eq!(bench.answer().await, ("Hello. And welcome.".to_owned(), None));
    assert!(bench.metrics.text().contains("sotto_turns_total{kind=\"answered\"} 1"));
}

#[tokio::test]
async fn garbage_is_answered_to_its_sender_alone() {
    let mut bench = Bench::start(Scripted::new([])).await;
    bench
        .events
        .send(RoomEvent::Packet { from: "eve".to_owned(), bytes: vec![0xc1] })
        .await
        .expect("it runs");
    loop {
        if let Some(RoomCommand::Send { to, .. }) = bench.commands.recv().await {
            assert_eq!(to, Recipients::Only(vec!["eve".to_owned()]));
            break;
        }
    }
}

#[tokio::test]
async fn a_stream_refused_for_now_may_be_sent_again() {
    let mut bench = Bench::start(Scripted::new([])).await;
    for (for_now, code) in [(true, 504), (false, 101)] {
        let refused = RoomEvent::Refused { from: "anna".to_owned(), reason: "no".to_owned(), for_now };
        bench.events.send(refused).await.expect("the session runs");
        assert_eq!(bench.answer().await.1, Some(code));
    }
}

#[tokio::test]
async fn a_model_that_panics_fails_one_answer_and_no_more() {
    let mut bench = Bench::start(Scripted::new([vec![Line::Panic], says("Here I am again.")])).await;
    bench.write("m1").await;
    assert_eq!(bench.answer().await.1, Some(503));
    bench.write("m2").await;
    assert_eq!(bench.answer().await, ("Here I am again.".to_owned(), None));
    assert_eq!(bench.metrics.panics.get(), 1);
}

#[tokio::test]
async fn a_tool_that_panics_is_told_to_the_model() {
    let call = ToolCall { id: "c1".to_owned(), name: "broken".to_owned(), arguments: Ok(Map::new()) };
    let calls = vec![Line::Say(Chunk::ToolCall(call)), Line::Say(Chunk::Finish(Finish::ToolCalls))];
    let mut bench = Bench::start(Scripted::new([calls, says("It is broken.")])).await;
    bench.write("m1").await;
    let failure = loop {
        if let Body::ToolUseResult(result) = bench.next().await {
            break result;
        }
    };
    assert_eq!((failure.success, failure.error_code.as_deref()), (false, Some("execution_error")));
    assert_eq!(bench.answer().await, ("It is broken.".to_owned(), None));
}

#[tokio::test]
async fn a_hook_that_panics_counts_as_away() {
    let terms = |when_away| hook::Terms { timeout: PATIENCE, when_away, brings: Taint::default() };
    let cases = [(WhenAway::Open, ("Hello.", None)), (WhenAway::Closed, ("", Some(503)))];
    for (when_away, (text, error)) in cases {
        let journal = Memory::default().open("room").await.expect("a new conversation");
        let hooks = hook::Hooks { before_model: Some(terms(when_away)), ..hook::Hooks::default() };
        let mut bench = Bench::with_hooks(Scripted::new([says("Hello.")]), journal, hooks);
        bench.write("m1").await;
        assert_eq!(bench.answer().await, (text.to_owned(), error));
        assert_eq!(bench.metrics.panics.get(), 1);
        assert!(bench.metrics.text().contains("{hook=\"before_model\",outcome=\"failed\"} 1"));
    }
}

#[tokio::test]
async fn a_shutdown_lets_the_running_answer_finish() {
    let (go_on, waits) = oneshot::channel();
    let mut lines = vec![Line::Say(Chunk::Text("Half. And ".to_owned())), Line::Wait(waits)];
    lines.extend(says("the rest."));
    let mut bench = Bench::start(Scripted::new([lines])).await;
    bench.write("m1").await;
    while !matches!(bench.next().await, Body::StartAnswer(_)) {}
    bench.shutdown.send_replace(true);
    go_on.send(()).expect("the model waits");
    assert_eq!(bench.answer().await, ("Half. And the rest.".to_owned(), None));
    while bench.commands.recv().await.expect("it says goodbye") != RoomCommand::Leave {}
    let (events, _) = mpsc::channel(1);
    drop(std::mem::replace(&mut bench.events, events));
    assert_eq!(bench.end().await, End::Left);
}

#[tokio::test]
async fn nothing_is_acknowledged_before_it_is_stored() {
    let store = Slow::default();
    let mut bench = Bench::with_journal(Scripted::new([says("Hello.")]), Box::new(store.clone()));
    bench.write("m1").await;
    store.answer(Err(full())).await;
    assert!(
        matches!(bench.next().await, Body::ErrorMessage(error) if error.code == 501 && error.recoverable)
    );
    bench.write("m1").await;
    store.answer(Ok(())).await;
    assert!(matches!(bench.next().await, Body::Acknowledgement(ack) if ack.acknowledged_stanza_id == 2));
    let answering = async {
        loop {
            store.answer(Ok(())).await;
        }
    };
    tokio::select! {
        answer = bench.answer() => assert_eq!(answer, ("Hello.".to_owned(), None)),
        () = answering => {}
    }
}

#[tokio::test]
async fn the_end_of_the_room_is_the_end_of_the_session() {
    let bench = Bench::start(Scripted::new([])).await;
    bench.events.send(RoomEvent::Closed { reason: "deleted".to_owned() }).await.expect("the session runs");
    assert_eq!(bench.end().await, End::Closed("deleted".to_owned()));
}

#[tokio::test]
async fn after_a_panic_of_the_engine_transcripts_are_closed_and_clients_get_what_they_can_take() {
    let (_never, waits) = oneshot::channel();
    let half = vec![Line::Say(Chunk::Text("Half. And".to_owned())), Line::Wait(waits)];
    let mut bench = Bench::start(Scripted::new([half, says("Whole.")])).await;
    let anna = Participant { identity: "anna".to_owned(), name: String::new() };
    bench.events.send(RoomEvent::Joined(anna)).await.expect("the session runs");
    let unlisted = Configuration { features: Some(Vec::new()), ..Configuration::default() };
    bench.send(Body::Configuration(unlisted)).await;
    bench.write("m1").await;
    let begun = loop {
        if let Some(RoomCommand::Transcript(Transcript::Begin { segment })) = bench.commands.recv().await {
            break segment;
        }
    };
    failpoint::PANIC_NEXT.set(true);
    bench.write("m2").await;
    let mut ended = Vec::new();
    while ended.is_empty() {
        let command = timeout(PATIENCE, bench.commands.recv()).await.expect("in time");
        if let Some(RoomCommand::Transcript(Transcript::End { segment })) = command {
            ended.push(segment);
        }
    }
    assert_eq!(ended, [begun]);
    bench.write("m3").await;
    let whole = loop {
        match bench.next().await {
            Body::AssistantMessage(whole) => break whole,
            Body::StartAnswer(start) => panic!("anna does not take sentences: {start:?}"),
            _ => {}
        }
    };
    assert_eq!((whole.previous_id.as_str(), whole.content.as_str()), ("m3", "Whole."));
    assert_eq!(bench.metrics.panics.get(), 1);
}

/// A piece of a transcript waits for all that was to be stored before it.
#[tokio::test]
async fn what_waits_to_be_stored_again_is_not_over_though_something_newer_was_refused() {
    let store = Slow::default();
    let mut keeping = Keeping::new("room".to_owned(), Box::new(store.clone()), Arc::default());
    let at = sotto_core::time::Time(0);
    let joined = Record::Joined(Joined { identity: "anna".to_owned(), number: 0, at });
    let message = Record::Message(sotto_core::engine::record::Message {
        id: "m1".to_owned(),
        previous: None,
        from: "anna".to_owned(),
        name: "anna".to_owned(),
        text: "Hello".to_owned(),
        chat: false,
        at,
    });
    for record in [joined, message] {
        keeping.push(Task::Save { ticket: None, record, durable: false });
    }
    assert_eq!(keeping.begin(), Ok(Vec::new()));
    store.answer(Err(full())).await;
    assert_eq!(keeping.next().await, Ok(Vec::new()));
    assert_eq!((keeping.asked(), keeping.over()), (2, 0), "the older one waits again");
    // After a pause it is tried again.
    assert_eq!(keeping.next().await, Ok(Vec::new()));
    assert_eq!(keeping.begin(), Ok(Vec::new()));
    store.answer(Ok(())).await;
    assert_eq!(keeping.next().await, Ok(Vec::new()));
    assert_eq!((keeping.asked(), keeping.over()), (2, 2));
}
