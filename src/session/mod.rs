//! The shell around one engine: the only `select!` of a conversation. It carries what happens in the room, the model,
//! the tools and the store into the engine, and does what the engine says, in order; long work runs as tasks of its
//! own. It decides nothing.
//!
//! Every channel is bounded. A panic of the engine, of the model's or of a tool's code ends neither the process nor the
//! room: it is caught and counted. After one of the engine another takes the conversation up from the store; what was to
//! be answered is given up, as it may be what the engine cannot bear.

mod clock;
mod failpoint;
mod keeping;
#[cfg(test)]
mod tests;
mod told;
mod transcripts;
mod waiting;
mod work;

use crate::ports::{Hooks, Journal, Model, Room, RoomCommand, RoomEvent, StoreError, Tools};
use crate::telemetry::metrics::Metrics;
use clock::Clock;
use futures_util::StreamExt;
use futures_util::stream::{BoxStream, Fuse};
use keeping::{Keeping, Lost, Task};
use sotto_core::engine::Engine;
use sotto_core::engine::event::{Input, Output, Participant};
use sotto_core::engine::settings::Settings;
use sotto_core::wire::{self, Malformed};
use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, timeout};
use tracing::{error, info, warn};
use transcripts::Transcripts;
use waiting::{asked_to_leave, sleep_or_never, time_to_go};
use work::Work;

/// How long to wait for a store that cannot say what it knows.
const RELOAD: Duration = Duration::from_secs(1);

/// What people are told whose messages an engine could not bear.
const GIVEN_UP: &str = "Something went wrong inside the agent. Send it again.";

/// How long the room may take to let us go.
const FAREWELL: Duration = Duration::from_secs(10);

/// What a session needs of the world.
#[derive(Clone)]
pub struct Ports {
    /// The language model.
    pub model: Arc<dyn Model>,
    /// The tools that the agent runs itself.
    pub tools: Arc<dyn Tools>,
    /// The developer's own logic, where the settings say that there is some.
    pub hooks: Arc<dyn Hooks>,
    /// What is counted.
    pub metrics: Arc<Metrics>,
}

/// How a session is to be run.
#[derive(Clone, Debug)]
pub struct Options {
    /// How the conversation is held.
    pub settings: Settings,
    /// How large packets may be.
    pub limits: wire::Limits,
    /// How long a running answer may go on after a shutdown was asked for.
    pub drain: Duration,
    /// After how long without anything happening what was said is left to the store alone; `None`: never.
    pub rest_after: Option<Duration>,
    /// Whether what people say may be logged.
    pub log_content: bool,
}

/// Why a session ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// It was asked to.
    Left,
    /// The room is over for us.
    Closed(String),
    /// Another agent has taken the conversation over.
    Lost,
}

/// Holds one conversation in one room until the room is over or `shutdown` becomes true.
pub async fn run(
    room: Room,
    journal: Box<dyn Journal>,
    mut options: Options,
    ports: Ports,
    mut shutdown: watch::Receiver<bool>,
) -> End {
    // Asked for first: what changes from here on is not missed.
    let changes = ports.tools.changes().fuse();
    options.settings.tools = ports.tools.offered();
    let clock = Clock::start();
    let metrics = Arc::clone(&ports.metrics);
    let keeping = Keeping::new(room.name.clone(), journal, Arc::clone(&metrics));
    let engine = match take_up(keeping.journal(), &room.name, &options.settings, &clock, &mut shutdown).await
    {
        Ok(engine) => engine,
        Err(end) => return end,
    };
    metrics.conversations.inc();
    let (results, incoming) = mpsc::channel(64);
    let work = Work::new(ports.clone(), Arc::clone(&room.calls), results);
    let present = BTreeMap::new();
    let mut session = Session {
        engine,
        broken: false,
        resting: false,
        room,
        options,
        ports,
        clock,
        work,
        present,
        attributes: BTreeMap::new(),
        keeping,
        outputs: VecDeque::new(),
        transcripts: Transcripts::default(),
    };
    session.handle(Input::Wake);
    let end = Box::pin(session.run(incoming, changes, shutdown)).await;
    metrics.conversations.dec();
    end
}

