//! Writing records: all of a call as one transaction, and only while the conversation is ours.

use super::KeptReasoning;
use super::keys::Seal;
use super::seal::Place;
use super::sql::{Fault, Sql, values};
use crate::ports::StoreError;
use sotto_core::engine::people::Audience;
use sotto_core::engine::record::{Answer, Record};
use std::borrow::Borrow;
use std::collections::BTreeSet;
use std::sync::LazyLock;

/// Who writes: the conversation, and the number under which it was taken. A later one makes this one void.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lease {
    pub(super) conversation: i64,
    pub(super) fence: i64,
}

impl Lease {
    /// What was written under this one, if it was the last before `next`, is from now on of that one.
    pub(super) fn pass_to(&mut self, next: Self) {
        if *self == (Self { fence: next.fence - 1, ..next }) {
            *self = next;
        }
    }
}

/// Records as they are written, encoded before anybody waits for the database; stanzas are sealed as well, facts when
/// their place in the order is known.
#[derive(Debug)]
pub(super) struct Batch {
    entries: Vec<Entry>,
    seal: Seal,
    /// The lowest number that may be used from now on; 0 where that does not change.
    reserved: i64,
    /// When it came.
    at: i64,
}

#[derive(Debug)]
enum Entry {
    Joined { identity: String, body: Vec<u8> },
    Fact(Fact),
    Stanza(KeptStanza),
}

/// A stanza as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KeptStanza {
    pub(super) number: i64,
    pub(super) audience: String,
    pub(super) reasoning: bool,
    pub(super) body: Vec<u8>,
}

#[derive(Debug)]
struct Fact {
    kind: &'static str,
    message: Option<String>,
    answer: Option<String>,
    effect: Effect,
    body: Vec<u8>,
    /// What of it stays readable when it is sealed.
    clear: Vec<u8>,
}

/// What a record does to the list of what has not ended.
#[derive(Debug)]
enum Effect {
    Nothing,
    /// Its message is to be answered.
    Opens,
    /// Another answer is wanted, of this message or answer.
    OpensAgain(String),
    /// Its message has ended.
    Ends,
}

impl Batch {
    /// What of `records` is kept of a conversation, at the time `at`.
    pub(super) fn new(
        records: Vec<Record>,
        reasoning: KeptReasoning,
        at: i64,
        conversation: i64,
        seal: Seal,
    ) -> Result<Self, StoreError> {
        let mut batch = Self { entries: Vec::with_capacity(records.len()), seal, reserved: 0, at };
        for record in records {
            if reasoning == KeptReasoning::Nothing && is_reasoning(&record) {
                continue;
            }
            batch.add(record, conversation)?;
        }
        Ok(batch)
    }

    fn add(&mut self, record: Record, conversation: i64) -> Result<(), StoreError> {
        let body = |record: &Record| record.to_bytes();
        self.entries.push(match record {
            Record::Reserved { number } => {
                self.reserved = self.reserved.min(i64::from(number));
                return Ok(());
            }
            Record::Joined(ref joined) => {
                Entry::Joined { identity: joined.identity.clone(), body: body(&record) }
            }
            Record::Stanza(stanza) => {
                let (number, audience) = (i64::from(stanza.number), stanza.audience.to_string());
                let place = Place::Stanza { conversation, number, audience: &audience };
                let body = self.seal.close(place, &[], stanza.bytes)?;
                Entry::Stanza(KeptStanza {
                    number,
                    reasoning: is_for_reasoning(&stanza.audience),
                    audience,
                    body,
                })
            }
            record => Entry::Fact(Fact::new(&record, self.seal.seals())),
        });
        Ok(())
    }

