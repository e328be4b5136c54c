//! What the original crate offers beside WebRTC proper: random identifiers, end-to-end encryption, trailers
//! on video frames.
//!
//! Of these only the identifiers work; the others exist so that `livekit` builds, and fail safely.

pub mod frame_cryptor;
mod key_provider;
pub mod packet_trailer;

use std::fmt::Write;

/// A random (version 4) UUID in its usual text form, from the operating system's randomness.
pub fn create_random_uuid() -> String {
    let mut bytes = [0u8; 16];
    getrandom::fill(&mut bytes).expect("every system this crate runs on has a source of randomness");
    bytes[6] = bytes[6] & 0x0f | 0x40; // version 4: random
    bytes[8] = bytes[8] & 0x3f | 0x80; // the variant of RFC 4122

    let mut text = String::with_capacity(36);
    for (position, byte) in bytes.iter().enumerate() {
        if matches!(position, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        write!(text, "{byte:02x}").expect("writing to a String cannot fail");
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn identifiers_are_version_4_uuids_and_differ() {
        let uuids: HashSet<String> = (0..500).map(|_| create_random_uuid()).collect();
        assert_eq!(uuids.len(), 500);
        for uuid in uuids {
            let groups: Vec<&str> = uuid.split('-').collect();
            assert_eq!(
                groups.iter().map(|group| group.len()).collect::<Vec<_>>(),
                [8, 4, 4, 4, 12],
                "{uuid}"
            );
            assert!(
                uuid.chars().all(|c| c == '-' || c.is_ascii_digit() || ('a'..='f').contains(&c)),
                "{uuid}"
            );
            assert!(groups[2].starts_with('4'), "{uuid}");
            assert!(groups[3].starts_with(['8', '9', 'a', 'b']), "{uuid}");
        }
    }
}
