//! The port over a database: who has what in this process, journals, and what runs in the background.

use super::archive::{self, Archive, Deleted, Entry, Report, Summary};
use super::keys::{Keys, Seal};
use super::lease::Pulse;
use super::process::Process;
use super::records::{self, Batch, Lease, Quick};
use super::rekey::{self, Rekeyed};
use super::retention::{self, When};
use super::sql::{Driver, Fault, Left};
use super::{Settings, history, lease};
use crate::ports::{Journal, Store, StoreError};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use sotto_core::engine::record::{History, Page, Record};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::time::{MissedTickBehavior, interval, sleep};
use tracing::warn;

/// How often old things are looked for.
const HOUSEKEEPING: Duration = Duration::from_secs(60);

/// Conversations in a database.
pub(super) struct Database<D: Driver> {
    shared: Arc<Shared<D>>,
}

pub(super) struct Shared<D: Driver> {
    pub(super) driver: D,
    pub(super) settings: Settings,
    pub(super) keys: Keys,
    pub(super) process: Process,
    pulse: Pulse,
    holds: Holds,
    runtime: Handle,
    closed: AtomicBool,
}

impl<D: Driver> Database<D> {
    /// Begins: from here on others see that this process lives.
    pub(super) async fn begin(driver: D, settings: Settings, process: Process) -> Result<Self, StoreError> {
        let keys = Keys { masters: settings.keys.clone(), exist: driver.has_keys() };
        let shared = Arc::new(Shared {
            closed: AtomicBool::new(false),
            driver,
            settings,
            keys,
            process,
            pulse: Pulse::default(),
            holds: Holds::default(),
            runtime: Handle::current(),
        });
        shared.beat().await?;
        shared.bring_in().await;
        tokio::spawn(keep_beating(Arc::downgrade(&shared)));
        tokio::spawn(keep_tidy(Arc::downgrade(&shared)));
        Ok(Self { shared })
    }

    /// Does something that is brought to its end even if nobody waits for it any more.
    fn detached<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> BoxFuture<'static, Result<T, StoreError>> {
        detached(&self.shared.runtime, work)
    }
}

fn detached<T: Send + 'static>(
    runtime: &Handle,
    work: impl Future<Output = Result<T, StoreError>> + Send + 'static,
) -> BoxFuture<'static, Result<T, StoreError>> {
    let task = runtime.spawn(work);
    async move {
        task.await
            .unwrap_or_else(|_| Err(StoreError::Unavailable("the store's runtime has ended".to_owned())))
    }
    .boxed()
}

impl<D: Driver> Store for Database<D> {
    fn open(&self, conversation: &str) -> BoxFuture<'static, Result<Box<dyn Journal>, StoreError>> {
        let (shared, name) = (Arc::clone(&self.shared), conversation.to_owned());
        self.detached(async move {
            let journal = shared.take(name).await?;
            if let Seal::Locked(locked) = &journal.seal {
                return Err(locked.as_error());
            }
            Ok(Box::new(journal) as Box<dyn Journal>)
        })
    }
}

