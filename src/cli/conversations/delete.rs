//! `sotto conversations delete`: the end of a conversation, as far as the store reaches.

use crate::cli::UsageError;
use crate::config::StoreUrl;
use crate::ports::StoreError;
use crate::store::{Archive, Deleted};
use anyhow::bail;
use std::io::{IsTerminal, Write};
use std::sync::Arc;

/// Delete a conversation with all that was said in it. This cannot be undone.
///
/// At a terminal it asks first; elsewhere it must be told --yes. While an agent has the conversation it is refused: stop that
/// agent, or let it leave the room. Afterwards it says where traces may be left that it cannot reach.
#[derive(clap::Args, Debug)]
pub(super) struct Arguments {
    /// The conversation: the room's name
    name: String,
    /// Do not ask
    #[arg(long)]
    yes: bool,
}

pub(super) async fn run(
    arguments: &Arguments,
    archive: &Arc<dyn Archive>,
    place: &StoreUrl,
) -> anyhow::Result<()> {
    let name = &arguments.name;
    // Whoever mistook the name is told so, not asked.
    drop(super::entries(&**archive, name).await?);
    if !arguments.yes && !is_meant(name)? {
        bail!("nothing was deleted");
    }
    match archive.delete(name).await {
        Ok(done @ (Deleted::FromTables | Deleted::Overwritten | Deleted::FromDisk)) => {
            Ok(write!(std::io::stdout(), "{}", farewell(name, place, done))?)
        }
        Ok(Deleted::Nothing) => bail!("someone else has just deleted {name:?}"),
        Err(StoreError::Held(by)) => {
            bail!("{name:?} was not deleted: {by}. Stop that agent, or let it leave the room, and try again")
        }
        Err(error) => Err(error.into()),
    }
}

/// Asks whoever sits at the terminal.
fn is_meant(name: &str) -> anyhow::Result<bool> {
    if !std::io::stdin().is_terminal() {
        let message = format!("nobody is there to confirm that {name:?} is to be deleted; add --yes");
        return Err(UsageError(message).into());
    }
    eprint!("Delete the conversation {name:?} with all that was said in it? This cannot be undone. [y/N] ");
    std::io::stderr().flush()?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}

/// What was done, and what could not be.
fn farewell(name: &str, place: &StoreUrl, done: Deleted) -> String {
    let (done, left) = match (place, done) {
        (StoreUrl::Postgres(_), _) => (
            "from the database",
            "- PostgreSQL's files until it vacuums, its write-ahead log and archives of that, and replicas that lag behind;\n",
        ),
        (StoreUrl::Sqlite(_), Deleted::FromTables) => (
            "from the store",
            "- the store's own log, because another program reads the store just now: run `sotto store tidy` later;\n\
             - snapshots of the file system, and blocks that a disk has put aside;\n",
        ),
        (StoreUrl::Sqlite(_), Deleted::Overwritten) => (
            "from the store, and overwritten in its file and its log",
            "- pieces that SQLite may have left in unused room of its pages, as the file was not written anew (it is larger than \
             64 MB, or the log says why not): see \"VACUUM\" in docs/store.md;\n\
             - snapshots of the file system, and blocks that a disk has put aside;\n",
        ),
        (StoreUrl::Sqlite(_) | StoreUrl::Memory, _) => (
            "from the store, whose file was written anew without it",
            "- snapshots of the file system, and blocks that a disk has put aside;\n",
        ),
    };
    format!(
        "deleted {name:?} {done}. Not reached, if there are any:\n\
         - backups and copies (of what was sealed only those that hold its key), and exports;\n\
         {left}\
         - logs and traces, where telemetry.content was on, and whatever the model's endpoint logs;\n\
         - what clients have kept of it.\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_what_each_kind_of_store_leaves_behind() {
        let sqlite = farewell("a\x1b", &StoreUrl::Sqlite("a.db".into()), Deleted::FromDisk);
        assert!(sqlite.starts_with("deleted \"a\\u{1b}\" from the store"), "{sqlite}");
        assert!(sqlite.contains("backups") && !sqlite.contains("PostgreSQL"), "{sqlite}");
        assert!(sqlite.contains("written anew without it") && !sqlite.contains("VACUUM"), "{sqlite}");
        let large = farewell("a", &StoreUrl::Sqlite("a.db".into()), Deleted::Overwritten);
        assert!(large.contains("VACUUM"), "{large}");
        let busy = farewell("a", &StoreUrl::Sqlite("a.db".into()), Deleted::FromTables);
        assert!(busy.contains("store tidy") && !busy.contains("overwritten"), "{busy}");
        let config = crate::config::Config::load_from(
            None,
            "/nonexistent".as_ref(),
            &[("SOTTO_STORE_URL", "postgres://u:canary@h/d")].into_iter().collect(),
        );
        let postgres = farewell("a", &config.expect("good").store.url, Deleted::FromTables);
        assert!(postgres.contains("write-ahead log") && !postgres.contains("canary"), "{postgres}");
    }
}
