//! Stores: where conversations are kept. The port is [`crate::ports::Store`]; [`open`] gives the adapter that fits a [`Place`].
//!
//! | module | what it is for |
//! |---|---|
//! | [`memory`] | a store that forgets when the process ends |
//! | [`sqlite`], [`postgres`] | the two databases: connecting, transactions, what is wrong in words |
//! | `database` | the port over either of them: leases in this process, journals |
//! | `lease`, `records`, `history`, `retention`, `archive` | what is written and read, as SQL that both understand |
//! | `seal`, `keys`, `rekey`, `sealed` | encryption at rest: how, with which keys, with others from now on, and can all be read? |
//! | `schema` | the tables, and how they came to be |
//! | `sql` | what is asked of a connection and of a database |
//! | [`process`] | who this process is, and whether another one is still there |
//!
//! No type of a driver leaves this module.

mod archive;
mod database;
mod history;
mod keys;
mod lease;
pub mod memory;
pub mod postgres;
pub mod process;
mod records;
mod rekey;
mod retention;
mod schema;
mod seal;
mod sealed;
mod sql;
pub mod sqlite;

pub use archive::{Archive, Deleted, Entry, Report, Summary};
pub use rekey::Rekeyed;
pub use seal::{BadKey, MasterKeys};

use crate::ports::StoreError;
use process::Process;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Where conversations are kept.
#[derive(Clone, PartialEq, Eq)]
pub enum Place {
    /// In this process, and lost with it.
    Memory,
    /// In a file.
    Sqlite(PathBuf),
    /// In a PostgreSQL database; its URL, which may hold a password.
    Postgres(String),
}

/// How long and how much is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Whose conversations these are: two servers may both have a room of the same name.
    pub namespace: String,
    /// Stanzas kept per conversation.
    pub replay_count: u64,
    /// How long a stanza is kept.
    pub replay_window: Duration,
    /// Conversations that were not touched for so long are deleted; `None`: never.
    pub retention: Option<Duration>,
    /// What is kept of the model's reasoning.
    pub reasoning: KeptReasoning,
    /// What conversations are sealed with; `None`: they are not, and those that are cannot be read.
    pub keys: Option<MasterKeys>,
}

impl Settings {
    /// What holds where nothing is configured.
    pub fn new(namespace: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            replay_count: 10_000,
            replay_window: Duration::from_secs(24 * 3_600),
            retention: None,
            reasoning: KeptReasoning::Keep,
            keys: None,
        }
    }
}

/// What is kept of the model's reasoning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeptReasoning {
    /// All of it.
    Keep,
    /// Its text for as long as it may be asked for again.
    Replay,
    /// None of it.
    Nothing,
}

/// Opens the store of a place, in the name of this process. Must be called in a Tokio runtime.
pub async fn open(place: &Place, settings: Settings) -> Result<Arc<dyn Archive>, StoreError> {
    let process = Process::this();
    Ok(match place {
        Place::Memory => Arc::new(memory::Memory::default()),
        Place::Sqlite(path) => sqlite::open(path, settings, process).await?,
        Place::Postgres(url) => postgres::open(url, settings, process).await?,
    })
}
