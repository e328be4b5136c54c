//! The one that writes: takes all that waits into one transaction, and answers when it is committed.
//!
//! No transaction waits for the disk. What must survive a loss of power is committed like all else and answered when the
//! log was [synced](super::syncing) after that; meanwhile others go on being written. The one exception is SQLite's own: the
//! first commit after the log was written back begins it anew and syncs its beginning.
//!
//! Every transaction begins with what is in the [spool](super::spool), so that all is written in the order in which it was kept.

use super::Opening;
use super::spool::Spool;
use super::syncing::{Log, Syncing};
use super::trouble::Trouble;
use crate::ports::StoreError;
use crate::store::records;
use crate::store::sql::{Fault, Sql, values};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use sqlx::{Connection, SqliteConnection};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until, timeout_at};
use tracing::warn;

/// What may wait; who comes then waits for a place.
const WAITING: usize = 1_024;
/// How long another process that writes is waited for.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);
const PATIENT: &str = "PRAGMA busy_timeout = 5000";
/// How long the disk is waited for at the end.
const FAREWELL: Duration = Duration::from_secs(10);
/// What goes into one transaction.
const MAX_GROUP: usize = 256;
/// The log is written back when its file is longer than this.
pub(super) const LONG_LOG: u64 = 4 << 20;
/// How long to wait before that is tried again, if somebody who reads was in the way.
const AGAIN: Duration = Duration::from_secs(1);

/// The way to the task that writes.
#[derive(Clone)]
pub(super) struct Writer {
    orders: mpsc::Sender<Order>,
}

pub(super) enum Order {
    Write {
        durable: bool,
        job: Box<dyn Job>,
    },
    /// Write the log back to the file, sync that, and empty it; false if somebody who reads does not let us.
    Checkpoint(oneshot::Sender<Result<bool, StoreError>>),
    /// Write the files anew, without what is in unused room of their pages.
    Rebuild(oneshot::Sender<Result<(), StoreError>>),
    Close(oneshot::Sender<()>),
}

/// Work and who waits for it.
pub(super) trait Job: Send {
    fn run<'c>(&'c mut self, connection: &'c mut SqliteConnection) -> BoxFuture<'c, Result<(), Fault>>;

    /// The transaction of the last run was committed, or why not.
    fn answer(self: Box<Self>, outcome: Result<(), StoreError>);
}

struct Work<T, W> {
    run: W,
    result: Option<Result<T, StoreError>>,
    reply: oneshot::Sender<Result<T, StoreError>>,
}

impl<T, W> Job for Work<T, W>
where
    T: Send,
    W: for<'c> Fn(&'c mut SqliteConnection) -> BoxFuture<'c, Result<T, Fault>> + Send + Sync,
{
    fn run<'c>(&'c mut self, connection: &'c mut SqliteConnection) -> BoxFuture<'c, Result<(), Fault>> {
        async move {
            self.result = Some(match (self.run)(connection).await {
                Ok(value) => Ok(value),
                // It has written nothing, so the others of the group need not suffer.
                Err(Fault::Refused(error)) => Err(error),
                Err(fault) => return Err(fault),
            });
            Ok(())
        }
        .boxed()
    }

    fn answer(self: Box<Self>, outcome: Result<(), StoreError>) {
        let result = self.result.unwrap_or(Err(ended()));
        // Nobody waits any more; it is kept all the same.
        let _ = self.reply.send(outcome.and(result));
    }
}

fn ended() -> StoreError {
    StoreError::Unavailable("the store was closed".to_owned())
}

impl Writer {
    /// Lets a task write on `connection`; `opening` makes another one, should that fail.
    pub(super) fn start(
        connection: SqliteConnection,
        opening: Opening,
        trouble: Trouble,
        log: impl Log,
        spool: Arc<Spool>,
    ) -> Self {
        let (orders, received) = mpsc::channel(WAITING);
        let writer = Self { orders };
        let syncing = Syncing::start(log, writer.orders.downgrade());
        let file = super::beside(opening.options.get_filename(), "-wal");
        let again = Instant::now();
        tokio::spawn(keep_room(Arc::clone(&spool), writer.orders.downgrade()));
        let line = Line { connection: Some(connection), opening, syncing, trouble, spool, file, again };
        tokio::spawn(line.serve(received));
        writer
    }

