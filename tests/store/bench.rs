//! A store of each kind for one test, and records to put into it.

use futures_util::TryStreamExt;
use sotto::ports::{Journal, StoreError};
use sotto::store::memory::Memory;
use sotto::store::process::Process;
use sotto::store::{Archive, MasterKeys, Settings, postgres, sqlite};
use sotto_core::engine::event::TurnEnd;
use sotto_core::engine::people::Audience;
use sotto_core::engine::policy::Taint;
use sotto_core::engine::record::{
    Answer, Begun, BrokenOff, Joined, Message, Reasoning, Record, Spent, Stanza, Stopped, Variation,
};
use sotto_core::model::Usage;
use sotto_core::time::Time;
use sotto_core::wire::body::VariationMode;
use sotto_harness::postgres::{Postgres, TestDatabase};
use sqlx::{Connection, Executor};
use std::path::PathBuf;
use std::sync::Arc;
use tempfile::TempDir;

/// Where the store of a test is.
pub(crate) struct Bench {
    place: Place,
    /// What it is sealed with, unless a test says otherwise.
    keys: Option<MasterKeys>,
}

enum Place {
    Memory(Memory),
    Sqlite(TempDir),
    Postgres(TestDatabase),
}

impl Bench {
    fn at(place: Place) -> Self {
        Self { place, keys: None }
    }

    /// The same with everything in it sealed.
    pub(crate) fn sealed(self) -> Self {
        Self { keys: Some(masters(&[&new_key()])), ..self }
    }

    pub(crate) fn memory() -> Self {
        Self::at(Place::Memory(Memory::default()))
    }

    pub(crate) fn sqlite() -> Self {
        Self::at(Place::Sqlite(TempDir::new().expect("there is room for temporary files")))
    }

    pub(crate) async fn postgres() -> Self {
        Self::on(Postgres::shared().await.database())
    }

    /// A database of PostgreSQL.
    pub(crate) fn on(database: TestDatabase) -> Self {
        Self::at(Place::Postgres(database))
    }

    /// The file of SQLite.
    pub(crate) fn file(&self) -> PathBuf {
        self.sqlite_file().expect("only SQLite has a file")
    }

    /// The same, if it is SQLite.
    pub(crate) fn sqlite_file(&self) -> Option<PathBuf> {
        match &self.place {
            Place::Sqlite(directory) => Some(directory.path().join("sotto.db")),
            _ => None,
        }
    }

    /// The store, as another process would open it.
    pub(crate) async fn open(&self) -> Arc<dyn Archive> {
        self.open_with(settings(), Process::this()).await
    }

    pub(crate) async fn open_with(&self, settings: Settings, process: Process) -> Arc<dyn Archive> {
        self.try_open(settings, process).await.expect("the store can be opened")
    }

    pub(crate) async fn try_open(
        &self,
        settings: Settings,
        process: Process,
    ) -> Result<Arc<dyn Archive>, StoreError> {
        let settings = Settings { keys: settings.keys.or_else(|| self.keys.clone()), ..settings };
        match &self.place {
            Place::Memory(memory) => Ok(Arc::new(memory.clone())),
            Place::Sqlite(_) => sqlite::open(&self.file(), settings, process).await,
            Place::Postgres(database) => postgres::open(database.url(), settings, process).await,
        }
    }

    /// What a statement for PostgreSQL counts.
    pub(crate) async fn count(&self, statement: &'static str) -> i64 {
        let Place::Postgres(database) = &self.place else { panic!("this is not PostgreSQL") };
        let mut connection = sqlx::PgConnection::connect(database.url()).await.expect("the server runs");
        sqlx::query_scalar(statement).fetch_one(&mut connection).await.expect("the statement is sound")
    }

    /// Someone who reads the file of SQLite and has not ended: dropped, it has.
    pub(crate) async fn reader(&self) -> sqlx::SqliteConnection {
        let url = format!("sqlite:{}", self.file().display());
        let mut connection = sqlx::SqliteConnection::connect(&url).await.expect("the file is there");
        connection.execute("BEGIN; SELECT count(*) FROM records").await.expect("the statement is sound");
        connection
    }

    /// Runs one of PostgreSQL's own programs on the database.
    pub(crate) fn tool(&self, program: &str, arguments: &[&str]) {
        let Place::Postgres(database) = &self.place else { panic!("this is not PostgreSQL") };
        database.run(program, arguments);
    }

    /// The oldest version of the tables whose programs may open the store.
    pub(crate) async fn works_with(&self) -> i64 {
        let select = "SELECT works_with FROM sotto_schema";
        let Some(file) = self.sqlite_file() else { return self.count(select).await };
        let url = format!("sqlite:{}", file.display());
        let mut connection = sqlx::SqliteConnection::connect(&url).await.expect("the file is there");
        sqlx::query_scalar(select).fetch_one(&mut connection).await.expect("the statement is sound")
    }