impl<D: Driver> Archive for Database<D> {
    fn conversations(&self) -> BoxStream<'static, Result<Summary, StoreError>> {
        archive::conversations(Arc::clone(&self.shared))
    }

    fn entries(&self, conversation: &str) -> BoxStream<'static, Result<Entry, StoreError>> {
        archive::entries(Arc::clone(&self.shared), conversation.to_owned())
    }

    fn delete(&self, conversation: &str) -> BoxFuture<'static, Result<Deleted, StoreError>> {
        let (shared, name) = (Arc::clone(&self.shared), conversation.to_owned());
        self.detached(async move {
            if !archive::exists(&shared, &name).await? {
                return Ok(Deleted::Nothing);
            }
            shared.delete(name).await?;
            let is_rebuilt = shared.driver.rebuild().await;
            Ok(match (shared.driver.erase().await?, is_rebuilt) {
                (false, _) => Deleted::FromTables,
                (true, false) => Deleted::Overwritten,
                (true, true) => Deleted::FromDisk,
            })
        })
    }

    fn check(&self) -> BoxFuture<'static, Result<Report, StoreError>> {
        archive::check(Arc::clone(&self.shared)).boxed()
    }

    fn tidy(&self) -> BoxFuture<'static, Result<(), StoreError>> {
        let shared = Arc::clone(&self.shared);
        self.detached(async move { retention::tidy(&shared, When::Now).await })
    }

    fn rekey(&self) -> BoxFuture<'static, Result<Rekeyed, StoreError>> {
        let shared = Arc::clone(&self.shared);
        self.detached(async move { rekey::rekey(&shared).await })
    }

    fn close(&self) -> BoxFuture<'static, ()> {
        let shared = Arc::clone(&self.shared);
        async move {
            shared.closed.store(true, Ordering::Relaxed);
            shared.holds.all_free().await;
            let process = Arc::new(shared.process.clone());
            let farewell = shared.driver.write(false, move |connection| {
                let process = Arc::clone(&process);
                async move { lease::farewell(connection, &process).await }.boxed()
            });
            if let Err(error) = farewell.await {
                warn!(%error, "the store could not be told that this process ends");
            }
            shared.driver.close().await;
        }
        .boxed()
    }
}

impl<D: Driver> Shared<D> {
    async fn beat(&self) -> Result<(), StoreError> {
        let process = Arc::new(self.process.clone());
        let at = now();
        let beat = self.driver.write(false, move |connection| {
            let process = Arc::clone(&process);
            async move { lease::beat(connection, &process).await }.boxed()
        });
        beat.await?;
        self.pulse.beat(at);
        Ok(())
    }

    /// Brings in what processes left behind that are gone.
    async fn bring_in(self: &Arc<Self>) {
        let owners = match self.driver.left_behind() {
            Ok(owners) => owners,
            Err(error) => return warn!(%error, "what processes left behind that are gone is not found"),
        };
        for owner in owners {
            if let Err(error) = self.bring_in_of(owner).await {
                warn!(%error, "what a process left behind that is gone could not be brought in");
            }
        }
    }

    async fn bring_in_of(self: &Arc<Self>, owner: String) -> Result<(), StoreError> {
        let shared = Arc::clone(self);
        let bring_in = self.driver.write(false, move |connection| {
            let (shared, owner) = (Arc::clone(&shared), owner.clone());
            async move {
                if !lease::is_gone(connection, &shared.process, &owner).await? {
                    return Ok(Vec::new());
                }
                let left = shared.driver.left_by(&owner).map_err(Fault::Refused)?;
                records::bring_in_late(connection, &left.stanzas).await?;
                Ok(left.files)
            }
            .boxed()
        });
        self.driver.brought_in(&bring_in.await?)
    }

    async fn take(self: &Arc<Self>, name: String) -> Result<Owned<D>, StoreError> {
        let hold = self.holds.take(&name).await?;
        let known = self.pulse.silences(now());
        let (shared, name) = (Arc::clone(self), Arc::new(name));
        let lease = self.driver.write(true, move |connection| {
            let (shared, name) = (Arc::clone(&shared), Arc::clone(&name));
            async move {
                let (process, namespace) = (&shared.process, &shared.settings.namespace);
                let (lease, appends, gone) = lease::take(connection, process, namespace, &name).await?;
                let left = gone.map_or(Ok(Left::default()), |gone| shared.driver.left_by(&gone));
                let mut left = left.unwrap_or_else(|error| {
                    warn!(%error, "what was said last in a conversation cannot be read; it goes on without that");
                    Left::default()
                });
                for stanzas in &mut left.stanzas {
                    stanzas.lease.pass_to(lease);
                }
                records::bring_in_late(connection, &left.stanzas).await?;
                let seal = shared.keys.for_writing(connection, lease.conversation).await?;
                Ok((lease, appends, seal, left.files))
            }
            .boxed()
        });
        let (lease, appends, seal, files) = lease.await?;
        if let Err(error) = self.driver.brought_in(&files) {
            warn!(%error, "what a process left behind is in the store, and could not be removed where it was");
        }
        let appends = Arc::new(tokio::sync::Mutex::new(appends));
        let known = Arc::new(AtomicU64::new(known.unwrap_or_default()));
        Ok(Owned { shared: Arc::clone(self), lease, seal, appends, known, hold: Some(hold) })
    }

