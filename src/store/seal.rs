//! Sealing: what people and the model said, unreadable in the database without a key that is kept elsewhere.
//!
//! Each conversation has a data key of its own, kept wrapped by a master key (`keys` has where). Whoever deletes the data
//! key has erased the conversation from every copy of the database that does not hold it. AES-256-GCM throughout. What is
//! sealed is bound to its place, so that no row can be passed off as another, and keeps a part in the clear: counts and flags,
//! which stay readable without any key.

use crate::hash::sha256;
use crate::ports::StoreError;
use aws_lc_rs::aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::fmt;
use std::sync::Arc;

/// A key's length in bytes.
const KEY: usize = 32;
/// The first byte of what is sealed. No `MessagePack` begins with it, and everything else here is that.
pub(super) const MARK: u8 = 0xC1;
const VERSION: u8 = 1;
/// Mark, version, and the length of the part in the clear.
const HEADER: usize = 6;

/// The keys that wrap others, the one in use first; the others are for what was wrapped before.
#[derive(Clone)]
pub struct MasterKeys(Arc<Vec<MasterKey>>);

struct MasterKey {
    id: String,
    key: RandomizedNonceKey,
}

/// Why keys cannot be used; says nothing of the keys.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("key {place} of {count} is not the base64 of 32 bytes; `sotto store key` makes one")]
pub struct BadKey {
    place: usize,
    count: usize,
}

impl MasterKeys {
    /// The keys in a text, not read yet: separated by spaces, commas or line ends; what follows a `#` on a line is none.
    pub fn words(text: &str) -> impl Iterator<Item = &str> {
        let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default());
        let words = lines.flat_map(|line| line.split(|c: char| c == ',' || c.is_whitespace()));
        words.filter(|word| !word.is_empty())
    }

    /// Reads one or several keys in base64, the one to use first. `None`: there is none.
    pub fn parse(text: &str) -> Result<Option<Self>, BadKey> {
        let words: Vec<&str> = Self::words(text).collect();
        let count = words.len();
        let keys = words.iter().enumerate().map(|(index, word)| {
            let bytes = STANDARD.decode(word).ok().filter(|bytes| bytes.len() == KEY);
            let key = bytes.and_then(|bytes| MasterKey::new(&bytes));
            key.ok_or(BadKey { place: index + 1, count })
        });
        let keys = keys.collect::<Result<Vec<_>, _>>()?;
        Ok((!keys.is_empty()).then(|| Self(Arc::new(keys))))
    }

    /// A new key, to be written into a file or a variable.
    pub fn generate() -> Result<String, getrandom::Error> {
        let mut bytes = [0; KEY];
        getrandom::fill(&mut bytes)?;
        Ok(STANDARD.encode(bytes))
    }

    /// How the key in use is called: tells nothing about it, and is the same everywhere.
    pub fn id(&self) -> &str {
        self.0.first().map_or("", |key| &key.id)
    }

    /// Whether the key of this id is among them.
    pub(super) fn have(&self, id: &str) -> bool {
        self.0.iter().any(|key| key.id == id)
    }

    /// Wraps a data key with the key in use.
    pub(super) fn wrap(&self, key: &DataKey, conversation: i64) -> Option<Vec<u8>> {
        self.0.first()?.key.seal(&wrapping(conversation), &key.bytes)
    }

    /// The data key that was wrapped by the master key of this id.
    pub(super) fn unwrap(&self, id: &str, wrapped: &[u8], conversation: i64) -> Result<DataKey, Locked> {
        let master = self.0.iter().find(|key| key.id == id).ok_or_else(|| Locked::no_key(id))?;
        let bytes = master.key.open(&wrapping(conversation), wrapped);
        bytes.and_then(|bytes| DataKey::new(&bytes)).ok_or_else(|| Locked::damaged(id))
    }
}

impl fmt::Debug for MasterKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|key| &key.id)).finish()
    }
}

impl PartialEq for MasterKeys {
    fn eq(&self, other: &Self) -> bool {
        self.0.iter().map(|key| &key.id).eq(other.0.iter().map(|key| &key.id))
    }
}

impl Eq for MasterKeys {}

impl MasterKey {
    fn new(bytes: &[u8]) -> Option<Self> {
        let id = sha256([&b"sotto master key"[..], bytes].concat())[..16].to_owned();
        Some(Self { id, key: RandomizedNonceKey::new(&AES_256_GCM, bytes).ok()? })
    }
}

/// What a wrapped key is bound to.
fn wrapping(conversation: i64) -> Vec<u8> {
    [&b"data key"[..], &conversation.to_be_bytes()].concat()
}