    /// Runs a statement behind the store's back.
    pub(crate) async fn run(&self, statement: &'static str) {
        match &self.place {
            Place::Memory(_) => panic!("there is no SQL in memory"),
            Place::Sqlite(_) => {
                let url = format!("sqlite:{}", self.file().display());
                let mut connection = sqlx::SqliteConnection::connect(&url).await.expect("the file is there");
                connection.execute(statement).await.expect("the statement is sound");
                connection.close().await.expect("it was open");
            }
            Place::Postgres(database) => {
                let mut connection =
                    sqlx::PgConnection::connect(database.url()).await.expect("the server runs");
                connection.execute(statement).await.expect("the statement is sound");
                connection.close().await.expect("it was open");
            }
        }
    }
}

pub(crate) fn settings() -> Settings {
    Settings::new("livekit.example")
}

pub(crate) fn new_key() -> String {
    MasterKeys::generate().expect("the system has random numbers")
}

pub(crate) fn masters(keys: &[&String]) -> MasterKeys {
    let text: Vec<_> = keys.iter().map(|key| key.as_str()).collect();
    MasterKeys::parse(&text.join(",")).expect("they are good").expect("there are some")
}

/// A process on another machine: whether it lives is seen by its heartbeat alone.
pub(crate) fn elsewhere() -> Process {
    Process { realm: "another machine".to_owned(), host: "far-away".to_owned(), ..Process::this() }
}

pub(crate) async fn journal(store: &Arc<dyn Archive>, name: &str) -> Box<dyn Journal> {
    store.open(name).await.expect("nobody else has it")
}

/// All that is kept of a conversation.
pub(crate) async fn kept(store: &Arc<dyn Archive>, name: &str) -> Vec<Record> {
    let entries: Vec<_> = store.entries(name).try_collect().await.expect("the store can be read");
    entries.into_iter().map(|entry| entry.record).collect()
}

pub(crate) fn joined(identity: &str, number: i32) -> Record {
    Record::Joined(Joined { identity: identity.to_owned(), number, at: Time(1) })
}

pub(crate) fn message(id: &str) -> Record {
    message_of(id, "Hello.")
}

pub(crate) fn message_of(id: &str, text: &str) -> Record {
    Record::Message(Message {
        id: id.to_owned(),
        previous: None,
        from: "alice".to_owned(),
        name: "Alice".to_owned(),
        text: text.to_owned(),
        chat: false,
        at: Time(2),
    })
}

pub(crate) fn variation(target: &str) -> Record {
    Record::Variation(Variation {
        from: "alice".to_owned(),
        target: target.to_owned(),
        mode: VariationMode::Regenerate,
        text: None,
        at: Time(3),
    })
}

pub(crate) fn stopped(coming: &[&str]) -> Record {
    let coming = coming.iter().map(|&id| id.to_owned()).collect();
    Record::Stopped(Stopped { from: "alice".to_owned(), target: None, all: true, coming, at: Time(3) })
}

pub(crate) fn begun(message: &str, answer: &str, number: i32) -> Record {
    let (message, answer) = (message.to_owned(), answer.to_owned());
    Record::Begun(Begun { message, answer, number, taint: Taint::default(), at: Time(4) })
}

pub(crate) fn broken_off(message: &str, answer: &str) -> Record {
    let (message, answer) = (message.to_owned(), answer.to_owned());
    Record::BrokenOff(BrokenOff { message, answer, text: "Hel".to_owned(), at: Time(5) })
}

pub(crate) fn reasoning(message: &str, thought: &str) -> Record {
    let (message, steps) = (message.to_owned(), vec![thought.to_owned()]);
    Record::Reasoning(Reasoning { message, answer: "am_1".to_owned(), steps })
}

pub(crate) fn answer(message: &str) -> Record {
    Record::Answer(Answer {
        message: Some(message.to_owned()),
        answer: Some(format!("am_{message}")),
        announced: true,
        text: "Good day.".to_owned(),
        taint: Taint::default(),
        end: TurnEnd::Answered,
        steps: 1,
        thinking_ms: 10,
        total_ms: 20,
        usage: Usage::default(),
        spent: Spent::default(),
        at: Time(6),
    })
}

pub(crate) fn stanza(number: i32) -> Record {
    stanza_for(number, Audience::Everyone, 10)
}

pub(crate) fn stanza_for(number: i32, audience: Audience, size: usize) -> Record {
    // Real ones begin as all MessagePack maps.
    let bytes = [0x84].into_iter().chain(std::iter::repeat(number.unsigned_abs() as u8)).take(size).collect();
    Record::Stanza(Stanza { number, audience, bytes })
}
