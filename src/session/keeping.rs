//! What a session has stored and read: one thing after the other, in the order in which the engine asked for it.
//!
//! What waits is stored together, so a slow store costs one transaction for many records. What could not be stored is
//! tried again, with all that has come since, until it is; only the wishes of people are given up at once, because those
//! are told and can send them again.

use super::failpoint;
use crate::ports::{Journal, StoreError};
use crate::telemetry::metrics::Metrics;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use sotto_core::engine::event::{Input, Ticket};
use sotto_core::engine::record::{Page, Record};
use std::collections::VecDeque;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};
use tracing::{info, warn};

/// How long to wait before trying again: at first, and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Something for the store.
pub(super) enum Task {
    Save { ticket: Option<Ticket>, record: Record, durable: bool },
    Read { ticket: Ticket, after: i32, until: i32, most: usize },
}

/// What the store is doing.
enum Doing {
    Nothing,
    Saving(Vec<Task>, BoxFuture<'static, Result<(), StoreError>>),
    Reading(Ticket, BoxFuture<'static, Result<Page, StoreError>>),
    /// It has failed and is given a moment.
    Waiting(Instant),
}

/// Another process has the conversation now.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Lost;

pub(super) struct Keeping {
    conversation: String,
    journal: Box<dyn Journal>,
    metrics: Arc<Metrics>,
    tasks: VecDeque<Task>,
    /// How many there have ever been, and how many of them are over.
    asked: u64,
    over: u64,
    doing: Doing,
    /// How long to wait after the next failure; `None` while all is well.
    pause: Option<Duration>,
}

impl Keeping {
    pub(super) fn new(conversation: String, journal: Box<dyn Journal>, metrics: Arc<Metrics>) -> Self {
        let (tasks, doing) = (VecDeque::new(), Doing::Nothing);
        Self { conversation, journal, metrics, tasks, asked: 0, over: 0, doing, pause: None }
    }

    pub(super) fn journal(&self) -> &dyn Journal {
        &*self.journal
    }

    /// Whether nothing is to be stored or read.
    pub(super) fn is_idle(&self) -> bool {
        self.tasks.is_empty() && matches!(self.doing, Doing::Nothing)
    }

    pub(super) fn push(&mut self, task: Task) {
        self.asked += 1;
        self.tasks.push_back(task);
    }

    /// How many things it was ever asked for.
    pub(super) fn asked(&self) -> u64 {
        self.asked
    }

    /// How many of them, from the first on, are over.
    pub(super) fn over(&self) -> u64 {
        self.over
    }

    /// Begins with what waits, unless something is being done. What is done at once is returned: nothing need wait for a
    /// store in memory.
    pub(super) fn begin(&mut self) -> Result<Vec<Input>, Lost> {
        let mut inputs = Vec::new();
        while matches!(self.doing, Doing::Nothing) {
            let Some(task) = self.tasks.pop_front() else { break };
            failpoint::crash("before something is stored or read");
            self.doing = match task {
                Task::Read { ticket, after, until, most } => {
                    Doing::Reading(ticket, self.journal.stanzas(after, until, most))
                }
                first @ Task::Save { .. } => {
                    let mut batch = vec![first];
                    while let Some(next) = self.tasks.pop_front_if(|task| matches!(task, Task::Save { .. })) {
                        batch.push(next);
                    }
                    let mut durable = false;
                    let mut records = Vec::with_capacity(batch.len());
                    for task in &batch {
                        if let Task::Save { record, durable: synced, .. } = task {
                            durable |= synced;
                            records.push(record.clone());
                        }
                    }
                    Doing::Saving(batch, self.journal.append(records, durable))
                }
            };
            let Some(done) = self.poll_now() else { break };
            inputs.extend(done?);
        }
        Ok(inputs)
    }

    fn poll_now(&mut self) -> Option<Result<Vec<Input>, Lost>> {
        self.next().now_or_never()
    }

    /// What has come of what is being done; never, if nothing is. May be dropped at any time.
    pub(super) async fn next(&mut self) -> Result<Vec<Input>, Lost> {
        match &mut self.doing {
            Doing::Nothing => pending().await,
            Doing::Waiting(until) => {
                sleep_until(*until).await;
                self.doing = Doing::Nothing;
                Ok(Vec::new())
            }
            Doing::Reading(ticket, done) => {
                let ticket = *ticket;
                let result = done.await;
                self.doing = Doing::Nothing;
                self.over += 1;
                let page = match result {
                    Ok(page) => Some(page),
                    Err(StoreError::Lost) => return Err(Lost),
                    Err(error) => {
                        self.trouble(&error);
                        None
                    }
                };
                Ok(vec![Input::Replayed { ticket, page }])
            }
            Doing::Saving(_, done) => {
                let result = done.await;
                failpoint::crash("after something was stored");
                let Doing::Saving(batch, _) = std::mem::replace(&mut self.doing, Doing::Nothing) else {
                    return Ok(Vec::new());
                };
                match result {
                    Ok(()) => Ok(self.saved(batch)),
                    Err(StoreError::Lost) => Err(Lost),
                    Err(error) => Ok(self.failed(batch, &error)),
                }
            }
        }
    }

    fn saved(&mut self, batch: Vec<Task>) -> Vec<Input> {
        if self.pause.take().is_some() {
            info!(conversation = self.conversation, "the store takes everything again");
        }
        self.over += batch.len() as u64;
        let ticket = |task| match task {
            Task::Save { ticket, .. } => ticket,
            Task::Read { .. } => None,
        };
        batch.into_iter().filter_map(ticket).map(|ticket| Input::Stored { ticket, success: true }).collect()
    }

    fn failed(&mut self, batch: Vec<Task>, error: &StoreError) -> Vec<Input> {
        self.trouble(error);
        let pause = self.pause.map_or(FIRST_PAUSE, |pause| (pause * 2).min(LONGEST_PAUSE));
        self.pause = Some(pause);
        self.doing = Doing::Waiting(Instant::now() + pause);
        let (refused, again): (Vec<Task>, Vec<Task>) = batch
            .into_iter()
            .partition(|task| matches!(task, Task::Save { record, .. } if record.may_fail()));
        self.over += refused.len() as u64;
        for task in again.into_iter().rev() {
            self.tasks.push_front(task);
        }
        let ticket = |task| match task {
            Task::Save { ticket, .. } => ticket,
            Task::Read { .. } => None,
        };
        refused
            .into_iter()
            .filter_map(ticket)
            .map(|ticket| Input::Stored { ticket, success: false })
            .collect()
    }

    fn trouble(&self, error: &StoreError) {
        self.metrics.store_failures.inc();
        if self.pause.is_none() {
            warn!(conversation = self.conversation, %error, "the store does not work; trying again until it does");
        }
    }

    /// Forgets what waits, once what is being done is over: whoever asked for it is no more.
    pub(super) async fn settle(&mut self) -> Result<(), Lost> {
        self.tasks.clear();
        if !matches!(self.doing, Doing::Nothing) {
            self.next().await?;
        }
        self.tasks.clear();
        self.doing = Doing::Nothing;
        self.over = self.asked;
        Ok(())
    }
}
