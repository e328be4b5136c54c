//! The one that writes: takes all that waits into one transaction, and answers when it is committed.
//!
//! What need not survive a loss of power goes first, in a transaction that does not wait for the disk; what must comes
//! after it, in one that does, and takes the other with it.

use super::Opening;
use super::trouble::Trouble;
use crate::ports::StoreError;
use crate::store::sql::{Fault, Sql, values};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use sqlx::{Connection, SqliteConnection};
use tokio::sync::{mpsc, oneshot};
use tracing::warn;

/// What may wait; who comes then waits for a place.
const WAITING: usize = 1_024;
/// What goes into one transaction.
const MAX_GROUP: usize = 256;

/// The way to the task that writes.
#[derive(Clone)]
pub(super) struct Writer {
    orders: mpsc::Sender<Order>,
}

enum Order {
    Write {
        durable: bool,
        job: Box<dyn Job>,
    },
    /// Write the log back and empty it.
    Checkpoint(oneshot::Sender<Result<(), StoreError>>),
    Close(oneshot::Sender<()>),
}

/// Work and who waits for it.
trait Job: Send {
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
    pub(super) fn start(connection: SqliteConnection, opening: Opening, trouble: Trouble) -> Self {
        let (orders, received) = mpsc::channel(WAITING);
        let line = Line { connection: Some(connection), opening, synced: false, trouble };
        tokio::spawn(line.serve(received));
        Self { orders }
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

    pub(super) async fn checkpoint(&self) -> Result<(), StoreError> {
        let (reply, replied) = oneshot::channel();
        self.orders.send(Order::Checkpoint(reply)).await.map_err(|_| ended())?;
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

/// The connection that writes.
struct Line {
    connection: Option<SqliteConnection>,
    opening: Opening,
    /// Whether commits wait for the disk.
    synced: bool,
    trouble: Trouble,
}

impl Line {
    async fn serve(mut self, mut orders: mpsc::Receiver<Order>) {
        while let Some(first) = orders.recv().await {
            let mut waiting = vec![first];
            while waiting.len() < MAX_GROUP
                && let Ok(order) = orders.try_recv()
            {
                waiting.push(order);
            }
            let (mut quick, mut safe, mut checkpoints, mut closing) = (vec![], vec![], vec![], None);
            for order in waiting {
                match order {
                    Order::Write { durable: false, job } => quick.push(job),
                    Order::Write { durable: true, job } => safe.push(job),
                    Order::Checkpoint(reply) => checkpoints.push(reply),
                    Order::Close(reply) => closing = Some(reply),
                }
            }
            self.group(quick, false).await;
            self.group(safe, true).await;
            if !checkpoints.is_empty() {
                let outcome = self.checkpoint().await.map_err(|fault| self.trouble.describe(fault));
                for reply in checkpoints {
                    let _ = reply.send(outcome.clone());
                }
            }
            if let Some(reply) = closing {
                if let Some(connection) = self.connection.take() {
                    // It ends with the process in any case.
                    let _ = connection.close().await;
                }
                let _ = reply.send(());
                return;
            }
        }
    }

    /// Runs jobs as one transaction; where that fails, each as its own, so that none fails for another's sake.
    async fn group(&mut self, mut jobs: Vec<Box<dyn Job>>, synced: bool) {
        if jobs.len() > 1 && self.transaction(&mut jobs, synced).await.is_ok() {
            for job in jobs {
                job.answer(Ok(()));
            }
            return;
        }
        for job in jobs {
            let mut alone = [job];
            let outcome = self.transaction(&mut alone, synced).await;
            let [job] = alone;
            job.answer(outcome.map_err(|fault| self.trouble.describe(fault)));
        }
    }

    async fn transaction(&mut self, jobs: &mut [Box<dyn Job>], synced: bool) -> Result<(), Fault> {
        let outcome = self.attempt(jobs, synced).await;
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

    async fn attempt(&mut self, jobs: &mut [Box<dyn Job>], synced: bool) -> Result<(), Fault> {
        let connection = match &mut self.connection {
            Some(connection) => connection,
            none => {
                self.synced = false;
                none.insert(self.opening.connect().await?)
            }
        };
        if self.synced != synced {
            let pragma = if synced { "PRAGMA synchronous = FULL" } else { "PRAGMA synchronous = NORMAL" };
            connection.run(pragma, values![]).await?;
            self.synced = synced;
        }
        connection.run("BEGIN IMMEDIATE", values![]).await?;
        for job in jobs {
            job.run(connection).await?;
        }
        connection.run("COMMIT", values![]).await?;
        Ok(())
    }

    async fn checkpoint(&mut self) -> Result<(), Fault> {
        if let Some(connection) = &mut self.connection {
            // Waits for readers that are under way, as long as for any lock.
            let rows = connection.rows("PRAGMA wal_checkpoint(TRUNCATE)", values![]).await?;
            if rows.first().is_some_and(|row| !matches!(row.int(0), Ok(0))) {
                warn!(
                    "another program reads the store: what was deleted stays in its log until that one ends"
                );
            }
        }
        Ok(())
    }
}