    pub(super) async fn write<T, W>(&self, durable: bool, work: W) -> Result<T, StoreError>
    where
        T: Send + 'static,
        W: for<'c> Fn(&'c mut SqliteConnection) -> BoxFuture<'c, Result<T, Fault>> + Send + Sync + 'static,
    {
        let (reply, replied) = oneshot::channel();
        let job = Box::new(Work { run: work, result: None, reply });
        self.orders.send(Order::Write { durable, job }).await.map_err(|_| ended())?;
        replied.await.unwrap_or_else(|_| Err(ended()))
    }

    /// Writes what is in the spool.
    pub(super) async fn flush(&self) -> Result<(), StoreError> {
        // Every transaction does.
        self.write(false, |_| async { Ok(()) }.boxed()).await
    }

    /// Writes the log back to the file, syncs that, and empties it; false if somebody who reads does not let us.
    pub(super) async fn checkpoint(&self) -> Result<bool, StoreError> {
        checkpoint(&self.orders).await
    }

    /// Writes the files anew, without what is in unused room of their pages.
    pub(super) async fn rebuild(&self) -> Result<(), StoreError> {
        let (reply, replied) = oneshot::channel();
        self.orders.send(Order::Rebuild(reply)).await.map_err(|_| ended())?;
        replied.await.unwrap_or_else(|_| Err(ended()))
    }

    pub(super) async fn close(&self) {
        let (reply, replied) = oneshot::channel();
        if self.orders.send(Order::Close(reply)).await.is_ok() {
            // Fails only if it has ended already.
            let _ = replied.await;
        }
    }
}

pub(super) async fn checkpoint(orders: &mpsc::Sender<Order>) -> Result<bool, StoreError> {
    let (reply, replied) = oneshot::channel();
    orders.send(Order::Checkpoint(reply)).await.map_err(|_| ended())?;
    replied.await.unwrap_or_else(|_| Err(ended()))
}

/// Makes room in the spool, until the writer ends.
async fn keep_room(spool: Arc<Spool>, orders: mpsc::WeakSender<Order>) {
    while spool.half_full().await {
        let Some(orders) = orders.upgrade() else { return };
        // Where that cannot be done, whoever writes next is told why.
        let _ = Writer { orders }.flush().await;
    }
}

/// The connection that writes.
struct Line {
    connection: Option<SqliteConnection>,
    opening: Opening,
    syncing: Syncing,
    trouble: Trouble,
    spool: Arc<Spool>,
    /// The log's.
    file: PathBuf,
    /// When a long log may be written back again.
    again: Instant,
}

impl Drop for Line {
    fn drop(&mut self) {
        self.spool.close();
    }
}

/// A job, and whether it must survive a loss of power.
type Task = (bool, Box<dyn Job>);

impl Line {
    async fn serve(mut self, mut orders: mpsc::Receiver<Order>) {
        while let Some(first) = orders.recv().await {
            let mut waiting = vec![first];
            while waiting.len() < MAX_GROUP
                && let Ok(order) = orders.try_recv()
            {
                waiting.push(order);
            }
            let (mut tasks, mut checkpoints, mut rebuilding, mut closing) = (vec![], vec![], vec![], None);
            for order in waiting {
                match order {
                    Order::Write { durable, job } => tasks.push((durable, job)),
                    Order::Checkpoint(reply) => checkpoints.push(reply),
                    Order::Rebuild(reply) => rebuilding.push(reply),
                    Order::Close(reply) => closing = Some(reply),
                }
            }
            self.group(tasks).await;
            for reply in rebuilding {
                let _ = reply.send(self.rebuild().await.map_err(|fault| self.trouble.describe(fault)));
            }
            if checkpoints.is_empty() {
                self.shorten_log().await;
            } else {
                let outcome = self.checkpoint().await.map_err(|fault| self.trouble.describe(fault));
                for reply in checkpoints {
                    let _ = reply.send(outcome.clone());
                }
            }
            if let Some(reply) = closing {
                self.sync_the_rest(&mut orders).await;
                if let Some(connection) = self.connection.take() {
                    // It ends with the process in any case.
                    let _ = connection.close().await;
                }
                let _ = reply.send(());
                return;
            }
        }
    }

