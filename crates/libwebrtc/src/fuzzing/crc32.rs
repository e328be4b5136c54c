//! The checksums of SCTP and of STUN's fingerprint: both are CRC-32, each with its own polynomial (bits reversed).

/// SCTP's.
pub(super) const CASTAGNOLI: u32 = 0x82f6_3b78;
/// STUN's.
pub(super) const ETHERNET: u32 = 0xedb8_8320;

/// Bit by bit: packets are short and simplicity counts.
pub(super) fn crc32(bytes: &[u8], polynomial: u32) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| crc >> 1 ^ if crc & 1 == 1 { polynomial } else { 0 })
    })
}
