//! What someone sends, in the order in which it was begun.
//!
//! The SDK tells of packets and of the beginning of a stream in order, but of a stream's parts from another task: a packet
//! that was sent after a stream may be here before the stream is complete. So a stream gets a place in line when it
//! begins, and those behind it wait. Pure: the time is an argument.

use std::collections::VecDeque;
use tokio::time::Instant;

#[derive(Debug)]
enum Place<K, T> {
    Here(T),
    Coming { stream: K, until: Instant },
}

/// Streams are told apart by `K`.
#[derive(Debug)]
pub(crate) struct Line<K, T>(VecDeque<Place<K, T>>);

impl<K, T> Default for Line<K, T> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<K: PartialEq, T> Line<K, T> {
    /// Something is here.
    pub(crate) fn join(&mut self, what: T) {
        self.0.push_back(Place::Here(what));
    }

    /// A stream is on its way, and is waited for so long.
    pub(crate) fn expect(&mut self, stream: K, until: Instant) {
        self.0.push_back(Place::Coming { stream, until });
    }

    /// What was on its way is here. Its place may be gone: then it comes late rather than never.
    pub(crate) fn arrive(&mut self, stream: &K, what: T) {
        match self.0.iter_mut().find(|place| place.awaits(|awaited| awaited == stream)) {
            Some(place) => *place = Place::Here(what),
            None => self.join(what),
        }
    }

    /// Such streams will not come.
    pub(crate) fn give_up(&mut self, such: impl Fn(&K) -> bool) {
        self.0.retain(|place| !place.awaits(&such));
    }

    /// Until when the first in line is waited for, if it is not here.
    pub(crate) fn patience(&self) -> Option<Instant> {
        match self.0.front() {
            Some(Place::Coming { until, .. }) => Some(*until),
            _ => None,
        }
    }

    /// The stream that all others wait for.
    pub(crate) fn first(&self) -> Option<&K> {
        match self.0.front() {
            Some(Place::Coming { stream, .. }) => Some(stream),
            _ => None,
        }
    }

    /// Those that are here and wait for others.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = &T> {
        self.0.iter().filter_map(|place| match place {
            Place::Here(what) => Some(what),
            Place::Coming { .. } => None,
        })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The first in line, if it is here.
    pub(crate) fn next(&mut self, now: Instant) -> Option<T> {
        while self.patience().is_some_and(|until| until <= now) {
            self.0.pop_front();
        }
        match self.0.pop_front()? {
            Place::Here(what) => Some(what),
            coming @ Place::Coming { .. } => {
                self.0.push_front(coming);
                None
            }
        }
    }
}

impl<K, T> Place<K, T> {
    fn awaits(&self, such: impl Fn(&K) -> bool) -> bool {
        matches!(self, Self::Coming { stream, .. } if such(stream))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    type Text = &'static str;

    /// Everything that is to be had now.
    fn taken(line: &mut Line<Text, Text>, now: Instant) -> Vec<Text> {
        std::iter::from_fn(|| line.next(now)).collect()
    }

    /// One packet, a stream, another packet.
    fn line(until: Instant) -> Line<Text, Text> {
        let mut line = Line::default();
        line.join("one");
        line.expect("s1", until);
        line.join("three");
        line
    }

    #[test]
    fn a_packet_waits_for_the_stream_before_it() {
        let now = Instant::now();
        let until = now + Duration::from_secs(1);
        let mut line = line(until);
        assert_eq!(taken(&mut line, now), ["one"]);
        assert_eq!(line.patience(), Some(until));
        line.arrive(&"s1", "two");
        assert_eq!(taken(&mut line, now), ["two", "three"]);
        assert_eq!(line.patience(), None);
    }

    #[test]
    fn nobody_waits_for_a_stream_that_will_not_come() {
        let now = Instant::now();
        let mut line = line(now + Duration::from_secs(1));
        line.give_up(|stream| *stream == "another");
        assert_eq!(taken(&mut line, now), ["one"]);
        assert_eq!(line.waiting().collect::<Vec<_>>(), [&"three"]);
        line.give_up(|stream| *stream == "s1");
        assert_eq!(taken(&mut line, now), ["three"]);
        assert!(line.is_empty());
    }

    #[test]
    fn patience_has_an_end_and_what_comes_later_comes_last() {
        let now = Instant::now();
        let mut line = line(now);
        assert_eq!(taken(&mut line, now), ["one", "three"]);
        line.arrive(&"s1", "two");
        assert_eq!(taken(&mut line, now), ["two"]);
    }
}
