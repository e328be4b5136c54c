//! What is said, on its way into the tables.
//!
//! A sentence is sent when its stanza survives the end of this process, so whatever that takes, every sentence takes. To SQLite
//! it is a transaction, or two changes of threads; here it is one write to a small file beside the database, whose pages are
//! there already. The tables get it with whatever is written next ([`Writer`](super::writer::Writer)), which is the heartbeat
//! at the latest, or when somebody reads, or the spool is half full. What a process left behind that ended before that is
//! brought in by whoever takes its conversations, or opens the store next.
//!
//! The file is this process's alone. Others take it for theirs when this process was silent for long; should it live on, it
//! begins another one: a spool is for a span of time without such silence, which its callers number.

mod entry;

use crate::store::process::Process;
use crate::store::records::Quick;
use crate::store::sql::Left;
use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;
use tracing::warn;

/// How much may be on its way; whoever comes then takes the longer way.
const CAPACITY: usize = 256 << 10;
/// How much of the file is there from the beginning, so that writing needs no new page of it.
const READY: usize = 16 << 10;

/// The spool of this process.
pub(super) struct Spool {
    /// The path of the database.
    database: PathBuf,
    /// Whose it is.
    process: String,
    state: Mutex<State>,
    half_full: Notify,
}

#[derive(Default)]
struct State {
    file: Option<Open>,
    /// What is not in the tables yet, in order.
    waiting: VecDeque<Arc<Quick>>,
    is_closed: bool,
    /// It was said that it cannot be written, and it could not since.
    is_told: bool,
}

struct Open {
    file: File,
    path: PathBuf,
    span: u64,
    /// Where the next entry goes.
    end: usize,
}

impl Spool {
    pub(super) fn new(database: &Path, process: &Process) -> Self {
        Self {
            database: database.to_owned(),
            process: process.id.clone(),
            state: Mutex::default(),
            half_full: Notify::new(),
        }
    }

    /// Keeps stanzas. False: it was not done.
    pub(super) fn write(&self, quick: Quick, span: u64) -> bool {
        let bytes = entry::encode(&quick);
        let mut state = self.state();
        let is_written = self.append(&mut state, &bytes, span).unwrap_or_else(|error| {
            if !std::mem::replace(&mut state.is_told, true) {
                let path = self.path(span);
                warn!(%error, path = %path.display(), "what is said takes the longer way to the store");
            }
            false
        });
        if is_written {
            state.is_told = false;
            state.waiting.push_back(Arc::new(quick));
            if state.file.as_ref().is_some_and(|open| open.end > CAPACITY / 2) {
                self.half_full.notify_one();
            }
        }
        is_written
    }

    /// Ready when what waits should be written to the tables now; false if nothing ever will be again.
    pub(super) async fn half_full(&self) -> bool {
        self.half_full.notified().await;
        !self.state().is_closed
    }

    /// What waits to be written to the tables.
    pub(super) fn waiting(&self) -> Vec<Arc<Quick>> {
        self.state().waiting.iter().cloned().collect()
    }

    /// So many of those that wait, from the first on, are in the tables.
    pub(super) fn written(&self, count: usize) {
        let mut state = self.state();
        state.waiting.drain(..count);
        // One that cannot be used again is begun anew: nothing waits that would be missed in it.
        if state.waiting.is_empty()
            && let Some(open) = state.file.take_if(|open| !open.clear())
        {
            open.remove();
        }
    }

    /// Whether all that was ever in it is in the tables, and gone from here.
    pub(super) fn is_clear(&self) -> bool {
        self.state().file.as_ref().is_none_or(|open| open.end == 0)
    }

    /// Takes nothing more. What is not in the tables stays in the file.
    pub(super) fn close(&self) {
        let mut state = self.state();
        state.is_closed = true;
        self.half_full.notify_one();
        if let Some(open) = state.file.take()
            && state.waiting.is_empty()
        {
            open.remove();
        }
    }