/// An engine that knows what the store knows of the conversation.
async fn take_up(
    journal: &dyn Journal,
    conversation: &str,
    settings: &Settings,
    clock: &Clock,
    shutdown: &mut watch::Receiver<bool>,
) -> Result<Engine, End> {
    let mut told = false;
    loop {
        let history = tokio::select! {
            history = journal.history() => history,
            () = asked_to_leave(shutdown) => return Err(End::Left),
        };
        match history {
            Ok(history) => return Ok(Engine::restore(settings.clone(), seed(), clock.now(), history)),
            Err(StoreError::Lost) => return Err(End::Lost),
            Err(error) => {
                if !std::mem::replace(&mut told, true) {
                    warn!(conversation, %error, "the store does not say what is known; trying again until it does");
                }
            }
        }
        tokio::select! {
            () = tokio::time::sleep(RELOAD) => {}
            () = asked_to_leave(shutdown) => return Err(End::Left),
        }
    }
}

/// What a session cannot go on without.
enum Gone {
    Room,
    Conversation,
}

/// A fresh seed for ids; the system's randomness cannot fail on any system that runs LiveKit.
fn seed() -> [u8; 32] {
    let mut seed = [0; 32];
    getrandom::fill(&mut seed).expect("the system has randomness");
    seed
}

struct Session {
    engine: Engine,
    /// The engine panicked and is not to be trusted any more.
    broken: bool,
    /// The engine has left what was said to the store.
    resting: bool,
    room: Room,
    options: Options,
    ports: Ports,
    clock: Clock,
    work: Work,
    /// Who is there: an engine that takes the conversation up must be told.
    present: BTreeMap<String, Participant>,
    attributes: BTreeMap<String, Vec<(String, String)>>,
    keeping: Keeping,
    /// What is to be done, in order, besides storing.
    outputs: VecDeque<Output>,
    transcripts: Transcripts,
}

impl Session {
    async fn run(
        mut self,
        mut incoming: mpsc::Receiver<Input>,
        mut changes: Fuse<BoxStream<'static, ()>>,
        mut shutdown: watch::Receiver<bool>,
    ) -> End {
        let mut leave_by: Option<Instant> = None;
        loop {
            if self.broken
                && let Err(end) = self.recover(&mut shutdown).await
            {
                return end;
            }
            let drain = self.options.drain;
            // A room that is reconnecting takes nothing; that must not keep us for ever.
            let performed = tokio::select! {
                performed = self.perform() => performed,
                () = time_to_go(&mut shutdown, leave_by, drain) => return self.leave().await,
            };
            let closed = |reason| if leave_by.is_some() { End::Left } else { End::Closed(reason) };
            match performed {
                Ok(()) => {}
                Err(Gone::Room) => return closed("the connection ended".to_owned()),
                Err(Gone::Conversation) => return self.make_way().await,
            }
            if self.broken {
                continue;
            }
            if leave_by.is_some() && self.engine.is_idle() && self.keeping.is_idle() {
                return self.leave().await;
            }
            let rest_at =
                self.options.rest_after.filter(|_| !self.resting).map(|after| Instant::now() + after);
            let wake = self.engine.poll_timeout().map(|due| self.clock.instant(due));
            let input = tokio::select! {
                event = self.room.events.recv() => match event {
                    Some(RoomEvent::Closed { reason }) => return closed(reason),
                    Some(event) => self.input(event),
                    None => return closed("the connection ended".to_owned()),
                },
                // The session holds a sender itself, so the channel never closes.
                Some(input) = incoming.recv() => input,
                kept = self.keeping.next() => match kept {
                    Ok(inputs) => {
                        self.handle_all(inputs);
                        continue;
                    }
                    Err(Lost) => return self.make_way().await,
                },
                Some(()) = changes.next() => {
                    let tools = self.ports.tools.offered();
                    // For the engine that takes the conversation up next, too.
                    self.options.settings.tools.clone_from(&tools);
                    if self.resting {
                        continue;
                    }
                    Input::Tools(tools)
                }
                () = sleep_or_never(wake) => Input::Wake,
                () = sleep_or_never(rest_at) => {
                    self.rest();
                    continue;
                }
                () = asked_to_leave(&mut shutdown), if leave_by.is_none() => {
                    leave_by = Some(Instant::now() + self.options.drain);
                    Input::Drain
                }
                () = sleep_or_never(leave_by) => {
                    info!(conversation = self.room.name, "leaving although an answer is under way: its time is over");
                    return self.leave().await;
                }
            };
            if self.resting
                && let Err(end) = self.wake_up(&mut shutdown).await
            {
                return end;
            }
            self.handle(input);
        }
    }

