//! The hostile peer's cryptography: DTLS that is real on the wire, with a tap and a tee on the inside.
//!
//! A `str0m::Rtc` with this provider finishes ICE, DTLS and SCTP with us like any peer. From then on, whatever is put
//! into [`Inside::inject`] goes out as application data of that DTLS session, and the SRTP keys are known.

use std::{
    collections::VecDeque,
    sync::{Arc, OnceLock},
    time::Instant,
};

use parking_lot::Mutex;
use str0m::crypto::{
    CryptoError, CryptoProvider,
    dtls::{
        DtlsCert, DtlsImplError, DtlsInstance, DtlsOutput, DtlsProvider, DtlsVersion, ProtocolVersion,
        SrtpProfile,
    },
    from_feature_flags,
};

/// What the attacker knows and does inside one DTLS session.
#[derive(Debug, Default)]
pub(super) struct Inside {
    /// Goes out as application data, next time that DTLS is polled.
    pub(super) inject: VecDeque<Vec<u8>>,
    /// The peer's own SCTP neither speaks nor hears any more: answers to what was injected would end it.
    pub(super) detached: bool,
    /// The last SCTP packets that the peer sent and received, as they were before encryption.
    pub(super) sent: Vec<Vec<u8>>,
    pub(super) received: Vec<Vec<u8>>,
    pub(super) keys: Option<SrtpKeys>,
}

/// The keying material of the session and which half of it is the peer's.
#[derive(Debug, Clone)]
pub(super) struct SrtpKeys {
    pub(super) material: Vec<u8>,
    pub(super) is_aes_256_gcm: bool,
    pub(super) is_client: bool,
}

/// SCTP packets remembered in each direction: the handshake and a little more.
const REMEMBERED: usize = 16;

/// Handed to the next DTLS instance that this thread makes: a provider is `'static`, a session is not.
mod next_session {
    use super::{Arc, Inside, Mutex};
    use std::cell::RefCell;

    thread_local! {
        static NEXT: RefCell<Option<Arc<Mutex<Inside>>>> = const { RefCell::new(None) };
    }

    pub(super) fn set(inside: Arc<Mutex<Inside>>) {
        NEXT.set(Some(inside));
    }

    pub(super) fn take() -> Arc<Mutex<Inside>> {
        NEXT.take().unwrap_or_default()
    }
}

fn real() -> &'static CryptoProvider {
    static REAL: OnceLock<CryptoProvider> = OnceLock::new();
    REAL.get_or_init(from_feature_flags)
}

/// A provider for exactly one `Rtc`, to be built in this thread at once, and what is inside its DTLS session.
pub(super) fn hostile_provider() -> (Arc<CryptoProvider>, Arc<Mutex<Inside>>) {
    static DTLS: HostileProvider = HostileProvider;
    let inside = Arc::new(Mutex::new(Inside::default()));
    next_session::set(inside.clone());
    (Arc::new(CryptoProvider { dtls_provider: &DTLS, ..real().clone() }), inside)
}

#[derive(Debug)]
struct HostileProvider;

impl DtlsProvider for HostileProvider {
    fn generate_certificate(&self) -> Option<DtlsCert> {
        real().dtls_provider.generate_certificate()
    }

    fn new_dtls(
        &self,
        cert: &DtlsCert,
        now: Instant,
        version: DtlsVersion,
        mtu: Option<usize>,
    ) -> Result<Box<dyn DtlsInstance>, CryptoError> {
        let dtls = real().dtls_provider.new_dtls(cert, now, version, mtu)?;
        Ok(Box::new(HostileDtls { dtls, inside: next_session::take(), now }))
    }
}

#[derive(Debug)]
struct HostileDtls {
    dtls: Box<dyn DtlsInstance>,
    inside: Arc<Mutex<Inside>>,
    now: Instant,
}

impl DtlsInstance for HostileDtls {
    fn poll_output<'a>(&mut self, buf: &'a mut [u8]) -> DtlsOutput<'a> {
        let mut inside = self.inside.lock();
        while let Some(packet) = inside.inject.pop_front() {
            // What does not fit one record is dropped: it could not be sent by anyone.
            let _ = self.dtls.send_application_data(&packet);
        }
        let output = self.dtls.poll_output(buf);
        match &output {
            DtlsOutput::ApplicationData(data) => {
                if inside.received.len() < REMEMBERED {
                    inside.received.push(data.to_vec());
                }
                if inside.detached {
                    // "Ask me again at once."
                    return DtlsOutput::Timeout(self.now);
                }
            }
            DtlsOutput::KeyingMaterial(material, profile) => {
                inside.keys = Some(SrtpKeys {
                    material: material.to_vec(),
                    is_aes_256_gcm: *profile == SrtpProfile::AEAD_AES_256_GCM,
                    is_client: self.dtls.is_active(),
                });
            }
            _ => {}
        }
        output
    }

    fn send_application_data(&mut self, data: &[u8]) -> Result<(), DtlsImplError> {
        let mut inside = self.inside.lock();
        if inside.detached {
            return Ok(());
        }
        if inside.sent.len() < REMEMBERED {
            inside.sent.push(data.to_vec());
        }
        self.dtls.send_application_data(data)
    }

    fn set_active(&mut self, active: bool) {
        self.dtls.set_active(active);
    }

    fn handle_packet(&mut self, packet: &[u8]) -> Result<(), DtlsImplError> {
        self.dtls.handle_packet(packet)
    }

    fn handle_timeout(&mut self, now: Instant) -> Result<(), DtlsImplError> {
        self.now = now;
        self.dtls.handle_timeout(now)
    }

    fn is_active(&self) -> bool {
        self.dtls.is_active()
    }

    fn protocol_version(&self) -> Option<ProtocolVersion> {
        self.dtls.protocol_version()
    }

    fn is_closing(&self) -> bool {
        self.dtls.is_closing()
    }

    fn is_closed(&self) -> bool {
        self.dtls.is_closed()
    }

    fn close(&mut self) -> Result<(), DtlsImplError> {
        self.dtls.close()
    }
}
