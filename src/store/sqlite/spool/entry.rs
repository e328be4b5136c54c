//! Stanzas as bytes in a spool: how many bytes there are and their sum, then what there is. Whoever wrote the last entry may
//! have ended in the midst of it, and a loss of power may have kept any part: what does not add up is the end.

use crate::store::records::{KeptStanza, Lease, Quick};

/// The length of an entry and the sum of its bytes.
const HEAD: usize = 8;

/// Stanzas as an entry.
pub(super) fn encode(quick: &Quick) -> Vec<u8> {
    let mut bytes = vec![0; HEAD];
    for number in [quick.at, quick.lease.conversation, quick.lease.fence] {
        bytes.extend(number.to_le_bytes());
    }
    for stanza in &quick.stanzas {
        bytes.extend(stanza.number.to_le_bytes());
        bytes.push(u8::from(stanza.reasoning));
        for part in [stanza.audience.as_bytes(), &stanza.body] {
            bytes.extend((part.len() as u64).to_le_bytes());
            bytes.extend(part);
        }
    }
    let length = (bytes.len() - HEAD) as u32;
    let sum = crc32fast::hash(&bytes[HEAD..]);
    bytes[..4].copy_from_slice(&length.to_le_bytes());
    bytes[4..HEAD].copy_from_slice(&sum.to_le_bytes());
    bytes
}

/// The entries with which `bytes` begin.
pub(super) fn decode(mut bytes: &[u8]) -> Vec<Quick> {
    let mut entries = Vec::new();
    while let Some(entry) = next(&mut bytes) {
        entries.push(entry);
    }
    entries
}

fn next(bytes: &mut &[u8]) -> Option<Quick> {
    let length = u32::from_le_bytes(take(bytes)?) as usize;
    let sum = u32::from_le_bytes(take(bytes)?);
    let mut entry = bytes.split_off(..length).filter(|entry| crc32fast::hash(entry) == sum)?;
    let mut number = || take(&mut entry).map(i64::from_le_bytes);
    let (at, lease) = (number()?, Lease { conversation: number()?, fence: number()? });
    let mut stanzas = Vec::new();
    while !entry.is_empty() {
        stanzas.push(stanza(&mut entry)?);
    }
    (!stanzas.is_empty()).then_some(Quick { at, lease, stanzas })
}

fn stanza(entry: &mut &[u8]) -> Option<KeptStanza> {
    let number = i64::from_le_bytes(take(entry)?);
    let [reasoning] = take(entry)?;
    let mut part = || {
        let length = u64::from_le_bytes(take(entry)?);
        entry.split_off(..usize::try_from(length).ok()?).map(<[u8]>::to_vec)
    };
    let (audience, body) = (String::from_utf8(part()?).ok()?, part()?);
    Some(KeptStanza { number, audience, reasoning: reasoning != 0, body })
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (first, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn entry(number: i64, body: &[u8]) -> Quick {
        let stanza = |number| KeptStanza {
            number,
            audience: "everyone".to_owned(),
            reasoning: number % 2 == 0,
            body: body.to_owned(),
        };
        let lease = Lease { conversation: 7, fence: 3 };
        Quick { at: 5, lease, stanzas: vec![stanza(number), stanza(number - 1)] }
    }

    /// Wherever the process ended while it wrote: what was complete before is there, and nothing else.
    #[test]
    fn what_is_cut_off_anywhere_loses_only_what_was_not_complete() {
        let entries = [entry(-1, b"first"), entry(-3, b"second"), entry(-5, &[1; 300])];
        let mut bytes = Vec::new();
        let ends = entries.each_ref().map(|entry| {
            bytes.extend(encode(entry));
            bytes.len()
        });
        for end in 0..=bytes.len() {
            let mut cut = bytes[..end].to_owned();
            cut.resize(bytes.len() + 100, 0);
            let complete = ends.iter().filter(|complete| **complete <= end).count();
            assert_eq!(decode(&cut), entries[..complete]);
        }
    }

    proptest! {
        #[test]
        fn whatever_there_is_can_be_read(bytes: Vec<u8>, flipped: prop::sample::Index) {
            decode(&bytes);
            let mut damaged = encode(&entry(-1, &bytes));
            let at = flipped.index(damaged.len());
            damaged[at] ^= 1;
            prop_assert_eq!(decode(&damaged), []);
        }
    }
}