    /// Nothing is to be written.
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.reserved == 0
    }

    /// The same for [`Driver::write_at_once`](super::sql::Driver::write_at_once), if it is nothing but a few stanzas: those are
    /// most of what is ever written, and somebody waits for each.
    pub(super) fn quick(&self, lease: Lease) -> Option<Quick> {
        if self.reserves() || self.entries.len() > STANZAS_AT_ONCE {
            return None;
        }
        let stanzas = self.entries.iter().map(|entry| match entry {
            Entry::Stanza(stanza) => Some(stanza.clone()),
            _ => None,
        });
        Some(Quick { at: self.at, lease, stanzas: stanzas.collect::<Option<_>>()? })
    }

    /// Numbers are reserved: whatever the caller says, that must survive a loss of power.
    pub(super) fn reserves(&self) -> bool {
        self.reserved != 0
    }
}

/// Whether a record holds what the model thought.
pub(super) fn is_reasoning(record: &Record) -> bool {
    match record {
        Record::Reasoning(_) => true,
        Record::Stanza(stanza) => is_for_reasoning(&stanza.audience),
        _ => false,
    }
}

fn is_for_reasoning(audience: &Audience) -> bool {
    matches!(audience, Audience::Reasoning | Audience::ReasoningFeature(_))
}

impl Fact {
    fn new(record: &Record, is_sealed: bool) -> Self {
        let some = |id: &String| Some(id.clone());
        let (kind, message, answer, effect) = match record {
            Record::Message(it) => ("message", some(&it.id), None, Effect::Opens),
            Record::Variation(it) => ("variation", None, None, Effect::OpensAgain(it.target.clone())),
            Record::Stopped(_) => ("stopped", None, None, Effect::Nothing),
            Record::Begun(it) => ("begun", some(&it.message), some(&it.answer), Effect::Nothing),
            Record::Reasoning(it) => ("reasoning", some(&it.message), None, Effect::Nothing),
            Record::ToolAsked(it) => ("tool_asked", some(&it.message), None, Effect::Nothing),
            Record::ToolBegun(it) => ("tool_begun", some(&it.message), None, Effect::Nothing),
            Record::ToolEnded(_) => ("tool_ended", None, None, Effect::Nothing),
            Record::BrokenOff(it) => ("broken_off", some(&it.message), some(&it.answer), Effect::Nothing),
            Record::Answer(Answer { message, answer, .. }) => {
                ("answer", message.clone(), answer.clone(), Effect::Ends)
            }
            // Those have rows of their own kind and never come here.
            Record::Joined(_) | Record::Reserved { .. } | Record::Stanza(_) => {
                ("other", None, None, Effect::Nothing)
            }
        };
        let clear = if is_sealed { record.without_content().to_bytes() } else { Vec::new() };
        Self { kind, message, answer, effect, body: record.to_bytes(), clear }
    }
}

/// Writes a batch after so many others. One that was written before, without anybody having heard of it, is not written
/// again.
pub(super) async fn append<C: Sql>(
    connection: &mut C,
    lease: Lease,
    appends: i64,
    batch: &Batch,
) -> Result<(), Fault> {
    let counted = batch.entries.iter().filter(|entry| !matches!(entry, Entry::Stanza(_))).count() as i64;
    let claim = "UPDATE conversations SET appends = appends + 1, last_seq = last_seq + $1, \
                 reserved = CASE WHEN reserved > $2 THEN $2 ELSE reserved END, updated = $3 \
                 WHERE id = $4 AND fence = $5 AND appends = $6 RETURNING last_seq";
    let values = values![counted, batch.reserved, batch.at, lease.conversation, lease.fence, appends];
    let claimed = connection.rows(claim, values).await?;
    let Some(row) = claimed.first() else {
        let select = "SELECT id FROM conversations WHERE id = $1 AND fence = $2 AND appends = $3";
        let values = values![lease.conversation, lease.fence, appends + 1];
        let is_kept = !connection.rows(select, values).await?.is_empty();
        return if is_kept { Ok(()) } else { Err(Fault::Refused(StoreError::Lost)) };
    };
    let mut writing =
        Writing { connection, conversation: lease.conversation, at: batch.at, seq: row.int(0)? - counted };
    let mut stanzas = Vec::new();
    for entry in &batch.entries {
        match entry {
            Entry::Joined { identity, body } => writing.joined(identity, body).await?,
            Entry::Fact(fact) => writing.fact(fact, &batch.seal).await?,
            Entry::Stanza(stanza) => stanzas.push((writing.seq, stanza)),
        }
    }
    for chunk in stanzas.chunks(STANZAS_AT_ONCE) {
        writing.stanzas(chunk).await?;
    }
    Ok(())
}

