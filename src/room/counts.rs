//! What the room adapter drops, refuses or fails to do, in numbers: nobody else would notice.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters, only ever going up; rooms may share them.
#[derive(Debug, Default)]
pub struct Counts {
    /// Packets whose bytes came from two senders at once, so that nobody could be named.
    pub ambiguous_packets: Count,
    /// Packets without any sender (hidden participants, the server's API).
    pub anonymous_packets: Count,
    /// Packets whose sender did not become known in time.
    pub unattributed_packets: Count,
    /// Packets, chat messages and refusals that were dropped because the session was behind.
    pub overflowed: Count,
    /// Incoming streams that broke a limit.
    pub refused_streams: Count,
    /// Envelopes that could not be sent.
    pub failed_sends: Count,
    /// Pieces of a transcript that could not be sent.
    pub failed_transcripts: Count,
    /// States that could not be shown.
    pub failed_states: Count,
}

impl Counts {
    /// All of them, by name.
    pub fn all(&self) -> [(&'static str, u64); 8] {
        [
            ("ambiguous_packet", &self.ambiguous_packets),
            ("anonymous_packet", &self.anonymous_packets),
            ("unattributed_packet", &self.unattributed_packets),
            ("overflowed", &self.overflowed),
            ("refused_stream", &self.refused_streams),
            ("failed_send", &self.failed_sends),
            ("failed_transcript", &self.failed_transcripts),
            ("failed_state", &self.failed_states),
        ]
        .map(|(name, count)| (name, count.get()))
    }
}

/// One counter.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    /// How many so far.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub(super) fn add_one(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}