    /// Waits until what was committed is on the disk, but not for ever: a disk that does not work must not keep the process.
    async fn sync_the_rest(&mut self, orders: &mut mpsc::Receiver<Order>) {
        self.syncing.end();
        let until = Instant::now() + FAREWELL;
        loop {
            let order = tokio::select! {
                () = self.syncing.ended() => return,
                () = sleep_until(until) => return warn!("the store is closed before its disk has all of it"),
                order = orders.recv() => order,
            };
            match order {
                // That may be how it gets there.
                Some(Order::Checkpoint(reply)) => {
                    let outcome = self.checkpoint().await.map_err(|fault| self.trouble.describe(fault));
                    let _ = reply.send(outcome);
                }
                Some(Order::Write { job, .. }) => job.answer(Err(ended())),
                Some(Order::Rebuild(reply)) => drop(reply),
                Some(Order::Close(reply)) => drop(reply),
                None => {
                    let _ = timeout_at(until, self.syncing.ended()).await;
                    return;
                }
            }
        }
    }

    /// Runs jobs as one transaction; where that fails, each as its own, so that none fails for another's sake.
    async fn group(&mut self, mut tasks: Vec<Task>) {
        if tasks.len() > 1 && self.transaction(&mut tasks).await.is_ok() {
            for task in tasks {
                self.committed(task);
            }
            return;
        }
        for task in tasks {
            let mut alone = [task];
            let outcome = self.transaction(&mut alone).await;
            let [task] = alone;
            match outcome {
                Ok(()) => self.committed(task),
                Err(fault) => task.1.answer(Err(self.trouble.describe(fault))),
            }
        }
    }

    fn committed(&self, (durable, job): Task) {
        if durable {
            self.syncing.then_answer(job);
        } else {
            job.answer(Ok(()));
        }
    }

    async fn transaction(&mut self, tasks: &mut [Task]) -> Result<(), Fault> {
        let outcome = self.attempt(tasks).await;
        if outcome.is_err()
            && let Some(connection) = &mut self.connection
            && connection.run("ROLLBACK", values![]).await.is_err()
            && connection.ping().await.is_err()
        {
            // Not even that works: another connection may.
            self.connection = None;
        }
        outcome
    }

    async fn attempt(&mut self, tasks: &mut [Task]) -> Result<(), Fault> {
        let connection = match &mut self.connection {
            Some(connection) => connection,
            none => none.insert(self.opening.connect().await?),
        };
        connection.run("BEGIN IMMEDIATE", values![]).await?;
        let spooled = self.spool.waiting();
        records::bring_in(connection, &spooled).await?;
        for (_, job) in tasks {
            job.run(connection).await?;
        }
        connection.run("COMMIT", values![]).await?;
        self.spool.written(spooled.len());
        Ok(())
    }

    /// Writes a log back that has grown long. SQLite would do that within a commit, for which somebody waits.
    async fn shorten_log(&mut self) {
        let is_long = std::fs::metadata(&self.file).is_ok_and(|log| log.len() > LONG_LOG);
        if !is_long || Instant::now() < self.again {
            return;
        }
        let outcome = self.checkpoint().await;
        if !matches!(outcome, Ok(true)) {
            self.again = Instant::now() + AGAIN;
        }
        if let Err(fault) = outcome {
            warn!(error = %self.trouble.describe(fault), "the store's log could not be written back; trying again");
        }
    }

    async fn rebuild(&mut self) -> Result<(), Fault> {
        let Some(connection) = &mut self.connection else { return Err(Fault::Refused(ended())) };
        connection.run("VACUUM main", values![]).await?;
        if self.opening.keys.is_some() {
            connection.run("VACUUM keys", values![]).await?;
        }
        Ok(())
    }

    async fn checkpoint(&mut self) -> Result<bool, Fault> {
        let Some(connection) = &mut self.connection else { return Ok(false) };
        // Readers that are under way are not waited for: all who write would wait as well.
        connection.rows("PRAGMA busy_timeout = 0", values![]).await?;
        let rows = connection.rows("PRAGMA wal_checkpoint(TRUNCATE)", values![]).await;
        connection.rows(PATIENT, values![]).await?;
        let rows = rows?;
        Ok(rows.first().is_some_and(|row| matches!(row.int(0), Ok(0))))
    }
}