    /// Nothing has happened for long: what was said is left to the store, if all of it is there.
    fn rest(&mut self) {
        if self.engine.may_rest() && self.keeping.is_idle() {
            self.engine.rest();
            self.resting = true;
        }
    }

    async fn wake_up(&mut self, shutdown: &mut watch::Receiver<bool>) -> Result<(), End> {
        let settings = &self.options.settings;
        let mut engine =
            take_up(self.keeping.journal(), &self.room.name, settings, &self.clock, shutdown).await?;
        engine.take_over(&mut self.engine);
        self.engine = engine;
        self.resting = false;
        Ok(())
    }

    fn input(&mut self, event: RoomEvent) -> Input {
        match event {
            RoomEvent::Joined(participant) => {
                self.present.insert(participant.identity.clone(), participant.clone());
                Input::Joined(participant)
            }
            RoomEvent::Attributes { identity, attributes } => {
                self.attributes.insert(identity.clone(), attributes.clone());
                Input::Attributes { identity, attributes, fixed: true }
            }
            RoomEvent::Left { identity } => {
                self.attributes.remove(&identity);
                self.present.remove(&identity);
                Input::Left { identity }
            }
            RoomEvent::Packet { from, bytes } => {
                Input::Received { from, envelope: wire::decode(&bytes, &self.options.limits) }
            }
            RoomEvent::Refused { from, reason, for_now: true } => Input::Refused { from, reason },
            RoomEvent::Refused { from, reason, for_now: false } => {
                let malformed = Malformed { reason, stanza: None, kind: None, id: None };
                Input::Received { from, envelope: Err(malformed) }
            }
            RoomEvent::Overflowed { from, packets } => Input::Overflowed { from, packets },
            RoomEvent::Chat { from, id, text } => Input::Chat { from, id, text },
            // Met by the caller.
            RoomEvent::Closed { .. } => Input::Wake,
        }
    }

    fn handle_all(&mut self, inputs: Vec<Input>) {
        for input in inputs {
            self.handle(input);
        }
    }

    /// Lets the engine decide. Should it panic, nothing more is heard of it.
    fn handle(&mut self, input: Input) {
        if self.broken {
            return;
        }
        let now = self.clock.now();
        let engine = &mut self.engine;
        let decide = AssertUnwindSafe(|| {
            failpoint::panic();
            engine.handle(now, input);
        });
        if catch_unwind(decide).is_err() {
            self.ports.metrics.panics.inc();
            error!(conversation = self.room.name, "the engine panicked; another takes the conversation up");
            self.broken = true;
            self.outputs.clear();
            self.transcripts.break_off();
            self.work.cancel_all();
        }
    }

    /// Another engine takes the conversation up, as after a crash.
    async fn recover(&mut self, shutdown: &mut watch::Receiver<bool>) -> Result<(), End> {
        let settled = tokio::select! {
            settled = self.keeping.settle() => settled,
            () = asked_to_leave(shutdown) => return Err(End::Left),
        };
        if settled == Err(Lost) {
            return Err(End::Lost);
        }
        let settings = &self.options.settings;
        let engine =
            take_up(self.keeping.journal(), &self.room.name, settings, &self.clock, shutdown).await?;
        let mut former = std::mem::replace(&mut self.engine, engine);
        self.broken = false;
        let now = self.clock.now();
        let (engine, present, attributes) = (&mut self.engine, &self.present, &self.attributes);
        let going_on = AssertUnwindSafe(|| {
            engine.take_over(&mut former);
            engine.give_up(GIVEN_UP);
            // The former one may have failed at the very news that someone came or went.
            for identity in engine.present().into_iter().filter(|identity| !present.contains_key(identity)) {
                engine.handle(now, Input::Left { identity });
            }
            for participant in present.values() {
                engine.handle(now, Input::Joined(participant.clone()));
            }
            for (identity, attributes) in attributes.clone() {
                engine.handle(now, Input::Attributes { identity, attributes, fixed: true });
            }
        });
        if catch_unwind(going_on).is_err() {
            // What it knows is what it cannot bear. Without it, nobody waits for an answer that does not come.
            return Err(End::Closed("the conversation cannot be gone on with".to_owned()));
        }
        Ok(())
    }