/// Why what is sealed cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct Locked(String);

impl Locked {
    /// For those who cannot go on without.
    pub(super) fn as_error(&self) -> StoreError {
        StoreError::Broken(self.0.clone())
    }

    pub(super) fn no_key(id: &str) -> Self {
        Self(format!(
            "the conversation is sealed with the key {id}, which store.key and store.key_file do not have; add it"
        ))
    }

    fn damaged(id: &str) -> Self {
        Self(format!(
            "the conversation's own key, wrapped by the key {id}, is damaged; restore it from a backup"
        ))
    }

    /// Rows are sealed and nobody knows with what.
    pub(super) fn unknown() -> Self {
        Self(
            "the conversation is sealed and its own key is not there: it was erased, is missing from a restored backup, \
             or store.key was set in another process later than here"
                .to_owned(),
        )
    }
}

/// The key of one conversation.
pub(super) struct DataKey {
    bytes: Vec<u8>,
    key: RandomizedNonceKey,
}

/// A row: what is sealed for it opens nowhere else.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place<'a> {
    Record { conversation: i64, seq: i64 },
    Stanza { conversation: i64, number: i64, audience: &'a str },
}

impl Place<'_> {
    fn bytes(self) -> Vec<u8> {
        match self {
            Self::Record { conversation, seq } => {
                [&b"record"[..], &conversation.to_be_bytes(), &seq.to_be_bytes()].concat()
            }
            Self::Stanza { conversation, number, audience } => {
                let (conversation, number) = (conversation.to_be_bytes(), number.to_be_bytes());
                [&b"stanza"[..], &conversation, &number, audience.as_bytes()].concat()
            }
        }
    }
}

impl DataKey {
    fn new(bytes: &[u8]) -> Option<Self> {
        let key = RandomizedNonceKey::new(&AES_256_GCM, bytes).ok()?;
        Some(Self { bytes: bytes.to_owned(), key })
    }

    pub(super) fn generate() -> Option<Self> {
        let mut bytes = [0; KEY];
        getrandom::fill(&mut bytes).ok()?;
        Self::new(&bytes)
    }

    /// Seals `secret` for a place, with `clear` readable beside it. `None`: the system has no random numbers.
    pub(super) fn seal(&self, place: Place<'_>, clear: &[u8], secret: &[u8]) -> Option<Vec<u8>> {
        let mut sealed = vec![MARK, VERSION];
        sealed.extend(u32::try_from(clear.len()).ok()?.to_be_bytes());
        sealed.extend(clear);
        let bound = [&sealed[..], &place.bytes()].concat();
        sealed.extend(self.key.seal(&bound, secret)?);
        Some(sealed)
    }

    /// What was sealed for a place. `None`: it is damaged, or of another place or key.
    pub(super) fn open(&self, place: Place<'_>, sealed: &[u8]) -> Option<Vec<u8>> {
        let end = HEADER + clear(sealed)?.len();
        let (open, secret) = sealed.split_at_checked(end)?;
        self.key.open(&[open, &place.bytes()].concat(), secret)
    }
}

/// Whether bytes from the database are sealed.
pub(super) fn is_sealed(body: &[u8]) -> bool {
    body.first() == Some(&MARK)
}

/// The part of what is sealed that can be read without a key.
pub(super) fn clear(sealed: &[u8]) -> Option<&[u8]> {
    let (header, rest) = sealed.split_at_checked(HEADER)?;
    let length = header.strip_prefix(&[MARK, VERSION])?;
    let length = u32::from_be_bytes(length.try_into().ok()?);
    rest.get(..usize::try_from(length).ok()?)
}

/// A key that makes up a new nonce each time and writes it in front.
trait Sealing {
    fn seal(&self, bound: &[u8], secret: &[u8]) -> Option<Vec<u8>>;
    fn open(&self, bound: &[u8], sealed: &[u8]) -> Option<Vec<u8>>;
}

impl Sealing for RandomizedNonceKey {
    fn seal(&self, bound: &[u8], secret: &[u8]) -> Option<Vec<u8>> {
        let mut body = secret.to_owned();
        let nonce = self.seal_in_place_append_tag(Aad::from(bound), &mut body).ok()?;
        Some([&nonce.as_ref()[..], &body].concat())
    }

    fn open(&self, bound: &[u8], sealed: &[u8]) -> Option<Vec<u8>> {
        let (nonce, body) = sealed.split_at_checked(NONCE_LEN)?;
        let mut body = body.to_owned();
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let length = self.open_in_place(nonce, Aad::from(bound), &mut body).ok()?.len();
        body.truncate(length);
        Some(body)
    }
}

#[cfg(test)]
mod tests;