/// A few stanzas of a conversation, and nothing else. They are known by their numbers: whoever does not know whether they were
/// written may write them again, and need not count.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Quick {
    /// When they came.
    pub(super) at: i64,
    pub(super) lease: Lease,
    /// At least one and at most [`STANZAS_AT_ONCE`].
    pub(super) stanzas: Vec<KeptStanza>,
}

/// How many stanzas one statement writes: each statement is a way to the database and back.
pub(super) const STANZAS_AT_ONCE: usize = 16;

/// The statements that write one stanza, two, and so on: `statement` with, in the place of `{ROWS}`, a row of parameters of these
/// types for each stanza, counted on from `first`.
pub(super) fn statements(statement: &str, first: usize, types: &[&str]) -> Vec<String> {
    let row = |row: usize| {
        let first = first + row * types.len();
        let parameters = types.iter().enumerate().map(|(column, kind)| format!("${}{kind}", first + column));
        format!("({})", parameters.collect::<Vec<_>>().join(", "))
    };
    let statement = |rows: usize| {
        let rows: Vec<_> = (0..rows).map(row).collect();
        statement.replace("{ROWS}", &rows.join(", "))
    };
    (1..=STANZAS_AT_ONCE).map(statement).collect()
}

static INSERT_STANZAS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let insert = "INSERT INTO stanzas (conversation, number, audience, reasoning, seq, at, body) VALUES {ROWS} \
                  ON CONFLICT (conversation, number) DO NOTHING";
    statements(insert, 1, &[""; 7])
});

/// Writes stanzas that were on their way, if their conversations are still whose they were then and none of them was written
/// and removed since.
static BRING_IN: LazyLock<Vec<String>> = LazyLock::new(|| {
    let insert = "INSERT INTO stanzas (conversation, number, audience, reasoning, seq, at, body) \
                  SELECT id, column4, column5, column6, last_seq, column3, column7 \
                  FROM (VALUES {ROWS}) JOIN conversations ON id = column1 AND fence = column2 \
                  WHERE column4 < dropped ON CONFLICT (conversation, number) DO NOTHING";
    statements(insert, 1, &[""; 7])
});

/// Writes stanzas of any conversations that were on their way. What is written late may be too old: whoever looks for that is
/// made to look again.
pub(super) async fn bring_in_late<C: Sql>(connection: &mut C, left: &[Quick]) -> Result<(), Fault> {
    bring_in(connection, left).await?;
    for conversation in left.iter().map(|quick| quick.lease.conversation).collect::<BTreeSet<_>>() {
        connection.run("UPDATE conversations SET swept = 0 WHERE id = $1", values![conversation]).await?;
    }
    Ok(())
}

/// Writes stanzas of any conversations that were on their way.
pub(super) async fn bring_in<C: Sql, Q: Borrow<Quick>>(connection: &mut C, left: &[Q]) -> Result<(), Fault> {
    let stanzas: Vec<_> = left
        .iter()
        .map(Borrow::borrow)
        .flat_map(|quick| quick.stanzas.iter().map(move |stanza| (quick, stanza)))
        .collect();
    for chunk in stanzas.chunks(STANZAS_AT_ONCE) {
        let mut values = Vec::with_capacity(chunk.len() * 7);
        for (Quick { at, lease, .. }, stanza) in chunk {
            values.extend(values![lease.conversation, lease.fence, *at, stanza.number]);
            values.extend(values![&stanza.audience[..], i64::from(stanza.reasoning), &stanza.body[..]]);
        }
        connection.run(&BRING_IN[chunk.len() - 1], values).await?;
    }
    Ok(())
}