    /// Does what the engine says. What is to be stored goes first, all of what one input brought about together; the rest
    /// waits for it where it must. So does a piece of the transcript: the sentence that it completes is to be there as soon as
    /// can be, and not to wait behind it.
    async fn perform(&mut self) -> Result<(), Gone> {
        loop {
            while let Some(output) = self.engine.poll() {
                match output {
                    Output::Save { ticket, record, durable } => {
                        if self.options.log_content {
                            self.log_content(&record);
                        }
                        self.keeping.push(Task::Save { ticket, record, durable });
                    }
                    Output::Replay { ticket, after, until, most } => {
                        self.keeping.push(Task::Read { ticket, after, until, most });
                    }
                    Output::Transcript(piece) => self.transcripts.push(piece),
                    other => self.outputs.push_back(other),
                }
            }
            self.transcripts.after(self.keeping.asked());
            let at_once = self.keeping.begin().map_err(|Lost| Gone::Conversation)?;
            if at_once.is_empty() && self.outputs.is_empty() {
                return self.transcribe().await;
            }
            self.handle_all(at_once);
            while !self.outputs.is_empty() {
                // Whoever drops this future loses nothing: what cannot be done yet stays.
                let permit = self.room.commands.clone().reserve_owned().await.map_err(|_| Gone::Room)?;
                failpoint::crash("before something is done");
                if let Some(command) = self.outputs.pop_front().and_then(|output| self.perform_one(output)) {
                    permit.send(command);
                }
            }
            if self.broken {
                return Ok(());
            }
        }
    }

    /// Goes on with the transcript as far as it may.
    async fn transcribe(&mut self) -> Result<(), Gone> {
        while self.transcripts.is_due(self.keeping.over()) {
            let permit = self.room.commands.clone().reserve_owned().await.map_err(|_| Gone::Room)?;
            if let Some(piece) = self.transcripts.take() {
                permit.send(RoomCommand::Transcript(piece));
            }
        }
        Ok(())
    }

    /// Does one thing, unless it is for the room to do: then returns that.
    fn perform_one(&mut self, output: Output) -> Option<RoomCommand> {
        match output {
            Output::Send { to, bytes } => return Some(RoomCommand::Send { to, bytes }),
            Output::State(state) => return Some(RoomCommand::State(state)),
            Output::Generate { request, prompt } => self.work.generate(request, prompt),
            Output::RunTool { run, name, arguments, timeout, callee } => {
                self.work.run_tool(run, name, arguments, timeout, callee);
            }
            Output::CancelGenerate(request) => self.work.cancel_request(request),
            Output::CancelTool(run) => self.work.cancel_run(run),
            Output::AskHook { question, about } => self.work.ask_hook(question, &self.room.name, about),
            Output::CancelHook(question) => self.work.cancel_question(question),
            Output::Count { what, times } => self.count(what, times),
            Output::TurnEnded(report) => self.report(&report),
            // Met by the caller.
            Output::Save { .. } | Output::Replay { .. } | Output::Transcript(_) => {}
        }
        None
    }

    async fn leave(mut self) -> End {
        self.work.cancel_all();
        if timeout(FAREWELL, self.say_goodbye()).await.is_err() {
            info!(conversation = self.room.name, "left without a goodbye: the room does not answer");
        }
        End::Left
    }

    /// Another agent speaks in this conversation now: not a word more.
    async fn make_way(mut self) -> End {
        warn!(
            conversation = self.room.name,
            "another agent has taken the conversation over, or the store has lost what it had confirmed"
        );
        self.work.cancel_all();
        let _ = timeout(FAREWELL, self.room.commands.send(RoomCommand::Leave)).await;
        while let Ok(Some(_)) = timeout(FAREWELL, self.room.events.recv()).await {}
        End::Lost
    }

    async fn say_goodbye(&mut self) {
        // Whatever was taken in and is not answered gets its end.
        self.handle(Input::Leave);
        // Nothing is lost if the room is gone already. What is said last waits for the store like everything.
        while self.perform().await.is_ok() && !self.keeping.is_idle() {
            match self.keeping.next().await {
                Ok(inputs) => self.handle_all(inputs),
                Err(Lost) => break,
            }
        }
        let _ = self.room.commands.send(RoomCommand::Leave).await;
        // What is still to be sent is sent by the room; it closes when it is done. Nobody listens any more.
        while self.room.events.recv().await.is_some() {}
    }
}
