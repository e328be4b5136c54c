//! [`KeyProvider`]: the keys of end-to-end encryption, in memory.
//!
//! It keeps keys and gives them back; it derives nothing from them (see the text of
//! [`frame_cryptor`](super::frame_cryptor)) and never writes them anywhere, logs included.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;

use super::frame_cryptor::KeyProviderOptions;

/// What the original uses when the asked size makes no sense, and the largest it allows.
const DEFAULT_RING_SIZE: usize = 16;
const MAX_RING_SIZE: usize = 255;

/// Holds one ring of keys that all participants share, and one for each that has keys of its own.
/// Clones are the same provider.
#[derive(Clone)]
pub struct KeyProvider {
    shared_key: bool,
    ring_size: usize,
    rings: Arc<Mutex<Rings>>,
}

#[derive(Default)]
struct Rings {
    shared: KeyRing,
    by_participant: HashMap<String, KeyRing>,
}

/// Keys by index, and the index that was set last.
#[derive(Default)]
struct KeyRing {
    keys: HashMap<usize, Vec<u8>>,
    current: usize,
}

impl KeyRing {
    /// A negative index means the current key.
    fn slot(&self, key_index: i32, ring_size: usize) -> usize {
        usize::try_from(key_index).map_or(self.current, |index| index % ring_size)
    }

    fn set(&mut self, key_index: i32, key: Vec<u8>, ring_size: usize) {
        self.current = self.slot(key_index, ring_size);
        self.keys.insert(self.current, key);
    }

    fn get(&self, key_index: i32, ring_size: usize) -> Option<Vec<u8>> {
        self.keys.get(&self.slot(key_index, ring_size)).cloned()
    }
}

impl KeyProvider {
    /// A provider without keys.
    #[allow(clippy::needless_pass_by_value, reason = "the original's signature")]
    pub fn new(options: KeyProviderOptions) -> Self {
        let ring_size = match usize::try_from(options.key_ring_size) {
            Ok(0) | Err(_) => DEFAULT_RING_SIZE,
            Ok(size) => size.min(MAX_RING_SIZE),
        };
        Self { shared_key: options.shared_key, ring_size, rings: Arc::default() }
    }

    /// Sets a key that all participants share, also those that had one of their own at that index. `false`,
    /// and nothing is kept, if the provider was made for keys per participant.
    #[allow(clippy::needless_pass_by_value, reason = "the original's signature")]
    pub fn set_shared_key(&self, key_index: i32, key: Vec<u8>) -> bool {
        if !self.shared_key {
            return false;
        }
        let Rings { shared, by_participant } = &mut *self.rings.lock();
        for ring in by_participant.values_mut().chain([shared]) {
            ring.set(key_index, key.clone(), self.ring_size);
        }
        true
    }

    /// Always `None`: keys are not derived here.
    pub fn ratchet_shared_key(&self, _key_index: i32) -> Option<Vec<u8>> {
        None
    }

    /// The shared key with that index.
    pub fn get_shared_key(&self, key_index: i32) -> Option<Vec<u8>> {
        self.rings.lock().shared.get(key_index, self.ring_size)
    }

    /// Sets a key of one participant.
    pub fn set_key(&self, participant_id: String, key_index: i32, key: Vec<u8>) -> bool {
        let mut rings = self.rings.lock();
        rings.by_participant.entry(participant_id).or_default().set(key_index, key, self.ring_size);
        true
    }

    /// Always `None`: keys are not derived here.
    pub fn ratchet_key(&self, _participant_id: String, _key_index: i32) -> Option<Vec<u8>> {
        None
    }

    /// The participant's key with that index: its own, or the shared one if it has none at all.
    #[allow(clippy::needless_pass_by_value, reason = "the original's signature")]
    pub fn get_key(&self, participant_id: String, key_index: i32) -> Option<Vec<u8>> {
        let rings = self.rings.lock();
        match rings.by_participant.get(&participant_id) {
            Some(ring) => ring.get(key_index, self.ring_size),
            None if self.shared_key => rings.shared.get(key_index, self.ring_size),
            None => None,
        }
    }

    /// Does nothing: frames that the server injects unencrypted are not told apart yet.
    pub fn set_sif_trailer(&self, _trailer: Vec<u8>) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::native::frame_cryptor::KeyDerivationAlgorithm;

    fn provider(shared_key: bool, key_ring_size: i32) -> KeyProvider {
        KeyProvider::new(KeyProviderOptions {
            shared_key,
            ratchet_window_size: 16,
            ratchet_salt: b"salt".to_vec(),
            failure_tolerance: -1,
            key_ring_size,
            key_derivation_algorithm: KeyDerivationAlgorithm::PBKDF2,
        })
    }

    #[test]
    fn keys_are_kept_per_participant_and_index() {
        let keys = provider(false, 16);
        assert!(keys.set_key("alice".into(), 0, vec![1]));
        assert!(keys.clone().set_key("alice".into(), 3, vec![2]));
        assert_eq!(keys.get_key("alice".into(), 0), Some(vec![1]));
        assert_eq!(keys.get_key("alice".into(), 3), Some(vec![2]));
        assert_eq!(keys.get_key("alice".into(), -1), Some(vec![2]), "the one set last");
        assert_eq!(keys.get_key("alice".into(), 1), None);
        assert_eq!(keys.get_key("bob".into(), 0), None);
    }

    #[test]
    fn a_shared_key_stands_in_for_participants_without_keys() {
        let keys = provider(true, 16);
        assert!(keys.set_shared_key(0, vec![7]));
        keys.set_key("alice".into(), 0, vec![1]);
        assert_eq!(keys.get_shared_key(0), Some(vec![7]));
        assert_eq!(keys.get_key("bob".into(), 0), Some(vec![7]));
        assert_eq!(keys.get_key("alice".into(), 0), Some(vec![1]));
        keys.set_shared_key(0, vec![8]);
        assert_eq!(keys.get_key("alice".into(), 0), Some(vec![8]), "a new shared key is for everybody");
    }

    #[test]
    fn a_provider_of_own_keys_takes_no_shared_one() {
        let keys = provider(false, 16);
        assert!(!keys.set_shared_key(0, vec![7]));
        assert_eq!(keys.get_shared_key(0), None);
    }

    #[test]
    fn indices_go_around_the_ring() {
        let keys = provider(true, 4);
        keys.set_shared_key(5, vec![5]);
        assert_eq!(keys.get_shared_key(1), Some(vec![5]));
        for nonsense in [0, -3] {
            let keys = provider(true, nonsense);
            keys.set_shared_key(17, vec![1]);
            assert_eq!(keys.get_shared_key(1), Some(vec![1]));
        }
        let keys = provider(true, i32::MAX);
        keys.set_shared_key(i32::MAX, vec![1]);
        assert_eq!(keys.get_shared_key(i32::MAX % 255), Some(vec![1]));
    }

    #[test]
    fn ratcheting_says_that_it_has_no_key() {
        let keys = provider(true, 16);
        keys.set_shared_key(0, vec![1]);
        assert_eq!(keys.ratchet_shared_key(0), None);
        assert_eq!(keys.ratchet_key("alice".into(), 0), None);
        assert_eq!(keys.get_shared_key(0), Some(vec![1]), "and the key is still there");
    }
}
