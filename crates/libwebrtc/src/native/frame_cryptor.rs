//! End-to-end encryption: its types, without the encryption.
//!
//! It is not built yet, and everything here fails on the safe side. Data packets cannot be encrypted or
//! decrypted: an error. A [`FrameCryptor`] silences the sender or receiver that it is made for, for good, so
//! that what was meant to be encrypted never leaves as plain text and what cannot be decrypted is never
//! played as noise. Switching the cryptor off does not bring the sound back: `livekit` also does that when it
//! cleans up.

use std::{
    error::Error,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI32, Ordering},
    },
};

use parking_lot::Mutex;

pub use super::key_provider::KeyProvider;
use crate::{
    native::packet_trailer::PacketTrailerHandler, peer_connection_factory::PeerConnectionFactory,
    rtp_receiver::RtpReceiver, rtp_sender::RtpSender,
};

/// Why nothing is encrypted, and why nothing passes instead.
const UNSUPPORTED: &str = "end-to-end encryption is not supported by this build of libwebrtc (pure Rust); \
    nothing is sent or played in its place";

/// Told about a participant's identity and the new state of its encryption.
pub type OnStateChange = Box<dyn FnMut(String, EncryptionState) + Send + Sync>;

/// How keys are derived from what the application sets. Without effect.
#[derive(Copy, Clone, Debug)]
#[non_exhaustive]
#[allow(clippy::upper_case_acronyms, reason = "the names of the algorithms")]
pub enum KeyDerivationAlgorithm {
    /// From a password.
    PBKDF2,
    /// From a key.
    HKDF,
}

/// How a [`KeyProvider`] works.
#[derive(Debug, Clone)]
pub struct KeyProviderOptions {
    /// Whether all participants share their keys.
    pub shared_key: bool,
    /// How many derived keys are tried. Without effect.
    pub ratchet_window_size: i32,
    /// The salt of derived keys. Without effect.
    pub ratchet_salt: Vec<u8>,
    /// How many failures are forgiven. Without effect.
    pub failure_tolerance: i32,
    /// How many keys a participant can have.
    pub key_ring_size: i32,
    /// How keys are derived. Without effect.
    pub key_derivation_algorithm: KeyDerivationAlgorithm,
}

/// The cipher.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names of the ciphers")]
pub enum EncryptionAlgorithm {
    AesGcm,
    AesCbc,
}

/// How a participant's encryption is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EncryptionState {
    /// Not used yet.
    New,
    /// Works.
    Ok,
    /// A frame could not be encrypted.
    EncryptionFailed,
    /// A frame could not be decrypted.
    DecryptionFailed,
    /// There is no key.
    MissingKey,
    /// A derived key is used from now on.
    KeyRatcheted,
    /// It cannot work: what is always reported here.
    InternalError,
}

/// An encrypted data packet.
#[derive(Debug, Clone)]
pub struct EncryptedPacket {
    /// The encrypted bytes.
    pub data: Vec<u8>,
    /// The nonce.
    pub iv: Vec<u8>,
    /// Which key it was.
    pub key_index: u32,
}

/// Stands where a track would be encrypted or decrypted, and lets nothing pass. Clones are the same cryptor.
#[derive(Clone)]
pub struct FrameCryptor {
    shared: Arc<Shared>,
}

struct Shared {
    participant_id: String,
    enabled: AtomicBool,
    key_index: AtomicI32,
    on_state_change: Mutex<Option<OnStateChange>>,
}

impl FrameCryptor {
    /// Silences the sender.
    #[allow(clippy::needless_pass_by_value, reason = "the original's signature")]
    pub fn new_for_rtp_sender(
        _peer_factory: &PeerConnectionFactory,
        participant_id: String,
        _algorithm: EncryptionAlgorithm,
        _key_provider: KeyProvider,
        sender: RtpSender,
    ) -> Self {
        sender.refuse_plaintext(UNSUPPORTED);
        Self::new(participant_id)
    }

    /// Silences the receiver.
    #[allow(clippy::needless_pass_by_value, reason = "the original's signature")]
    pub fn new_for_rtp_receiver(
        _peer_factory: &PeerConnectionFactory,
        participant_id: String,
        _algorithm: EncryptionAlgorithm,
        _key_provider: KeyProvider,
        receiver: RtpReceiver,
    ) -> Self {
        receiver.refuse_plaintext(UNSUPPORTED);
        Self::new(participant_id)
    }

    fn new(participant_id: String) -> Self {
        log::error!("a track of {participant_id} stays silent: {UNSUPPORTED}");
        Self {
            shared: Arc::new(Shared {
                participant_id,
                enabled: AtomicBool::new(false),
                key_index: AtomicI32::new(0),
                on_state_change: Mutex::new(None),
            }),
        }
    }

