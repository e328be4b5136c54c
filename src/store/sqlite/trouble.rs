//! What can be wrong with the file, in words that say what to do.

use crate::ports::StoreError;
use crate::store::sql::Fault;
use std::io;
use std::path::{Path, PathBuf};

/// Describes what is wrong with one file.
#[derive(Clone, Debug)]
pub(super) struct Trouble {
    path: PathBuf,
}

// Result codes of SQLite; the lowest byte of an extended code is one of these.
const BUSY: u32 = 5;
const LOCKED: u32 = 6;
const READ_ONLY: u32 = 8;
const IO_ERROR: u32 = 10;
const CORRUPT: u32 = 11;
const FULL: u32 = 13;
const CANNOT_OPEN: u32 = 14;
const NO_DATABASE: u32 = 26;

impl Trouble {
    pub(super) fn new(path: &Path) -> Self {
        Self { path: path.to_owned() }
    }

    /// Making the file or its directory failed.
    pub(super) fn with_file(&self, error: &io::Error) -> StoreError {
        let path = self.path.display();
        match error.kind() {
            io::ErrorKind::StorageFull => self.full(),
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                StoreError::Broken(format!(
                    "the store {path} cannot be written ({error}); make the file and its directory writable, or set store.url \
                 to another place"
                ))
            }
            io::ErrorKind::IsADirectory => StoreError::Broken(format!(
                "the store {path} is a directory; set store.url to a file in it, as sqlite:{path}/sotto.db"
            )),
            _ => StoreError::Broken(format!("the store {path} cannot be opened: {error}")),
        }
    }

    /// Another process is in the way; it may be over soon.
    #[expect(clippy::unused_self, reason = "says the same as the others, about the same file")]
    pub(super) fn is_busy(&self, fault: &Fault) -> bool {
        matches!(fault, Fault::Driver(error) if matches!(code(error), Some(BUSY | LOCKED)))
    }

    pub(super) fn describe(&self, fault: Fault) -> StoreError {
        let error = match fault {
            Fault::Refused(error) => return error,
            Fault::Driver(error) => error,
        };
        let path = self.path.display();
        match code(&error) {
            Some(FULL) => self.full(),
            Some(BUSY | LOCKED) => StoreError::Unavailable(format!(
                "the store {path} is locked by another program; see who has it open (fuser {path})"
            )),
            Some(READ_ONLY) => StoreError::Unavailable(format!(
                "the store {path} is read-only; make the file and its directory writable"
            )),
            Some(IO_ERROR) => StoreError::Unavailable(format!(
                "the disk under the store {path} does not work as it should: {error}"
            )),
            Some(CANNOT_OPEN) => StoreError::Unavailable(format!(
                "the store {path} cannot be opened; make the file and its directory readable and writable"
            )),
            Some(CORRUPT) => StoreError::Broken(format!(
                "the store {path} is damaged ({error}); stop Sotto and restore a backup, or save what can be read with \
                 sqlite3's .recover"
            )),
            Some(NO_DATABASE) => StoreError::Broken(format!(
                "{path} is not an SQLite database; set store.url to another file, or move this one away"
            )),
            _ => match error {
                sqlx::Error::PoolTimedOut => {
                    StoreError::Unavailable(format!("the store {path} is too busy to be read"))
                }
                sqlx::Error::PoolClosed | sqlx::Error::WorkerCrashed => {
                    StoreError::Unavailable(format!("the store {path} was closed"))
                }
                error => StoreError::Broken(format!("the store {path} does not work: {error}")),
            },
        }
    }

    fn full(&self) -> StoreError {
        let path = self.path.display();
        StoreError::Unavailable(format!("the disk is full: the store {path} needs free space"))
    }
}

/// SQLite's result code, without its extension.
fn code(error: &sqlx::Error) -> Option<u32> {
    let code: u32 = error.as_database_error()?.code()?.parse().ok()?;
    Some(code & 0xff)
}
