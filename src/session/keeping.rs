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

/// One of all the things that were ever asked for: the first, the second, …
type Placed = (u64, Task);

/// What the store is doing.
enum Doing {
    Nothing,
    Saving(Vec<Placed>, BoxFuture<'static, Result<(), StoreError>>),
    Reading(u64, Ticket, BoxFuture<'static, Result<Page, StoreError>>),
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
    /// What waits, in the order of its places.
    tasks: VecDeque<Placed>,
    /// How many there have ever been.
    asked: u64,
    doing: Doing,
    /// How long to wait after the next failure; `None` while all is well.
    pause: Option<Duration>,
}

impl Keeping {
    pub(super) fn new(conversation: String, journal: Box<dyn Journal>, metrics: Arc<Metrics>) -> Self {
        let (tasks, doing) = (VecDeque::new(), Doing::Nothing);
        Self { conversation, journal, metrics, tasks, asked: 0, doing, pause: None }
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
        self.tasks.push_back((self.asked, task));
    }

    /// How many things it was ever asked for.
    pub(super) fn asked(&self) -> u64 {
        self.asked
    }

    /// How many of them, from the first on, are over.
    pub(super) fn over(&self) -> u64 {
        let being_done = match &self.doing {
            Doing::Saving(batch, _) => batch.first().map(|(place, _)| *place),
            Doing::Reading(place, ..) => Some(*place),
            Doing::Nothing | Doing::Waiting(_) => None,
        };
        let oldest = being_done.or_else(|| self.tasks.front().map(|(place, _)| *place));
        oldest.map_or(self.asked, |oldest| oldest - 1)
    }

    /// Begins with what waits, unless something is being done. What is done at once is returned: nothing need wait for a
    /// store in memory.
    pub(super) fn begin(&mut self) -> Result<Vec<Input>, Lost> {
        let mut inputs = Vec::new();
        while matches!(self.doing, Doing::Nothing) {
            let Some((place, task)) = self.tasks.pop_front() else { break };
            failpoint::crash("before something is stored or read");
            self.doing = match task {
                Task::Read { ticket, after, until, most } => {
                    Doing::Reading(place, ticket, self.journal.stanzas(after, until, most))
                }
                first @ Task::Save { .. } => {
                    let mut batch = vec![(place, first)];
                    while let Some(next) =
                        self.tasks.pop_front_if(|(_, task)| matches!(task, Task::Save { .. }))
                    {
                        batch.push(next);
                    }
                    let mut durable = false;
                    let mut records = Vec::with_capacity(batch.len());
                    for (_, task) in &batch {
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
            Doing::Reading(_, ticket, done) => {
                let ticket = *ticket;
                let result = done.await;
                self.doing = Doing::Nothing;
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

    fn saved(&mut self, batch: Vec<Placed>) -> Vec<Input> {
        if self.pause.take().is_some() {
            info!(conversation = self.conversation, "the store takes everything again");
        }
        stored(batch, true)
    }

    fn failed(&mut self, batch: Vec<Placed>, error: &StoreError) -> Vec<Input> {
        self.trouble(error);
        let pause = self.pause.map_or(FIRST_PAUSE, |pause| (pause * 2).min(LONGEST_PAUSE));
        self.pause = Some(pause);
        self.doing = Doing::Waiting(Instant::now() + pause);
        let (refused, again): (Vec<Placed>, Vec<Placed>) = batch
            .into_iter()
            .partition(|(_, task)| matches!(task, Task::Save { record, .. } if record.may_fail()));
        for task in again.into_iter().rev() {
            self.tasks.push_front(task);
        }
        stored(refused, false)
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
        Ok(())
    }
}

/// What those who wait for these are told.
fn stored(batch: Vec<Placed>, success: bool) -> Vec<Input> {
    let ticket = |(_, task)| match task {
        Task::Save { ticket, .. } => ticket,
        Task::Read { .. } => None,
    };
    batch.into_iter().filter_map(ticket).map(|ticket| Input::Stored { ticket, success }).collect()
}
