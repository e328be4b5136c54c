//! Whose a conversation is: taking it, giving it free, and the heartbeat by which others know that its holder lives.

use super::process::Process;
use super::records::Lease;
use super::sql::{Fault, Row, Sql, values};
use crate::ports::StoreError;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

/// How often a process says that it lives.
pub(super) const HEARTBEAT: Duration = Duration::from_secs(2);
/// After how much silence it counts as gone, in milliseconds.
const SILENCE_MILLIS: i64 = 15_000;
/// After how much silence nothing of it is of use any more.
const FORGOTTEN_MILLIS: i64 = 24 * 3_600_000;

/// Whether others may have thought this process gone since, and taken what it has.
#[derive(Debug, Default)]
pub(super) struct Pulse {
    last: AtomicI64,
    silences: AtomicU64,
}

impl Pulse {
    /// It was said, not before `at`, that this process lives.
    pub(super) fn beat(&self, at: i64) {
        if !is_recent(self.last.load(Ordering::Acquire), at) {
            self.silences.fetch_add(1, Ordering::AcqRel);
        }
        self.last.store(at, Ordering::Release);
    }

    /// How often this process was silent for long so far; `None` while it is. Between two equal answers nobody has taken
    /// anything from it.
    pub(super) fn silences(&self, now: i64) -> Option<u64> {
        is_recent(self.last.load(Ordering::Acquire), now).then(|| self.silences.load(Ordering::Acquire))
    }
}

/// Well before others would think so; nor if the clock was set back.
fn is_recent(beat: i64, now: i64) -> bool {
    (0..SILENCE_MILLIS / 2).contains(&(now - beat))
}

/// Takes a conversation, which exists from then on; with the number of calls that wrote to it so far, and the process that had it
/// and is gone, if that was another one.
pub(super) async fn take<C: Sql>(
    connection: &mut C,
    process: &Process,
    namespace: &str,
    name: &str,
) -> Result<(Lease, i64, Option<String>), Fault> {
    let now = connection.now().await?;
    let insert = "INSERT INTO conversations (namespace, name, created, updated) VALUES ($1, $2, $3, $3) \
                  ON CONFLICT (namespace, name) DO NOTHING";
    connection.run(insert, values![namespace, name, now]).await?;
    let select = "SELECT c.id, c.fence, c.holder, p.host, p.realm, p.pid, p.started, p.heartbeat FROM conversations c \
                  LEFT JOIN processes p ON p.id = c.holder WHERE c.namespace = $1 AND c.name = $2";
    let mut rows = connection.rows(select, values![namespace, name]).await?;
    let Some(row) = rows.first_mut() else {
        // Deleted between the two statements.
        return Err(held("someone who is deleting it"));
    };
    let (conversation, fence) = (row.int(0)?, row.int(1)?);
    let former = row.optional_text(2)?.filter(|id| *id != process.id);
    if let Some(id) = &former
        && let Some(holder) = living(row, 3, id, process, now)?
    {
        return Err(held(&format!("process {} on {}", holder.pid, holder.host)));
    }
    // Whoever else saw the same at the same time comes too late now, or we do.
    let update = "UPDATE conversations SET fence = fence + 1, holder = $1 WHERE id = $2 AND fence = $3 RETURNING appends";
    let rows = connection.rows(update, values![&process.id[..], conversation, fence]).await?;
    let Some(row) = rows.first() else { return Err(held("another process, since a moment ago")) };
    Ok((Lease { conversation, fence: fence + 1 }, row.int(0)?, former))
}

fn held(by: &str) -> Fault {
    Fault::Refused(StoreError::Held(format!("the conversation is held by {by}")))
}

/// The process `id` whose row is at `column`, unless it is gone.
fn living(
    row: &mut Row,
    column: usize,
    id: &str,
    process: &Process,
    now: i64,
) -> Result<Option<Process>, Fault> {
    // One that has no row was gone so long ago that it is forgotten.
    let Some(host) = row.optional_text(column)? else { return Ok(None) };
    let (pid, started, heartbeat) = (row.int(column + 2)?, row.int(column + 3)?, row.int(column + 4)?);
    let holder = Process { id: id.to_owned(), host, realm: row.text(column + 1)?, pid, started };
    let is_gone = now - heartbeat > SILENCE_MILLIS || process.sees_end_of(&holder);
    Ok((!is_gone).then_some(holder))
}

/// Whether another process is gone.
pub(super) async fn is_gone<C: Sql>(
    connection: &mut C,
    process: &Process,
    other: &str,
) -> Result<bool, Fault> {
    let now = connection.now().await?;
    let select = "SELECT host, realm, pid, started, heartbeat FROM processes WHERE id = $1";
    let mut rows = connection.rows(select, values![other]).await?;
    let Some(row) = rows.first_mut() else { return Ok(true) };
    Ok(living(row, 0, other, process, now)?.is_none())
}

/// Gives a conversation free, unless somebody else has taken it.
pub(super) async fn free<C: Sql>(connection: &mut C, lease: Lease) -> Result<(), Fault> {
    let update = "UPDATE conversations SET holder = NULL WHERE id = $1 AND fence = $2";
    connection.run(update, values![lease.conversation, lease.fence]).await?;
    Ok(())
}

/// Says that this process lives.
pub(super) async fn beat<C: Sql>(connection: &mut C, process: &Process) -> Result<(), Fault> {
    let now = connection.now().await?;
    let upsert = "INSERT INTO processes (id, host, realm, pid, started, heartbeat) VALUES ($1, $2, $3, $4, $5, $6) \
                  ON CONFLICT (id) DO UPDATE SET heartbeat = excluded.heartbeat";
    let values =
        values![&process.id[..], &process.host[..], &process.realm[..], process.pid, process.started, now];
    connection.run(upsert, values).await?;
    Ok(())
}

/// Says that this process ends: whatever it still has is free.
pub(super) async fn farewell<C: Sql>(connection: &mut C, process: &Process) -> Result<(), Fault> {
    connection.run("DELETE FROM processes WHERE id = $1", values![&process.id[..]]).await?;
    Ok(())
}

/// Forgets processes that are long gone.
pub(super) async fn forget<C: Sql>(connection: &mut C) -> Result<(), Fault> {
    let before = connection.now().await? - FORGOTTEN_MILLIS;
    connection.run("DELETE FROM processes WHERE heartbeat < $1", values![before]).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever was silent for long must not go by what it knew before.
    #[test]
    fn a_silence_is_noticed_when_it_lasts_and_when_it_is_over() {
        let pulse = Pulse::default();
        let start = 1_000_000;
        assert_eq!(pulse.silences(start), None, "nothing was said yet");
        pulse.beat(start);
        let first = pulse.silences(start);
        assert!(first.is_some());
        for beat in 1..10 {
            let at = start + beat * 2_000;
            assert_eq!(pulse.silences(at), first);
            pulse.beat(at);
        }
        let silent = start + 18_000 + SILENCE_MILLIS / 2;
        assert_eq!(pulse.silences(silent - 1), first);
        assert_eq!(pulse.silences(silent), None);
        pulse.beat(silent);
        let second = pulse.silences(silent);
        assert!(second.is_some() && second != first);
        assert_eq!(pulse.silences(silent - 1), None, "the clock was set back");
        pulse.beat(silent - 1);
        assert!(pulse.silences(silent - 1).is_some_and(|silences| Some(silences) != second));
    }
}
