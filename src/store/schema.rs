//! The tables, and how they came to be: migrations are only ever added, each leaves the tables usable by the release
//! before it (processes are replaced one by one), and several processes may start at once.

use super::sql::{Fault, Sql, values};
use crate::ports::StoreError;

/// One step from a version to the next.
struct Migration {
    statements: &'static str,
    /// The oldest version whose programs can still work with the tables after this step.
    works_with: i64,
}

/// How a database calls what SQL has no common name for.
pub(super) struct Dialect {
    /// A number that the database gives to each row.
    pub(super) identity: &'static str,
    /// Keeps rows in the order of their key. Stanzas are written all the time and have no other index, so that each costs
    /// one page.
    pub(super) clustered: &'static str,
    /// The type of bytes.
    pub(super) bytes: &'static str,
}

/// The version that this program makes and knows.
pub(super) const VERSION: i64 = MIGRATIONS.len() as i64;

/// The version since which conversations may be sealed: for programs of an older one, what is would be damaged rows.
pub(super) const SEALING: i64 = 2;

const MIGRATIONS: [Migration; 2] = [
    Migration { works_with: 1, statements: FIRST },
    // Conversations may be sealed. The table of keys is not made here, but wherever it is missing: it is not restored with the
    // others. Until something is sealed, which is for `needs` to say, nothing changes for older programs.
    Migration { works_with: 1, statements: "" },
];

// `appends` counts calls and `last_seq` records, `reserved` is the last number that may have been used, `dropped` the newest number of a stanza
// that is no longer kept. `swept` is when old stanzas were last looked for. What is in `open` was accepted and has not
// ended. `seq` of a stanza is that of the last record before it.
const FIRST: &str = "
    CREATE TABLE conversations (
        id {IDENTITY},
        namespace TEXT NOT NULL,
        name TEXT NOT NULL,
        fence BIGINT NOT NULL DEFAULT 0,
        holder TEXT,
        appends BIGINT NOT NULL DEFAULT 0,
        last_seq BIGINT NOT NULL DEFAULT 0,
        reserved BIGINT NOT NULL DEFAULT 0,
        dropped BIGINT NOT NULL DEFAULT 0,
        swept BIGINT NOT NULL DEFAULT 0,
        created BIGINT NOT NULL,
        updated BIGINT NOT NULL,
        UNIQUE (namespace, name)
    );
    CREATE TABLE participants (
        conversation BIGINT NOT NULL,
        identity TEXT NOT NULL,
        seq BIGINT NOT NULL,
        at BIGINT NOT NULL,
        body {BYTES} NOT NULL,
        PRIMARY KEY (conversation, identity)
    );
    CREATE TABLE records (
        conversation BIGINT NOT NULL,
        seq BIGINT NOT NULL,
        kind TEXT NOT NULL,
        message TEXT,
        answer TEXT,
        at BIGINT NOT NULL,
        body {BYTES} NOT NULL,
        PRIMARY KEY (conversation, seq)
    );
    CREATE UNIQUE INDEX records_message ON records (conversation, message) WHERE kind = 'message';
    CREATE INDEX records_answer ON records (conversation, answer) WHERE answer IS NOT NULL;
    CREATE INDEX records_reasoning ON records (at) WHERE kind = 'reasoning';
    CREATE TABLE open (
        conversation BIGINT NOT NULL,
        seq BIGINT NOT NULL,
        message TEXT NOT NULL,
        PRIMARY KEY (conversation, seq)
    );
    CREATE TABLE stanzas (
        conversation BIGINT NOT NULL,
        number BIGINT NOT NULL,
        audience TEXT NOT NULL,
        reasoning BIGINT NOT NULL,
        seq BIGINT NOT NULL,
        at BIGINT NOT NULL,
        body {BYTES} NOT NULL,
        PRIMARY KEY (conversation, number)
    ){CLUSTERED};
    CREATE TABLE processes (
        id TEXT PRIMARY KEY,
        host TEXT NOT NULL,
        realm TEXT NOT NULL,
        pid BIGINT NOT NULL,
        started BIGINT NOT NULL,
        heartbeat BIGINT NOT NULL
    );
";

/// Brings the tables up to date, in a transaction in which nobody else does the same.
pub(super) async fn migrate<C: Sql>(connection: &mut C, dialect: &Dialect) -> Result<(), Fault> {
    let create =
        "CREATE TABLE IF NOT EXISTS sotto_schema (version BIGINT NOT NULL, works_with BIGINT NOT NULL)";
    connection.run(create, values![]).await?;
    let found = version(connection).await?;
    let (found, works_with) = found.unwrap_or_default();
    if found > VERSION && works_with > VERSION {
        return Err(Fault::Refused(StoreError::Broken(format!(
            "the store was written by a newer Sotto (its tables have version {found}, this one knows {VERSION}); update Sotto"
        ))));
    }
    for (version, migration) in (1_i64..).zip(&MIGRATIONS) {
        if version > found {
            let statements = migration.statements.replace("{IDENTITY}", dialect.identity);
            let statements = statements.replace("{CLUSTERED}", dialect.clustered);
            let statements = statements.replace("{BYTES}", dialect.bytes);
            if !statements.is_empty() {
                connection.script(statements).await?;
            }
            connection.run("DELETE FROM sotto_schema", values![]).await?;
            let note = "INSERT INTO sotto_schema (version, works_with) VALUES ($1, $2)";
            connection.run(note, values![version, migration.works_with]).await?;
        }
    }
    Ok(())
}

/// From now on, programs that know no more than an older version than this one shall not start any more.
pub(super) async fn needs<C: Sql>(connection: &mut C, version: i64) -> Result<(), Fault> {
    let update = "UPDATE sotto_schema SET works_with = $1 WHERE works_with < $1";
    connection.run(update, values![version]).await?;
    Ok(())
}

/// The version of the tables, and the oldest whose programs can work with them.
pub(super) async fn version<C: Sql>(connection: &mut C) -> Result<Option<(i64, i64)>, Fault> {
    let rows = connection.rows("SELECT version, works_with FROM sotto_schema", values![]).await?;
    rows.first().map(|row| Ok((row.int(0)?, row.int(1)?))).transpose()
}