    /// Deletes a conversation, as whoever has it: nobody else may have it.
    pub(super) async fn delete(self: &Arc<Self>, name: String) -> Result<(), StoreError> {
        let owned = self.take(name).await?;
        retention::delete(&self.driver, &self.keys, owned.lease).await
    }

    async fn free(&self, lease: Lease) -> Result<(), StoreError> {
        self.driver.write(false, move |connection| lease::free(connection, lease).boxed()).await
    }
}

/// The store, unless nobody has it any more or it was closed.
fn still_open<D: Driver>(shared: &Weak<Shared<D>>) -> Option<Arc<Shared<D>>> {
    shared.upgrade().filter(|shared| !shared.closed.load(Ordering::Relaxed))
}

async fn keep_beating<D: Driver>(shared: Weak<Shared<D>>) {
    let mut ticks = interval(lease::HEARTBEAT);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let Some(shared) = still_open(&shared) else { return };
        if let Err(error) = shared.beat().await {
            warn!(%error, "the store cannot be told that this process lives; others may take its conversations");
        }
    }
}

async fn keep_tidy<D: Driver>(shared: Weak<Shared<D>>) {
    loop {
        sleep(HOUSEKEEPING).await;
        let Some(shared) = still_open(&shared) else { return };
        shared.bring_in().await;
        if let Err(error) = retention::tidy(&shared, When::Due).await {
            warn!(%error, "what is too old could not be removed from the store");
        }
    }
}

/// A conversation that is ours.
struct Owned<D: Driver> {
    shared: Arc<Shared<D>>,
    lease: Lease,
    seal: Seal,
    /// How many calls have written to it; held by the one that is writing.
    appends: Arc<tokio::sync::Mutex<i64>>,
    /// How often this process had been silent when this was last known to be ours; 0 is never.
    known: Arc<AtomicU64>,
    /// There until it is dropped.
    hold: Option<Hold>,
}

impl<D: Driver> Journal for Owned<D> {
    fn history(&self) -> BoxFuture<'static, Result<History, StoreError>> {
        let (shared, lease, seal) = (Arc::clone(&self.shared), self.lease, self.seal.clone());
        async move {
            let load = shared.driver.read(move |connection| {
                async move { history::load(connection, lease.conversation, &seal).await }.boxed()
            });
            let loaded = load.await?;
            let reserve =
                shared.driver.write(true, move |connection| history::reserve(connection, lease).boxed());
            let (number, reserved) = reserve.await?;
            Ok(History { number, reserved, ..loaded })
        }
        .boxed()
    }

    fn append(&self, records: Vec<Record>, durable: bool) -> BoxFuture<'static, Result<(), StoreError>> {
        let (shared, lease) = (Arc::clone(&self.shared), self.lease);
        let batch =
            Batch::new(records, shared.settings.reasoning, now(), lease.conversation, self.seal.clone());
        let batch = match batch {
            Ok(batch) => Arc::new(batch),
            Err(error) => return async { Err(error) }.boxed(),
        };
        if batch.is_empty() {
            return async { Ok(()) }.boxed();
        }
        let durable = durable || batch.reserves();
        if !durable
            && let Some(quick) = batch.quick(lease)
            && let Ok(_in_turn) = self.appends.try_lock()
            && self.append_at_once(quick)
        {
            return async { Ok(()) }.boxed();
        }
        let (appends, known) = (Arc::clone(&self.appends), Arc::clone(&self.known));
        // Brought to its end even if nobody waits for it any more: the next one must know what became of it.
        detached(&self.shared.runtime, async move {
            let mut appends = appends.lock().await;
            if !durable
                && let Some(quick) = batch.quick(lease)
                && shared.driver.write_quickly(quick).await
            {
                return Ok(());
            }
            let (before, silences) = (*appends, shared.pulse.silences(now()));
            let append = shared.driver.write(durable, move |connection| {
                let batch = Arc::clone(&batch);
                async move { records::append(connection, lease, before, &batch).await }.boxed()
            });
            append.await?;
            *appends += 1;
            known.store(silences.unwrap_or_default(), Ordering::Release);
            Ok(())
        })
    }

    fn stanzas(&self, after: i32, until: i32, most: usize) -> BoxFuture<'static, Result<Page, StoreError>> {
        let (shared, conversation) = (Arc::clone(&self.shared), self.lease.conversation);
        let seal = self.seal.clone();
        async move {
            let page = shared.driver.read(move |connection| {
                async move { history::page(connection, conversation, &seal, (after, until), most).await }
                    .boxed()
            });
            page.await
        }
        .boxed()
    }
}

