//! Whose a conversation is: taking it, giving it free, and the heartbeat by which others know that its holder lives.

use super::process::Process;
use super::records::Lease;
use super::sql::{Fault, Row, Sql, values};
use crate::ports::StoreError;
use std::time::Duration;

/// How often a process says that it lives.
pub(super) const HEARTBEAT: Duration = Duration::from_secs(2);
/// After how much silence it counts as gone, in milliseconds.
const SILENCE_MILLIS: i64 = 15_000;
/// After how much silence nothing of it is of use any more.
const FORGOTTEN_MILLIS: i64 = 24 * 3_600_000;

/// Takes a conversation, which exists from then on; with the number of calls that wrote to it so far.
pub(super) async fn take<C: Sql>(
    connection: &mut C,
    process: &Process,
    namespace: &str,
    name: &str,
) -> Result<(Lease, i64), Fault> {
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
    if let Some(holder) = holder(row, process, now)? {
        return Err(held(&format!("process {} on {}", holder.pid, holder.host)));
    }
    // Whoever else saw the same at the same time comes too late now, or we do.
    let update = "UPDATE conversations SET fence = fence + 1, holder = $1 WHERE id = $2 AND fence = $3 RETURNING appends";
    let rows = connection.rows(update, values![&process.id[..], conversation, fence]).await?;
    let Some(row) = rows.first() else { return Err(held("another process, since a moment ago")) };
    Ok((Lease { conversation, fence: fence + 1 }, row.int(0)?))
}

fn held(by: &str) -> Fault {
    Fault::Refused(StoreError::Held(format!("the conversation is held by {by}")))
}

/// The process that has the conversation, unless it is ourselves or gone.
fn holder(row: &mut Row, process: &Process, now: i64) -> Result<Option<Process>, Fault> {
    let Some(id) = row.optional_text(2)?.filter(|id| *id != process.id) else { return Ok(None) };
    // One that has no row was gone so long ago that it is forgotten.
    let Some(host) = row.optional_text(3)? else { return Ok(None) };
    let (pid, started, heartbeat) = (row.int(5)?, row.int(6)?, row.int(7)?);
    let holder = Process { id, host, realm: row.text(4)?, pid, started };
    let is_gone = now - heartbeat > SILENCE_MILLIS || process.sees_end_of(&holder);
    Ok((!is_gone).then_some(holder))
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
