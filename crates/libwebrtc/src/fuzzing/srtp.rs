//! SRTP as a sender does it (RFC 3711, RFC 7714), with the keys of a real DTLS session: what the attacker sends is
//! authentic, whatever is in it.

use str0m::crypto::{AeadAes256Gcm, AeadAes256GcmCipher, SrtpProvider, from_feature_flags};

use super::hostile_crypto::SrtpKeys;

const RTP_HEADER: usize = 12;
const RTCP_HEADER: usize = 8;
const KEY: usize = AeadAes256Gcm::KEY_LEN;
const SALT: usize = AeadAes256Gcm::SALT_LEN;
/// Where the keys of RTCP begin among the labels of RFC 3711, section 4.3.
const RTCP_LABELS: u8 = 3;

/// Encrypts for one direction of one session.
pub(super) struct Protector {
    rtp: Direction,
    rtcp: Direction,
    rtcp_index: u32,
}

struct Direction {
    cipher: Box<dyn AeadAes256GcmCipher>,
    salt: [u8; SALT],
}

impl Protector {
    /// `None` for another cipher than the one that two `str0m`s agree on.
    pub(super) fn new(keys: &SrtpKeys) -> Option<Self> {
        if !keys.is_aes_256_gcm || keys.material.len() != 2 * (KEY + SALT) {
            return None;
        }
        let half = usize::from(!keys.is_client);
        let (masters, salts) = keys.material.split_at(2 * KEY);
        let master = &masters[half * KEY..][..KEY];
        let salt = &salts[half * SALT..][..SALT];
        let provider = from_feature_flags().srtp_provider;
        let direction = |label| Direction {
            cipher: provider.aead_aes_256_gcm().create_cipher(derive(provider, master, salt, label), true),
            salt: derive(provider, master, salt, label + 2),
        };
        Some(Self { rtp: direction(0), rtcp: direction(RTCP_LABELS), rtcp_index: 0 })
    }

    /// Protects an RTP packet; too short a one is filled up with zeros.
    pub(super) fn rtp(&mut self, packet: &[u8], rollovers: u32) -> Vec<u8> {
        let mut packet = packet.to_vec();
        packet.resize(packet.len().max(RTP_HEADER), 0);
        let (header, payload) = packet.split_at(rtp_header_length(&packet));
        let sequence = u16::from_be_bytes([packet[2], packet[3]]);
        let iv = AeadAes256Gcm::rtp_iv(self.rtp.salt, word(&packet[8..]), rollovers, sequence);
        let mut protected = header.to_vec();
        protected.extend(self.rtp.seal(&iv, header, payload));
        protected
    }

    /// The same for RTCP.
    pub(super) fn rtcp(&mut self, packet: &[u8]) -> Vec<u8> {
        let mut packet = packet.to_vec();
        packet.resize(packet.len().max(RTCP_HEADER), 0);
        let (header, rest) = packet.split_at(RTCP_HEADER);
        self.rtcp_index += 1;
        let trailer = (1 << 31 | self.rtcp_index).to_be_bytes();
        let iv = AeadAes256Gcm::rtcp_iv(self.rtcp.salt, word(&packet[4..]), self.rtcp_index);
        let mut protected = header.to_vec();
        protected.extend(self.rtcp.seal(&iv, &[header, &trailer].concat(), rest));
        protected.extend(trailer);
        protected
    }
}

impl Direction {
    fn seal(&mut self, iv: &[u8; SALT], associated: &[u8], plain: &[u8]) -> Vec<u8> {
        let mut sealed = vec![0; plain.len() + AeadAes256Gcm::TAG_LEN];
        self.cipher
            .encrypt(iv, associated, plain, &mut sealed)
            .expect("the lengths are as the cipher wants them");
        sealed
    }
}

/// Key derivation of RFC 3711, section 4.3, with a rate of zero.
fn derive<const N: usize>(provider: &dyn SrtpProvider, master: &[u8], salt: &[u8], label: u8) -> [u8; N] {
    let mut block = [0; 16];
    block[..SALT].copy_from_slice(salt);
    block[7] ^= label;
    let mut derived = [0; N];
    for (round, part) in (0_u16..).zip(derived.chunks_mut(16)) {
        block[14..].copy_from_slice(&round.to_be_bytes());
        // The provider wants room for a second block that it does not need.
        let mut output = [0; 32];
        provider.srtp_aes_256_ecb_round(master, &block, &mut output);
        part.copy_from_slice(&output[..part.len()]);
    }
    derived
}

/// Fixed part, contributing sources and extension, as far as the packet reaches.
fn rtp_header_length(packet: &[u8]) -> usize {
    let sources = RTP_HEADER + 4 * usize::from(packet[0] & 0x0f);
    let length = match packet.get(sources + 2..sources + 4) {
        Some(&[high, low]) if packet[0] & 0x10 != 0 => {
            sources + 4 + 4 * usize::from(u16::from_be_bytes([high, low]))
        }
        _ => sources,
    };
    length.min(packet.len())
}

/// The first four bytes.
fn word(bytes: &[u8]) -> u32 {
    bytes.iter().take(4).fold(0, |word, byte| word << 8 | u32::from(*byte))
}
