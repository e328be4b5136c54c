//! Who sent a packet that `livekit` hands over without a participant: a newcomer that the server has not announced yet.
//!
//! `crates/libwebrtc` has seen the packet's true sender and keeps a record for each connection. Every packet takes its
//! entry there, also where the sender is known, so that the record stays in step. While no record can be had (in the
//! middle of a reconnect) packets are held, tried again, and at last given to the one who has come meanwhile, if it is
//! exactly one. Never guesses where the record knows that nobody can be named.

use libwebrtc::sender_identity::{Sender, Senders};
use livekit::webrtc::stats::RtcStats;
use livekit::{ConnectionState, Room};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// The server announces newcomers within 3 s.
const LONGEST_HOLD: Duration = Duration::from_millis(3_500);
/// Beyond this the oldest held packet is given up.
const MOST_HELD: usize = 64;
/// Statistics come from our own process; whoever does not answer in this time is closing down.
const STATISTICS_PATIENCE: Duration = Duration::from_millis(250);
/// Packets of nobody must not make us look for a new record each time.
const BETWEEN_LOOKS: Duration = Duration::from_secs(1);
/// While there is no record at all, a packet may be waiting for it. More than the statistics' patience, so that looking
/// in vain leaves time for other things.
const UNTIL_FIRST_RECORD: Duration = Duration::from_millis(300);

/// What is known of a packet's origin.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// The server vouches for this identity.
    Identity(String),
    /// Two senders sent the same bytes: nobody can be named.
    Ambiguous,
    /// A packet without a sender.
    Nobody,
    /// It may still become known: hold it.
    NotYet,
}

/// A packet whose sender is not known yet.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) topic: Option<String>,
    pub(super) payload: Arc<Vec<u8>>,
    until: Instant,
}

/// Finds the senders of one room's packets.
#[derive(Debug, Default)]
pub(super) struct Attribution {
    records: Vec<Senders>,
    looked: Option<Instant>,
    held: VecDeque<Held>,
    /// Who has come since the first held packet.
    newcomers: BTreeSet<String>,
}

impl Attribution {
    /// The room may have other connections now.
    pub(super) fn connection_changed(&mut self) {
        self.looked = None;
    }

    /// Takes note of a packet whose sender `livekit` knows.
    pub(super) async fn pass(&mut self, room: &Room, payload: &[u8]) {
        self.ask(room, payload).await;
    }

    /// Takes the entry of a packet whose sender `livekit` does not know. One of the two is called for each packet, in
    /// order of arrival.
    pub(super) async fn origin(&mut self, room: &Room, payload: &[u8]) -> Origin {
        if !self.held.is_empty() {
            // Later packets wait behind it.
            return Origin::NotYet;
        }
        self.ask(room, payload).await
    }

    /// Keeps a packet until its sender may be known. Gives back one that has to make room for it.
    pub(super) fn hold(&mut self, topic: Option<String>, payload: Arc<Vec<u8>>) -> Option<Held> {
        let evicted = if self.held.len() == MOST_HELD { self.held.pop_front() } else { None };
        self.held.push_back(Held { topic, payload, until: Instant::now() + LONGEST_HOLD });
        evicted
    }

    /// Takes note of someone who was announced.
    pub(super) fn announced(&mut self, identity: &str) {
        if !self.held.is_empty() {
            self.newcomers.insert(identity.to_owned());
        }
    }

    /// When to look after held packets: as soon as the record may be found, and at the latest when they are given up.
    pub(super) fn next_expiry(&self) -> Option<Instant> {
        let until = self.held.front()?.until;
        Some(self.next_look().map_or(until, |look| look.min(until)))
    }

    /// The first held packet, if it is decided now. Ask until there is none.
    pub(super) async fn decided(&mut self, room: &Room) -> Option<(Held, Origin)> {
        let payload = self.held.front()?.payload.clone();
        let mut origin = self.ask(room, &payload).await;
        if origin == Origin::NotYet {
            if Instant::now() < self.held.front()?.until {
                return None;
            }
            if let (1, Some(only)) = (self.newcomers.len(), self.newcomers.first()) {
                origin = Origin::Identity(only.clone());
            }
        }
        let held = self.held.pop_front()?;
        if self.held.is_empty() {
            self.newcomers.clear();
        }
        Some((held, origin))
    }

    async fn ask(&mut self, room: &Room, payload: &[u8]) -> Origin {
        let mut sender = self.take(payload);
        if sender == Sender::Unknown && self.may_look() {
            self.look(room).await;
            sender = self.take(payload);
        }
        match sender {
            Sender::Identity(identity) => Origin::Identity(identity),
            Sender::Ambiguous => Origin::Ambiguous,
            Sender::Unknown
                if self.records.is_empty() || room.connection_state() != ConnectionState::Connected =>
            {
                Origin::NotYet
            }
            Sender::Unknown => Origin::Nobody,
        }
    }

    fn take(&self, payload: &[u8]) -> Sender {
        let mut answers = self.records.iter().map(|record| record.take(payload));
        answers.find(|sender| *sender != Sender::Unknown).unwrap_or(Sender::Unknown)
    }

    fn may_look(&self) -> bool {
        self.next_look().is_none_or(|look| look <= Instant::now())
    }

    /// Not before this.
    fn next_look(&self) -> Option<Instant> {
        let pause = if self.records.is_empty() { UNTIL_FIRST_RECORD } else { BETWEEN_LOOKS };
        self.looked.map(|looked| looked + pause)
    }

    /// Finds the records of the room's present connections: one, or two where publishing has its own.
    async fn look(&mut self, room: &Room) {
        let stats = timeout(STATISTICS_PATIENCE, room.get_stats()).await;
        self.looked = Some(Instant::now());
        let Ok(Ok(stats)) = stats else { return };
        let usernames =
            stats.publisher_stats.iter().chain(&stats.subscriber_stats).filter_map(|report| match report {
                RtcStats::Transport(report) => Some(&report.transport.ice_local_username_fragment),
                _ => None,
            });
        self.records = usernames.filter_map(|username| Senders::of_connection(username)).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The connection was too young for statistics when the first packet came.
    #[test]
    fn after_a_vain_look_a_held_packet_is_soon_looked_after_again() {
        let now = Instant::now();
        let mut attribution = Attribution { looked: Some(now), ..Attribution::default() };
        assert_eq!(attribution.next_expiry(), None, "nothing is held");
        attribution.hold(None, Arc::new(b"hello".to_vec()));
        assert_eq!(attribution.next_expiry(), Some(now + UNTIL_FIRST_RECORD));
        assert!(!attribution.may_look(), "but not at once");
        attribution.connection_changed();
        assert!(attribution.may_look());
    }
}
