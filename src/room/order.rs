//! What people send, each sender's in the order in which it was begun: a packet waits for the stream before it.
//!
//! Within bounds: what waits is reserved from the process's budget, nobody may keep more than a share waiting, and
//! nobody is waited for longer than [`LONGEST_WAIT`]. Each sender has a line of its own, so that whoever stops in the
//! middle of a stream delays only itself. Pure state: the time is an argument.

use super::StreamLimits;
use super::budget::{ByteBudget, Reservation};
use super::line::Line;
use crate::ports::RoomEvent;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;

/// Afterwards the stream comes late, and what is behind it goes on.
const LONGEST_WAIT: Duration = Duration::from_secs(10);
/// As many as a sender may have waiting for the session: more could not be handed over at once.
const MOST_WAITING: usize = super::WAITING_EVENTS / 4;

/// Something that someone sent, with what it holds of the budget.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) event: RoomEvent,
    pub(super) reserved: Reservation,
}

/// Too much is waiting already: it was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Overflow;

#[derive(Debug)]
pub(super) struct Order {
    budget: ByteBudget,
    most_bytes: usize,
    lines: BTreeMap<String, Line<String, Sent>>,
}

impl Order {
    pub(super) fn new(limits: &StreamLimits, budget: ByteBudget) -> Self {
        let most_bytes = limits.bytes.saturating_mul(limits.open_per_participant);
        Self { budget, most_bytes, lines: BTreeMap::new() }
    }

    /// A stream begins: what is sent from now on comes after it.
    pub(super) fn expect(&mut self, from: &str, stream: &str, now: Instant) {
        self.lines.entry(from.to_owned()).or_default().expect(stream.to_owned(), now + LONGEST_WAIT);
    }

    /// Something of so many bytes is here at once.
    pub(super) fn join(&mut self, from: &str, bytes: usize, event: RoomEvent) -> Result<(), Overflow> {
        let reserved = self.budget.reserve(bytes).ok_or(Overflow)?;
        if !self.has_place(from, bytes) {
            return Err(Overflow);
        }
        self.lines.entry(from.to_owned()).or_default().join(Sent { event, reserved });
        Ok(())
    }

    /// A stream is complete.
    pub(super) fn arrive(&mut self, from: &str, stream: &str, sent: Sent) -> Result<(), Overflow> {
        let stream = stream.to_owned();
        let is_first = self.lines.get(from).is_some_and(|line| line.first() == Some(&stream));
        // The one that all others wait for makes room.
        if !is_first && !self.has_place(from, sent.reserved.bytes()) {
            self.give_up(from, &stream);
            return Err(Overflow);
        }
        self.lines.entry(from.to_owned()).or_default().arrive(&stream, sent);
        Ok(())
    }

    /// A stream will not come.
    pub(super) fn give_up(&mut self, from: &str, stream: &str) {
        if let Some(line) = self.lines.get_mut(from) {
            line.give_up(|awaited| awaited == stream);
        }
    }

    /// Nothing more comes of what someone has begun.
    pub(super) fn give_up_all(&mut self, from: &str) {
        if let Some(line) = self.lines.get_mut(from) {
            line.give_up(|_| true);
        }
    }

    /// The next of a sender's that waits for nothing.
    pub(super) fn next(&mut self, from: &str, now: Instant) -> Option<Sent> {
        let line = self.lines.get_mut(from)?;
        let next = line.next(now);
        if line.is_empty() {
            self.lines.remove(from);
        }
        next
    }

    /// When the next place in a line is given up.
    pub(super) fn next_expiry(&self) -> Option<Instant> {
        self.lines.values().filter_map(Line::patience).min()
    }

    /// Whose lines go on because a stream did not come in time.
    pub(super) fn expired(&self, now: Instant) -> Vec<String> {
        let expired = self.lines.iter().filter(|(_, line)| line.patience().is_some_and(|until| until <= now));
        expired.map(|(from, _)| from.clone()).collect()
    }

