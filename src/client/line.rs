//! Envelopes in the order in which they were begun.
//!
//! The SDK tells of packets and of the beginning of a stream in order, but of a stream's parts from another task: a packet
//! that was sent after a stream may be here before the stream is complete. So a stream gets a place in line when it
//! begins, and those behind it wait. Pure: the time is an argument.

use std::collections::VecDeque;
use tokio::time::Instant;

#[derive(Debug)]
enum Place {
    Here(Vec<u8>),
    Coming { from: String, stream: String, until: Instant },
}

#[derive(Debug, Default)]
pub(super) struct Line(VecDeque<Place>);

impl Line {
    /// An envelope is here.
    pub(super) fn join(&mut self, envelope: Vec<u8>) {
        self.0.push_back(Place::Here(envelope));
    }

    /// One is on its way, and is waited for so long.
    pub(super) fn expect(&mut self, from: &str, stream: &str, until: Instant) {
        self.0.push_back(Place::Coming { from: from.to_owned(), stream: stream.to_owned(), until });
    }

    /// One that was on its way is here. Its place may be gone: then it comes late rather than never.
    pub(super) fn arrive(&mut self, from: &str, stream: &str, envelope: Vec<u8>) {
        match self.0.iter_mut().find(|place| place.is_for(from, stream)) {
            Some(place) => *place = Place::Here(envelope),
            None => self.join(envelope),
        }
    }

    /// One that was on its way will not come.
    pub(super) fn give_up(&mut self, from: &str, stream: &str) {
        self.0.retain(|place| !place.is_for(from, stream));
    }

    /// Whoever was sending them has left.
    pub(super) fn forget(&mut self, sender: &str) {
        self.0.retain(|place| !matches!(place, Place::Coming { from, .. } if from == sender));
    }

    /// Until when the first in line is waited for, if it is not here.
    pub(super) fn patience(&self) -> Option<Instant> {
        match self.0.front() {
            Some(Place::Coming { until, .. }) => Some(*until),
            _ => None,
        }
    }

    /// The first in line, if it is here.
    pub(super) fn next(&mut self, now: Instant) -> Option<Vec<u8>> {
        while self.patience().is_some_and(|until| until <= now) {
            self.0.pop_front();
        }
        match self.0.front_mut() {
            Some(Place::Here(envelope)) => {
                let envelope = std::mem::take(envelope);
                self.0.pop_front();
                Some(envelope)
            }
            _ => None,
        }
    }
}

impl Place {
    fn is_for(&self, sender: &str, id: &str) -> bool {
        matches!(self, Self::Coming { from, stream, .. } if from == sender && stream == id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// Everything that is to be had now, as text.
    fn taken(line: &mut Line, now: Instant) -> Vec<String> {
        std::iter::from_fn(|| line.next(now))
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .collect()
    }

    /// One packet, a stream of `agent`, another packet.
    fn line(until: Instant) -> Line {
        let mut line = Line::default();
        line.join(b"one".to_vec());
        line.expect("agent", "s1", until);
        line.join(b"three".to_vec());
        line
    }

    #[test]
    fn a_packet_waits_for_the_stream_before_it() {
        let now = Instant::now();
        let until = now + Duration::from_secs(1);
        let mut line = line(until);
        assert_eq!(taken(&mut line, now), ["one"]);
        assert_eq!(line.patience(), Some(until));
        line.arrive("agent", "s1", b"two".to_vec());
        assert_eq!(taken(&mut line, now), ["two", "three"]);
        assert_eq!(line.patience(), None);
    }

    #[test]
    fn nobody_waits_for_a_stream_that_will_not_come() {
        let now = Instant::now();
        let until = now + Duration::from_secs(1);
        let mut refused = line(until);
        refused.give_up("agent", "s1");
        assert_eq!(taken(&mut refused, now), ["one", "three"]);
        let mut left = line(until);
        left.forget("agent");
        assert_eq!(taken(&mut left, now), ["one", "three"]);
    }

    #[test]
    fn patience_has_an_end_and_what_comes_later_comes_last() {
        let now = Instant::now();
        let mut line = line(now);
        assert_eq!(taken(&mut line, now), ["one", "three"]);
        line.arrive("agent", "s1", b"two".to_vec());
        assert_eq!(taken(&mut line, now), ["two"]);
    }

    #[test]
    fn nobody_takes_anothers_place() {
        let now = Instant::now();
        let mut line = line(now + Duration::from_secs(1));
        line.arrive("mallory", "s1", b"forged".to_vec());
        line.give_up("mallory", "s1");
        line.forget("mallory");
        assert_eq!(taken(&mut line, now), ["one"]);
    }
}
