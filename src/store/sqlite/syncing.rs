//! Waiting for the disk, beside the one that writes.
//!
//! In SQLite's log a transaction is complete when it is written, and durable when the log was synced after that. SQLite
//! would do so within the commit (`synchronous = FULL`), and all who come after would wait as well. So commits do not sync
//! (`NORMAL`), and the log's file is synced here, once for all who wait.

use super::writer::{self, Job, Order};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::sleep;
use tracing::warn;

/// How long to wait before trying again.
const AGAIN: Duration = Duration::from_millis(500);

/// The log's file.
pub(super) trait Log: Send + Sync + 'static {
    /// Ready when all that was written is on the disk. Blocks.
    fn sync(&self) -> io::Result<()>;
}

/// The log of the database at `path`.
pub(super) struct LogOf {
    path: PathBuf,
    /// Kept open: the system tells a descriptor of every failure since it was opened, but a new one only of those that nobody was
    /// told of.
    open: Mutex<Option<File>>,
}

impl LogOf {
    /// `path` has no symbolic links in it: SQLite puts the log beside the file itself. The directory is synced here: the log
    /// must be found again.
    pub(super) fn new(path: &Path) -> io::Result<Self> {
        let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty());
        File::open(directory.unwrap_or(Path::new(".")))?.sync_all()?;
        Ok(Self { path: super::beside(path, "-wal"), open: Mutex::new(None) })
    }
}

impl Log for LogOf {
    fn sync(&self) -> io::Result<()> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let there = fs::metadata(&self.path)?;
        let same = |file: &File| {
            file.metadata().is_ok_and(|open| (open.dev(), open.ino()) == (there.dev(), there.ino()))
        };
        let log = match open.take().filter(same) {
            Some(log) => log,
            // SQLite has its locks on other files, so that closing the former one frees none.
            None => File::open(&self.path)?,
        };
        open.insert(log).sync_data()
    }
}

/// The way to the task that syncs.
pub(super) struct Syncing {
    jobs: Option<mpsc::UnboundedSender<Box<dyn Job>>>,
    task: JoinHandle<()>,
}

impl Syncing {
    /// `orders` is the way to the one that writes; it is not kept from ending.
    pub(super) fn start(log: impl Log, orders: mpsc::WeakSender<Order>) -> Self {
        // Bounded by what may wait for the writer: each conversation has one call at a time.
        let (jobs, committed) = mpsc::unbounded_channel();
        Self { jobs: Some(jobs), task: tokio::spawn(serve(Arc::new(log), committed, orders)) }
    }

    /// Answers a job that is committed as soon as it is on the disk.
    pub(super) fn then_answer(&self, job: Box<dyn Job>) {
        if let Some(jobs) = &self.jobs {
            // The task ends with this sender.
            let _ = jobs.send(job);
        }
    }

    /// Takes nothing more. [`ended`](Self::ended) is to be awaited while the writer goes on: it may be needed.
    pub(super) fn end(&mut self) {
        self.jobs = None;
    }

    /// Ready when all that waited was answered.
    pub(super) async fn ended(&mut self) {
        // Nothing is to be done about a panic in there.
        let _ = (&mut self.task).await;
    }
}

async fn serve(
    log: Arc<dyn Log>,
    mut committed: mpsc::UnboundedReceiver<Box<dyn Job>>,
    orders: mpsc::WeakSender<Order>,
) {
    while let Some(first) = committed.recv().await {
        let mut jobs = vec![first];
        while let Ok(job) = committed.try_recv() {
            jobs.push(job);
        }
        if !settle(&log, &orders).await {
            // Whoever still waits is told by that.
            return;
        }
        for job in jobs {
            job.answer(Ok(()));
        }
    }
}

/// Returns when all that is committed is on the disk, however long that takes: it cannot be taken back any more. False if the
/// store was closed before.
async fn settle(log: &Arc<dyn Log>, orders: &mpsc::WeakSender<Order>) -> bool {
    let synced = {
        let log = Arc::clone(log);
        spawn_blocking(move || log.sync()).await
    };
    let error = match synced {
        Ok(Ok(())) => return true,
        Ok(Err(error)) => error.to_string(),
        Err(_) => "the runtime ends".to_owned(),
    };
    warn!(error, "the store's log could not be synced; writing it back to the file instead");
    // Asking the same again would prove nothing: the system forgets what it could not write. The log's content is written
    // once more, to another file, which SQLite syncs itself.
    while let Some(orders) = orders.upgrade() {
        match writer::checkpoint(&orders).await {
            Ok(true) => return true,
            Ok(false) => {}
            Err(error) => warn!(%error, "nor could that be done; trying again until it can"),
        }
        drop(orders);
        sleep(AGAIN).await;
    }
    false
}