/// A batch being written.
struct Writing<'c, C> {
    connection: &'c mut C,
    conversation: i64,
    at: i64,
    /// The last record's place in the order.
    seq: i64,
}

impl<C: Sql> Writing<'_, C> {
    async fn joined(&mut self, identity: &str, body: &[u8]) -> Result<(), Fault> {
        self.seq += 1;
        let insert = "INSERT INTO participants (conversation, identity, seq, at, body) \
                      VALUES ($1, $2, $3, $4, $5) ON CONFLICT (conversation, identity) DO NOTHING";
        self.connection.run(insert, values![self.conversation, identity, self.seq, self.at, body]).await?;
        Ok(())
    }

    async fn fact(&mut self, fact: &Fact, seal: &Seal) -> Result<(), Fault> {
        self.seq += 1;
        let place = Place::Record { conversation: self.conversation, seq: self.seq };
        // Not a refusal: something was written already, which must not stay.
        let body = seal.close(place, &fact.clear, fact.body.clone());
        let body = body.map_err(|error| sqlx::Error::Encode(error.into()))?;
        let insert = "INSERT INTO records (conversation, seq, kind, message, answer, at, body) \
                      VALUES ($1, $2, $3, $4, $5, $6, $7) \
                      ON CONFLICT (conversation, message) WHERE kind = 'message' DO NOTHING";
        let values = values![
            self.conversation,
            self.seq,
            fact.kind,
            fact.message.as_deref(),
            fact.answer.as_deref(),
            self.at,
            &body[..]
        ];
        if self.connection.run(insert, values).await? == 0 {
            // A message that is there already is kept, and was opened then.
            return Ok(());
        }
        match (&fact.effect, &fact.message) {
            (Effect::Opens, Some(message)) => self.open(message).await,
            (Effect::OpensAgain(target), _) => {
                let message = self.message_of(target).await?;
                self.open(&message).await
            }
            (Effect::Ends, Some(message)) => self.end(message).await,
            _ => Ok(()),
        }
    }

    /// The message that `target` is an answer to, or `target` itself.
    async fn message_of(&mut self, target: &str) -> Result<String, Fault> {
        let select = "SELECT message FROM records WHERE conversation = $1 AND answer = $2 AND message IS NOT NULL LIMIT 1";
        let mut rows = self.connection.rows(select, values![self.conversation, target]).await?;
        rows.first_mut().map_or_else(|| Ok(target.to_owned()), |row| row.text(0))
    }

    async fn open(&mut self, message: &str) -> Result<(), Fault> {
        let insert = "INSERT INTO open (conversation, seq, message) VALUES ($1, $2, $3)";
        self.connection.run(insert, values![self.conversation, self.seq, message]).await?;
        Ok(())
    }

    async fn end(&mut self, message: &str) -> Result<(), Fault> {
        let delete = "DELETE FROM open WHERE conversation = $1 AND seq = \
                      (SELECT min(seq) FROM open WHERE conversation = $1 AND message = $2)";
        self.connection.run(delete, values![self.conversation, message]).await?;
        Ok(())
    }

    /// Writes some stanzas, each with its place; at least one and at most [`STANZAS_AT_ONCE`].
    async fn stanzas(&mut self, stanzas: &[(i64, &KeptStanza)]) -> Result<(), Fault> {
        let mut values = Vec::with_capacity(stanzas.len() * 7);
        for (seq, stanza) in stanzas {
            let reasoning = i64::from(stanza.reasoning);
            let (audience, body) = (&stanza.audience[..], &stanza.body[..]);
            values.extend(values![
                self.conversation,
                stanza.number,
                audience,
                reasoning,
                *seq,
                self.at,
                body
            ]);
        }
        self.connection.run(&INSERT_STANZAS[stanzas.len() - 1], values).await?;
        Ok(())
    }
}
