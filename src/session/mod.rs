//! The shell around one engine: the only `select!` of a conversation. It carries what happens in the room, the model,
//! the tools and the store into the engine, and does what the engine says, in order; long work runs as tasks of its
//! own. It decides nothing.
//!
//! Every channel is bounded. A panic of the engine, of the model's or of a tool's code ends neither the process nor the
//! room: it is caught and counted, and the conversation begins anew in the same room, with its numbers going on.

mod clock;
#[cfg(test)]
mod tests;
mod work;

use crate::ports::{Model, Room, RoomCommand, RoomEvent, Store, StoreError, Tools};
use crate::telemetry::metrics::Metrics;
use clock::Clock;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use sotto_core::engine::Engine;
use sotto_core::engine::event::{Input, Output, Participant, Ticket, TurnReport};
use sotto_core::engine::record::Record;
use sotto_core::engine::settings::Settings;
use sotto_core::wire::{self, Malformed};
use std::collections::BTreeMap;
use std::future::pending;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until, timeout};
use tracing::{error, info, info_span, warn};
use work::Work;

/// How long the room may take to let us go.
const FAREWELL: Duration = Duration::from_secs(10);

/// What a session needs of the world.
#[derive(Clone)]
pub struct Ports {
    /// The language model.
    pub model: Arc<dyn Model>,
    /// The tools that the agent runs itself.
    pub tools: Arc<dyn Tools>,
    /// Where conversations are kept.
    pub store: Arc<dyn Store>,
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
}

/// Holds one conversation in one room until the room is over or `shutdown` becomes true.
pub async fn run(room: Room, options: Options, ports: Ports, shutdown: watch::Receiver<bool>) -> End {
    let clock = Clock::start();
    let engine = Engine::new(options.settings.clone(), seed(), clock.now());
    let metrics = Arc::clone(&ports.metrics);
    metrics.conversations.inc();
    let (results, incoming) = mpsc::channel(64);
    let work = Work::new(ports.clone(), results);
    let present = BTreeMap::new();
    let session =
        Session { engine, room, options, ports, clock, work, present, queued: Vec::new(), saving: None };
    let end = session.run(incoming, shutdown).await;
    metrics.conversations.dec();
    end
}

/// A fresh seed for ids; the system's randomness cannot fail on any system that runs LiveKit.
fn seed() -> [u8; 32] {
    let mut seed = [0; 32];
    getrandom::fill(&mut seed).expect("the system has randomness");
    seed
}

/// Records that are being stored, and under which numbers.
struct Saving {
    tickets: Vec<Ticket>,
    done: BoxFuture<'static, Result<(), StoreError>>,
}

struct Session {
    engine: Engine,
    room: Room,
    options: Options,
    ports: Ports,
    clock: Clock,
    work: Work,
    /// Who is there: an engine that begins anew must be told.
    present: BTreeMap<String, Participant>,
    /// What is to be stored after what is being stored: one transaction for all of it.
    queued: Vec<(Ticket, Record, bool)>,
    saving: Option<Saving>,
}

impl Session {
    async fn run(mut self, mut incoming: mpsc::Receiver<Input>, mut shutdown: watch::Receiver<bool>) -> End {
        let mut leave_by: Option<Instant> = None;
        loop {
            let drain = self.options.drain;
            // A room that is reconnecting takes nothing; that must not keep us for ever.
            let performed = tokio::select! {
                performed = self.perform() => performed,
                () = time_to_go(&mut shutdown, leave_by, drain) => return self.leave().await,
            };
            let closed = |reason| if leave_by.is_some() { End::Left } else { End::Closed(reason) };
            if let Err(reason) = performed {
                return closed(reason);
            }
            if leave_by.is_some() && self.engine.is_idle() && self.saving.is_none() {
                return self.leave().await;
            }
            let wake = self.engine.poll_timeout().map(|due| self.clock.instant(due));
            let input = tokio::select! {
                event = self.room.events.recv() => match event {
                    Some(RoomEvent::Closed { reason }) => return closed(reason),
                    Some(event) => self.input(event),
                    None => return closed("the connection ended".to_owned()),
                },
                // The session holds a sender itself, so the channel never closes.
                Some(input) = incoming.recv() => input,
                result = done(&mut self.saving) => {
                    self.stored(&result);
                    continue;
                }
                () = sleep_or_never(wake) => Input::Wake,
                () = asked_to_leave(&mut shutdown), if leave_by.is_none() => {
                    leave_by = Some(Instant::now() + self.options.drain);
                    Input::Drain
                }
                () = sleep_or_never(leave_by) => {
                    info!(conversation = self.room.name, "leaving although an answer is under way: its time is over");
                    return self.leave().await;
                }
            };
            self.handle(input);
        }
    }