impl<D: Driver> Owned<D> {
    /// Where nobody can have taken the conversation, what is kept without asking the database is kept as well.
    fn append_at_once(&self, quick: Quick) -> bool {
        let known = self.known.load(Ordering::Acquire);
        let is_ours = || self.shared.pulse.silences(now()) == Some(known);
        // Again after it was written: this process may have been stopped in between.
        is_ours() && self.shared.driver.write_at_once(quick, known) && is_ours()
    }
}

impl<D: Driver> Drop for Owned<D> {
    fn drop(&mut self) {
        let (shared, lease, hold) = (Arc::clone(&self.shared), self.lease, self.hold.take());
        let Some(hold) = hold else { return };
        hold.is_being_freed();
        let runtime = shared.runtime.clone();
        runtime.spawn(async move {
            let mut result = shared.free(lease).await;
            // Whoever opens it here next need not wait longer: this process may take what it has.
            drop(hold);
            while let Err(StoreError::Unavailable(error)) = result {
                warn!(error, "a conversation could not be given free yet");
                sleep(lease::HEARTBEAT).await;
                result = shared.free(lease).await;
            }
        });
    }
}

/// The time, in milliseconds since the Unix epoch.
pub(super) fn now() -> i64 {
    // A clock before 1970 is as good as none.
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// The conversations that this process has.
#[derive(Clone, Default)]
struct Holds(Arc<Table>);

#[derive(Default)]
struct Table {
    /// Whether each is about to be given free.
    held: Mutex<HashMap<String, bool>>,
    freed: Notify,
}

/// One of them, until dropped.
struct Hold {
    table: Arc<Table>,
    name: String,
}

impl Holds {
    /// Takes one. One that is being given free is waited for.
    async fn take(&self, name: &str) -> Result<Hold, StoreError> {
        loop {
            let freed = self.0.freed.notified();
            {
                let mut held = self.0.held();
                match held.get(name) {
                    None => {
                        held.insert(name.to_owned(), false);
                        return Ok(Hold { table: Arc::clone(&self.0), name: name.to_owned() });
                    }
                    Some(false) => {
                        let held = "the conversation is held by this process already".to_owned();
                        return Err(StoreError::Held(held));
                    }
                    Some(true) => {}
                }
            }
            freed.await;
        }
    }

    /// Waits until all that are being given free are free.
    async fn all_free(&self) {
        loop {
            let freed = self.0.freed.notified();
            if !self.0.held().values().any(|being_freed| *being_freed) {
                return;
            }
            freed.await;
        }
    }
}

impl Table {
    fn held(&self) -> MutexGuard<'_, HashMap<String, bool>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Hold {
    fn is_being_freed(&self) {
        self.table.held().insert(self.name.clone(), true);
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.table.held().remove(&self.name);
        self.table.freed.notify_waiters();
    }
}
