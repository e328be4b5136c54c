//! Where the keys of conversations are kept, each wrapped by a master key, and how they change hands.
//!
//! They are in a table of their own, in SQLite even in a file of its own: a copy of the database without it holds nothing
//! that anybody could read, and nothing of what was deleted since. Two files are not one transaction, so a key is kept
//! before anything is sealed with it, and deleted before anything else of its conversation.

use super::schema;
use super::seal::{self, DataKey, Locked, MARK, MasterKeys, Place};
use super::sql::{Fault, Sql, values};
use crate::ports::StoreError;
use std::fmt;
use std::sync::Arc;

/// Where the wrapped keys are, and what opens them.
#[derive(Clone, Debug)]
pub(super) struct Keys {
    /// The configured ones.
    pub(super) masters: Option<MasterKeys>,
    /// Whether there is a table: an SQLite store in which nothing was ever sealed has none.
    pub(super) exist: bool,
}

/// How a conversation is sealed, for whoever reads and writes it.
#[derive(Clone)]
pub(super) enum Seal {
    /// Not at all.
    Nothing,
    With(Arc<DataKey>),
    /// It is, and cannot be opened.
    Locked(Locked),
}

impl fmt::Debug for Seal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nothing => "not sealed",
            Self::With(_) => "sealed",
            Self::Locked(_) => "locked",
        })
    }
}

impl From<&Locked> for Fault {
    fn from(locked: &Locked) -> Self {
        Self::Refused(locked.as_error())
    }
}

impl Seal {
    /// What is written in a place; `clear` stays readable.
    pub(super) fn close(&self, place: Place<'_>, clear: &[u8], body: Vec<u8>) -> Result<Vec<u8>, StoreError> {
        match self {
            Self::Nothing => Ok(body),
            Self::With(key) => key.seal(place, clear, &body).ok_or_else(no_random_numbers),
            Self::Locked(locked) => Err(locked.as_error()),
        }
    }

    /// What is read in a place; without what needs a key, and why, where there is none. `None`: it is damaged.
    pub(super) fn open(&self, place: Place<'_>, body: Vec<u8>) -> Option<(Vec<u8>, Option<Locked>)> {
        if !seal::is_sealed(&body) {
            return Some((body, None));
        }
        let locked = match self {
            Self::With(key) => return Some((key.open(place, &body)?, None)),
            Self::Nothing => Locked::unknown(),
            Self::Locked(locked) => locked.clone(),
        };
        Some((seal::clear(&body)?.to_owned(), Some(locked)))
    }

    pub(super) fn seals(&self) -> bool {
        matches!(self, Self::With(_))
    }
}

impl Keys {
    /// How a conversation is sealed.
    pub(super) async fn of<C: Sql>(&self, connection: &mut C, conversation: i64) -> Result<Seal, Fault> {
        if !self.exist {
            return Ok(Seal::Nothing);
        }
        let select = "SELECT master, wrapped FROM data_keys WHERE conversation = $1";
        let mut rows = connection.rows(select, values![conversation]).await?;
        let Some(row) = rows.first_mut() else { return Ok(Seal::Nothing) };
        let (master, wrapped) = (row.text(0)?, row.bytes(1)?);
        let key = match &self.masters {
            Some(masters) => masters.unwrap(&master, &wrapped, conversation),
            None => Err(Locked::no_key(&master)),
        };
        Ok(key.map_or_else(Seal::Locked, |key| Seal::With(Arc::new(key))))
    }

    /// The same for whoever is about to write: where master keys are configured, it is sealed from now on.
    pub(super) async fn for_writing<C: Sql>(
        &self,
        connection: &mut C,
        conversation: i64,
    ) -> Result<Seal, Fault> {
        let found = self.of(connection, conversation).await?;
        let (Seal::Nothing, Some(masters)) = (&found, &self.masters) else { return Ok(found) };
        if has_sealed_rows(connection, conversation).await? {
            // With a new key, what is there would look damaged and be forgotten.
            return Ok(Seal::Locked(Locked::unknown()));
        }
        let key = DataKey::generate().ok_or_else(undone)?;
        let wrapped = masters.wrap(&key, conversation).ok_or_else(undone)?;
        let insert = "INSERT INTO data_keys (conversation, master, wrapped) VALUES ($1, $2, $3) \
                      ON CONFLICT (conversation) DO NOTHING";
        if connection.run(insert, values![conversation, masters.id(), &wrapped[..]]).await? == 0 {
            // Somebody else was quicker: `store rekey` makes keys too.
            return self.of(connection, conversation).await;
        }
        schema::needs(connection, schema::SEALING).await?;
        Ok(Seal::With(Arc::new(key)))
    }

    /// Has the key of a conversation wrapped by the master key in use; whether it was not.
    pub(super) async fn rewrap<C: Sql>(
        &self,
        connection: &mut C,
        conversation: i64,
    ) -> Result<Result<bool, Locked>, Fault> {
        let Some(masters) = &self.masters else { return Ok(Ok(false)) };
        let key = match self.of(connection, conversation).await? {
            Seal::With(key) => key,
            Seal::Nothing => return Ok(Ok(false)),
            Seal::Locked(locked) => return Ok(Err(locked)),
        };
        let wrapped = masters.wrap(&key, conversation).ok_or_else(undone)?;
        let update =
            "UPDATE data_keys SET master = $1, wrapped = $2 WHERE conversation = $3 AND master <> $1";
        Ok(Ok(connection.run(update, values![masters.id(), &wrapped[..], conversation]).await? > 0))
    }

    /// Deletes the key of a conversation: what was sealed with it cannot be read by anybody from now on.
    pub(super) async fn delete<C: Sql>(&self, connection: &mut C, conversation: i64) -> Result<(), Fault> {
        if self.exist {
            connection.run("DELETE FROM data_keys WHERE conversation = $1", values![conversation]).await?;
        }
        Ok(())
    }

    /// How many keys of conversations there are, and which master keys that are not configured have wrapped how many of
    /// them.
    pub(super) async fn survey<C: Sql>(
        &self,
        connection: &mut C,
    ) -> Result<(u64, Vec<(String, u64)>), Fault> {
        if !self.exist {
            return Ok((0, Vec::new()));
        }
        let select = "SELECT master, count(*) FROM data_keys GROUP BY master ORDER BY master";
        let (mut sealed, mut missing) = (0, Vec::new());
        for mut row in connection.rows(select, values![]).await? {
            let (master, count) = (row.text(0)?, row.int(1)?.unsigned_abs());
            sealed += count;
            if !self.masters.as_ref().is_some_and(|masters| masters.have(&master)) {
                missing.push((master, count));
            }
        }
        Ok((sealed, missing))
    }
}

async fn has_sealed_rows<C: Sql>(connection: &mut C, conversation: i64) -> Result<bool, Fault> {
    let records = "SELECT seq FROM records WHERE conversation = $1 AND substr(body, 1, 1) = $2 LIMIT 1";
    let stanzas = "SELECT seq FROM stanzas WHERE conversation = $1 AND substr(body, 1, 1) = $2 LIMIT 1";
    for select in [records, stanzas] {
        if !connection.rows(select, values![conversation, &[MARK][..]]).await?.is_empty() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Not a refusal: something may have been written already, which must not stay.
fn undone() -> Fault {
    Fault::Driver(sqlx::Error::Encode(no_random_numbers().into()))
}

fn no_random_numbers() -> StoreError {
    StoreError::Unavailable("the system gives no random numbers".to_owned())
}