    /// Where nothing waits there is always a place.
    fn has_place(&self, from: &str, bytes: usize) -> bool {
        let Some(line) = self.lines.get(from) else { return true };
        let (waiting, held) = line
            .waiting()
            .fold((0, bytes), |(waiting, held), sent| (waiting + 1, held + sent.reserved.bytes()));
        waiting == 0 || (waiting < MOST_WAITING && held <= self.most_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: StreamLimits =
        StreamLimits { bytes: 1_000, open_per_participant: 4, idle: Duration::from_secs(10) };

    fn order(budget: &ByteBudget) -> Order {
        Order::new(&LIMITS, budget.clone())
    }

    fn packet(number: u8) -> RoomEvent {
        RoomEvent::Packet { from: String::new(), bytes: vec![number] }
    }

    /// The numbers of those that can be had now.
    fn taken(order: &mut Order, from: &str, now: Instant) -> Vec<u8> {
        let events = std::iter::from_fn(|| order.next(from, now));
        let numbers = events.map(|sent| match sent.event {
            RoomEvent::Packet { bytes, .. } => bytes[0],
            other => panic!("unexpected: {other:?}"),
        });
        numbers.collect()
    }

    fn stream(budget: &ByteBudget, number: u8, bytes: usize) -> Sent {
        Sent { event: packet(number), reserved: budget.reserve(bytes).expect("so much is left") }
    }

    #[test]
    fn a_packet_waits_for_the_stream_before_it_and_nobody_else_does() {
        let (budget, now) = (ByteBudget::new(10_000), Instant::now());
        let mut order = order(&budget);
        order.expect("anna", "s", now);
        assert_eq!(order.join("anna", 1, packet(2)), Ok(()));
        assert_eq!(order.join("boris", 1, packet(7)), Ok(()));
        assert_eq!(taken(&mut order, "anna", now), Vec::<u8>::new());
        assert_eq!(taken(&mut order, "boris", now), [7]);
        assert_eq!(order.arrive("anna", "s", stream(&budget, 1, 900)), Ok(()));
        assert_eq!(taken(&mut order, "anna", now), [1, 2]);
        assert_eq!(order.next_expiry(), None);
        assert!(budget.reserve(10_000).is_some(), "nothing is kept");
    }

    #[test]
    fn nobody_is_waited_for_for_ever() {
        let (budget, now) = (ByteBudget::new(10_000), Instant::now());
        let mut order = order(&budget);
        order.expect("anna", "s", now);
        assert_eq!(order.join("anna", 1, packet(2)), Ok(()));
        let later = now + LONGEST_WAIT;
        assert_eq!((order.next_expiry(), order.expired(now)), (Some(later), vec![]));
        assert_eq!(order.expired(later), ["anna"]);
        assert_eq!(taken(&mut order, "anna", later), [2]);
        order.expect("anna", "refused", now);
        order.expect("anna", "left", now);
        assert_eq!(order.join("anna", 1, packet(3)), Ok(()));
        order.give_up("anna", "refused");
        assert_eq!(taken(&mut order, "anna", now), Vec::<u8>::new());
        order.give_up_all("anna");
        assert_eq!(taken(&mut order, "anna", now), [3]);
        assert_eq!(order.next_expiry(), None);
    }

    #[test]
    fn what_waits_is_bounded_in_number_and_bytes() {
        let (budget, now) = (ByteBudget::new(10_000), Instant::now());
        let mut order = order(&budget);
        order.expect("anna", "stalled", now);
        for number in 0..MOST_WAITING {
            assert_eq!(order.join("anna", 1, packet(number as u8)), Ok(()));
        }
        assert_eq!(order.join("anna", 1, packet(255)), Err(Overflow));
        assert_eq!(order.arrive("anna", "stalled", stream(&budget, 200, 1)), Ok(()));
        assert_eq!(taken(&mut order, "anna", now).len(), 1 + MOST_WAITING);

        order.expect("boris", "stalled", now);
        for number in 0..5 {
            let name = number.to_string();
            order.expect("boris", &name, now);
            let arrived = order.arrive("boris", &name, stream(&budget, number, 1_000));
            assert_eq!(arrived, if number < 4 { Ok(()) } else { Err(Overflow) });
        }
        order.expect("clara", "stalled", now);
        assert_eq!(order.join("clara", 10_000, packet(9)), Err(Overflow), "the process has no more");
        order.give_up_all("boris");
        assert_eq!(taken(&mut order, "boris", now), [0, 1, 2, 3]);
    }
}