    fn input(&mut self, event: RoomEvent) -> Input {
        match event {
            RoomEvent::Joined(participant) => {
                self.present.insert(participant.identity.clone(), participant.clone());
                Input::Joined(participant)
            }
            RoomEvent::Left { identity } => {
                self.present.remove(&identity);
                Input::Left { identity }
            }
            RoomEvent::Packet { from, bytes } => {
                Input::Received { from, envelope: wire::decode(&bytes, &self.options.limits) }
            }
            RoomEvent::Refused { from, for_now: true, .. } => Input::Overflowed { from, packets: 1 },
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

    /// Lets the engine decide. Should it panic, the conversation begins anew.
    fn handle(&mut self, input: Input) {
        let now = self.clock.now();
        let engine = &mut self.engine;
        if catch_unwind(AssertUnwindSafe(|| engine.handle(now, input))).is_err() {
            self.ports.metrics.panics.inc();
            error!(conversation = self.room.name, "the engine panicked; the conversation begins anew");
            self.work.cancel_all();
            self.queued.clear();
            self.saving = None;
            self.engine = Engine::after(&self.engine, self.options.settings.clone(), seed(), now);
            for participant in self.present.values() {
                self.engine.handle(now, Input::Joined(participant.clone()));
            }
        }
    }

    /// Does what the engine says. An error means that the room is gone.
    async fn perform(&mut self) -> Result<(), String> {
        while let Some(output) = self.engine.poll() {
            let command = match output {
                Output::Send { to, bytes } => RoomCommand::Send { to, bytes },
                Output::State(state) => RoomCommand::State(state),
                Output::Transcript(transcript) => RoomCommand::Transcript(transcript),
                Output::Save { ticket, record, durable } => {
                    if self.options.log_content {
                        self.log_content(&record);
                    }
                    self.queued.push((ticket, record, durable));
                    self.save();
                    continue;
                }
                Output::Generate { request, prompt } => {
                    self.work.generate(request, prompt);
                    continue;
                }
                Output::RunTool { run, name, arguments, timeout } => {
                    self.work.run_tool(run, name, arguments, timeout);
                    continue;
                }
                Output::CancelGenerate(request) => {
                    self.work.cancel_request(request);
                    continue;
                }
                Output::CancelTool(run) => {
                    self.work.cancel_run(run);
                    continue;
                }
                Output::Count { what, times } => {
                    self.ports.metrics.count(what, times);
                    continue;
                }
                Output::TurnEnded(report) => {
                    self.report(&report);
                    continue;
                }
            };
            self.room.commands.send(command).await.map_err(|_| "the connection ended".to_owned())?;
        }
        Ok(())
    }

    /// Hands what is queued to the store, unless it is busy: then it goes with the next batch.
    fn save(&mut self) {
        while self.saving.is_none() && !self.queued.is_empty() {
            let batch = std::mem::take(&mut self.queued);
            let durable = batch.iter().any(|(_, _, durable)| *durable);
            let (tickets, records) = batch.into_iter().map(|(ticket, record, _)| (ticket, record)).unzip();
            let mut done = self.ports.store.append(&self.room.name, records, durable);
            // A store in memory is done at once; nothing need wait for it.
            match (&mut done).now_or_never() {
                Some(result) => self.confirm(tickets, &result),
                None => self.saving = Some(Saving { tickets, done }),
            }
        }
    }

    fn stored(&mut self, result: &Result<(), StoreError>) {
        if let Some(saving) = self.saving.take() {
            self.confirm(saving.tickets, result);
        }
        self.save();
    }

    fn confirm(&mut self, tickets: Vec<Ticket>, result: &Result<(), StoreError>) {
        if let Err(error) = result {
            self.ports.metrics.store_failures.inc();
            warn!(conversation = self.room.name, %error, "the store did not take {} records", tickets.len());
        }
        for ticket in tickets {
            self.handle(Input::Stored { ticket, success: result.is_ok() });
        }
    }

    /// What was said, for those who want it in their log.
    fn log_content(&self, record: &Record) {
        let conversation = &self.room.name;
        match record {
            Record::Message { id, from, text, .. } => {
                info!(conversation, message_id = id, from, text, "asked");
            }
            Record::Answer { message, text, .. } => {
                info!(conversation, message_id = message, text, "answered");
            }
            _ => {}
        }
    }

    fn report(&self, report: &TurnReport) {
        self.ports.metrics.turn(report);
        let millis = |duration: Option<Duration>| duration.map(|duration| duration.as_millis() as u64);
        let span = info_span!(
            "turn",
            conversation = self.room.name,
            message_id = report.message,
            answer = report.answer,
            end = ?report.end,
            first_token_ms = millis(report.first_token),
            first_step_ms = millis(report.first_step),
            first_sentence_ms = millis(report.first_sentence),
            total_ms = millis(Some(report.total)),
            steps = report.steps,
            sentences = report.sentences,
            tools = report.tools,
            input_tokens = report.usage.input,
            output_tokens = report.usage.output,
        );
        span.in_scope(|| info!("turn ended"));
    }

    async fn leave(mut self) -> End {
        self.work.cancel_all();
        if timeout(FAREWELL, self.say_goodbye()).await.is_err() {
            info!(conversation = self.room.name, "left without a goodbye: the room does not answer");
        }
        End::Left
    }

    async fn say_goodbye(&mut self) {
        // Whatever was taken in and is not answered gets its end.
        self.handle(Input::Leave);
        // Nothing is lost if the room is gone already.
        let _ = self.perform().await;
        let _ = self.room.commands.send(RoomCommand::Leave).await;
        // What is still to be sent is sent by the room; it closes when it is done. Nobody listens any more.
        while self.room.events.recv().await.is_some() {}
    }
}

async fn done(saving: &mut Option<Saving>) -> Result<(), StoreError> {
    match saving {
        Some(saving) => (&mut saving.done).await,
        None => pending().await,
    }
}

async fn sleep_or_never(until: Option<Instant>) {
    match until {
        Some(until) => sleep_until(until).await,
        None => pending().await,
    }
}

/// Ready when a shutdown was asked for and its time is over.
async fn time_to_go(shutdown: &mut watch::Receiver<bool>, leave_by: Option<Instant>, drain: Duration) {
    let leave_by = if let Some(leave_by) = leave_by {
        leave_by
    } else {
        asked_to_leave(shutdown).await;
        Instant::now() + drain
    };
    sleep_until(leave_by).await;
}

async fn asked_to_leave(shutdown: &mut watch::Receiver<bool>) {
    // Whoever could ask is gone: nobody will.
    if shutdown.wait_for(|leave| *leave).await.is_err() {
        pending::<()>().await;
    }
}