    /// Remembers the switch; on or off, nothing passes.
    pub fn set_enabled(&self, enabled: bool) {
        self.shared.enabled.store(enabled, Ordering::Release);
    }

    /// The switch.
    pub fn enabled(&self) -> bool {
        self.shared.enabled.load(Ordering::Acquire)
    }

    /// Remembers which key to use.
    pub fn set_key_index(&self, index: i32) {
        self.shared.key_index.store(index, Ordering::Release);
    }

    /// The key to use.
    pub fn key_index(&self) -> i32 {
        self.shared.key_index.load(Ordering::Acquire)
    }

    /// Whose track it is.
    pub fn participant_id(&self) -> String {
        self.shared.participant_id.clone()
    }

    /// Sets who is told about the state, and tells them: [`EncryptionState::InternalError`].
    ///
    /// The handler runs in a task of its own if there is a runtime, since the caller may hold locks that it
    /// needs.
    pub fn on_state_change(&self, handler: Option<OnStateChange>) {
        let is_set = handler.is_some();
        *self.shared.on_state_change.lock() = handler;
        if !is_set {
            return;
        }
        let shared = self.shared.clone();
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn(async move { shared.report_failure() })),
            Err(_) => shared.report_failure(),
        }
    }

    /// Does nothing.
    pub fn set_packet_trailer_handler(&self, _handler: &PacketTrailerHandler) {}
}

impl Shared {
    fn report_failure(&self) {
        if let Some(handler) = self.on_state_change.lock().as_mut() {
            handler(self.participant_id.clone(), EncryptionState::InternalError);
        }
    }
}

/// Would encrypt and decrypt data packets; returns errors.
#[derive(Clone)]
pub struct DataPacketCryptor {}

impl DataPacketCryptor {
    /// A cryptor that can do nothing.
    pub fn new(_algorithm: EncryptionAlgorithm, _key_provider: KeyProvider) -> Self {
        Self {}
    }

    /// Always an error.
    pub fn encrypt(
        &self,
        _participant_id: &str,
        _key_index: u32,
        _data: &[u8],
    ) -> Result<EncryptedPacket, Box<dyn Error>> {
        Err(UNSUPPORTED.into())
    }

    /// Always an error.
    pub fn decrypt(
        &self,
        _participant_id: &str,
        _encrypted_packet: &EncryptedPacket,
    ) -> Result<Vec<u8>, Box<dyn Error>> {
        Err(UNSUPPORTED.into())
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;

    use super::*;

    #[test]
    fn data_packets_are_refused_with_the_reason() {
        let keys = KeyProvider::new(KeyProviderOptions {
            shared_key: true,
            ratchet_window_size: 16,
            ratchet_salt: Vec::new(),
            failure_tolerance: -1,
            key_ring_size: 16,
            key_derivation_algorithm: KeyDerivationAlgorithm::HKDF,
        });
        keys.set_shared_key(0, vec![1; 32]);
        let cryptor = DataPacketCryptor::new(EncryptionAlgorithm::AesGcm, keys);
        let error = cryptor.encrypt("alice", 0, b"secret").unwrap_err();
        assert!(error.to_string().starts_with("end-to-end encryption is not supported"), "{error}");
        let packet = EncryptedPacket { data: b"secret".to_vec(), iv: vec![0; 12], key_index: 0 };
        assert!(cryptor.decrypt("alice", &packet).is_err());
    }

    #[tokio::test]
    async fn a_handler_learns_that_it_cannot_work() {
        let cryptor = FrameCryptor::new("alice".to_owned());
        let (told, mut heard) = mpsc::unbounded_channel();
        cryptor.on_state_change(Some(Box::new(move |participant, state| {
            told.send((participant, state)).expect("the test waits for it");
        })));
        assert_eq!(heard.recv().await, Some(("alice".to_owned(), EncryptionState::InternalError)));
    }

    #[test]
    fn a_handler_learns_it_without_a_runtime_too() {
        let cryptor = FrameCryptor::new("alice".to_owned());
        let (told, heard) = std::sync::mpsc::channel();
        let told = Mutex::new(told);
        cryptor.on_state_change(Some(Box::new(move |_, state| {
            told.lock().send(state).expect("the test waits for it");
        })));
        assert_eq!(heard.try_recv(), Ok(EncryptionState::InternalError));
    }

    #[test]
    fn switches_are_remembered() {
        let cryptor = FrameCryptor::new("alice".to_owned());
        let clone = cryptor.clone();
        clone.set_enabled(true);
        clone.set_key_index(3);
        assert!(cryptor.enabled());
        assert_eq!((cryptor.key_index(), cryptor.participant_id()), (3, "alice".to_owned()));
    }
}