    /// Writes an entry to the file of this span, which is begun where it is not there; false if there is no room for it.
    fn append(&self, state: &mut State, bytes: &[u8], span: u64) -> io::Result<bool> {
        let State { file, waiting, is_closed, .. } = state;
        // Nor does anything that was to be written before a silence come after one.
        if *is_closed || file.as_ref().is_some_and(|open| open.span > span) {
            return Ok(false);
        }
        if let Some(open) = file.as_mut().filter(|open| open.span == span) {
            return open.append(bytes);
        }
        let mut open = Open::create(self.path(span), span)?;
        for quick in &*waiting {
            open.append(&entry::encode(quick))?;
        }
        let is_written = open.append(bytes)?;
        if let Some(former) = file.replace(open) {
            former.remove();
        }
        Ok(is_written)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn path(&self, span: u64) -> PathBuf {
        super::beside(&self.database, &format!("{SUFFIX}{}.{span}", self.process))
    }
}

impl Open {
    fn create(path: PathBuf, span: u64) -> io::Result<Self> {
        // What people said is for nobody else on the machine.
        let file = OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(&path)?;
        let open = Self { file, path, span, end: 0 };
        match open.file.write_all_at(&[0; READY], 0) {
            Ok(()) => Ok(open),
            Err(error) => {
                open.remove();
                Err(error)
            }
        }
    }

    /// What was written of an entry before this failed is overwritten by the next one.
    fn append(&mut self, bytes: &[u8]) -> io::Result<bool> {
        if self.end + bytes.len() > CAPACITY {
            return Ok(false);
        }
        self.file.write_all_at(bytes, self.end as u64)?;
        self.end += bytes.len();
        Ok(true)
    }

    /// Overwrites all that is in it; its first pages stay. False if it is not fit to be used again: that could not be done, or
    /// somebody has removed it.
    fn clear(&mut self) -> bool {
        let cleared = self.file.write_all_at(&vec![0; self.end], 0);
        let cut = if self.end > READY { self.file.set_len(READY as u64) } else { Ok(()) };
        self.end = 0;
        let is_there = self.file.metadata().is_ok_and(|file| file.nlink() > 0);
        cleared.is_ok() && cut.is_ok() && is_there
    }

    fn remove(self) {
        // Somebody else may have, and what is in it twice does no harm.
        let _ = wipe(&self.path);
    }
}

/// Overwrites a file and removes it, if it is there.
fn wipe(path: &Path) -> io::Result<()> {
    let wiped = OpenOptions::new().write(true).open(path).and_then(|file| {
        let size = file.metadata()?.len().min(CAPACITY as u64);
        file.write_all_at(&vec![0; size as usize], 0)
    });
    match wiped.and_then(|()| fs::remove_file(path)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

/// What the names of such files have after that of the database, before their process's.
const SUFFIX: &str = "-spool-";

/// The processes other than this one whose spools there are.
pub(super) fn owners(database: &Path, process: &Process) -> io::Result<Vec<String>> {
    let mut owners: Vec<_> = spools(database)?.into_iter().map(|(owner, _)| owner).collect();
    owners.retain(|owner| *owner != process.id);
    owners.dedup();
    Ok(owners)
}

/// What is in the spools of a process.
pub(super) fn left_by(database: &Path, owner: &str) -> io::Result<Left> {
    let mut left = Left::default();
    for (_, path) in spools(database)?.into_iter().filter(|(of, _)| of == owner) {
        match fs::read(&path) {
            Ok(bytes) => {
                left.stanzas.extend(entry::decode(&bytes));
                left.files.push(path);
            }
            // Another was quicker, and brought it in.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(left)
}

/// Removes spools of which all was brought in. A process that is not gone after all has begun another one.
pub(super) fn remove(files: &[PathBuf]) -> io::Result<()> {
    files.iter().try_for_each(|path| wipe(path))
}

/// All spools beside a database with whose they are, sorted.
fn spools(database: &Path) -> io::Result<Vec<(String, PathBuf)>> {
    let directory = database.parent().filter(|directory| !directory.as_os_str().is_empty());
    let prefix = super::beside(Path::new(database.file_name().unwrap_or_default()), SUFFIX);
    let prefix = prefix.to_string_lossy();
    let mut spools = Vec::new();
    for file in fs::read_dir(directory.unwrap_or(Path::new(".")))? {
        let file = file?;
        let name = file.file_name();
        let owner = name.to_str().and_then(|name| name.strip_prefix(&*prefix)?.rsplit_once('.'));
        if let Some((owner, span)) = owner
            && span.parse::<u64>().is_ok()
        {
            spools.push((owner.to_owned(), file.path()));
        }
    }
    spools.sort();
    Ok(spools)
}

#[cfg(test)]
mod tests;
