//! Hands events to the session without ever waiting for it.
//!
//! The channel is bounded, and no one may fill more than a quarter of it. What people send beyond that is dropped, and
//! the session is told how much once it has caught up; who comes and goes is kept aside and told later, in order.
//! Every byte that waits is reserved from the process's budget until the session has taken it.

use super::budget::{ByteBudget, Reservation};
use super::counts::Counts;
use crate::ports::RoomEvent;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use tokio::sync::mpsc::{self, error::TrySendError};
use tokio::time::{Duration, sleep};

/// How often to look whether a sender's share has shrunk; only while there is something to tell.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

#[derive(Debug)]
pub(super) struct Delivery {
    events: mpsc::Sender<RoomEvent>,
    budget: ByteBudget,
    counts: Arc<Counts>,
    /// What is in the channel, oldest first: who sent it and what it holds of the budget.
    waiting: VecDeque<Waiting>,
    /// Who came and went while the channel was full. At most three entries for each participant.
    news: VecDeque<RoomEvent>,
    /// Who is there, as the session was told.
    told: BTreeSet<String>,
    /// Dropped and not yet told, by sender.
    dropped: BTreeMap<String, u32>,
}

#[derive(Debug)]
struct Waiting {
    from: Option<String>,
    _reserved: Option<Reservation>,
}

impl Delivery {
    pub(super) fn new(events: mpsc::Sender<RoomEvent>, budget: ByteBudget, counts: Arc<Counts>) -> Self {
        Self {
            events,
            budget,
            counts,
            waiting: VecDeque::new(),
            news: VecDeque::new(),
            told: BTreeSet::new(),
            dropped: BTreeMap::new(),
        }
    }

    /// Tells that someone came or went: never dropped.
    pub(super) fn tell(&mut self, event: RoomEvent) {
        if let RoomEvent::Left { identity } = &event {
            self.news.retain(|news| match news {
                RoomEvent::Joined(who) => who.identity != *identity,
                RoomEvent::Attributes { identity: who, .. } => who != identity,
                _ => true,
            });
            // Whoever came and went unseen need not be told of.
            if self.told.contains(identity) && !self.news.contains(&event) {
                self.news.push_back(event);
            }
        } else {
            // Of what is said of someone the latest counts, however often it changes.
            if let RoomEvent::Attributes { identity, .. } = &event {
                self.news.retain(
                    |news| !matches!(news, RoomEvent::Attributes { identity: who, .. } if who == identity),
                );
            }
            self.news.push_back(event);
        }
        self.catch_up_now();
    }

    /// Hands over what someone sent, with what it holds of the budget.
    pub(super) fn hand_over_reserved(&mut self, from: &str, reserved: Reservation, event: RoomEvent) {
        self.catch_up_now();
        // What was dropped is told before anything new of the same sender.
        let has_place = self.news.is_empty()
            && !self.dropped.contains_key(from)
            && self.share(from) < self.largest_share()
            && self.send(Some(from), Some(reserved), event).is_ok();
        if !has_place {
            self.drop_one(from);
        }
    }

    /// Tells why something that someone sent was not taken in. The words are our own and few, so they need no budget: that it is
    /// used up may be the very reason.
    pub(super) fn refuse(&mut self, from: &str, reason: String, for_now: bool) {
        let event = RoomEvent::Refused { from: from.to_owned(), reason, for_now };
        self.hand_over_reserved(from, self.budget.reservation(), event);
    }

    /// Whether there is something to tell that found no room.
    pub(super) fn is_behind(&self) -> bool {
        !self.news.is_empty() || !self.dropped.is_empty()
    }

    /// Waits until there may be room, and uses it. May be cancelled at any time.
    pub(super) async fn catch_up(&mut self) {
        if self.events.capacity() == 0 {
            // The place is given back at once; the error, that nobody listens, is seen again below.
            drop(self.events.reserve().await);
        } else {
            sleep(LOOK_AGAIN).await;
        }
        self.catch_up_now();
    }

    /// Says that it is over, as soon as there is room for everything that comes before.
    pub(super) async fn close(mut self, reason: String) {
        self.catch_up_now();
        while self.is_behind() {
            self.catch_up().await;
        }
        // Fails only when nobody listens any more.
        let _ = self.events.send(RoomEvent::Closed { reason }).await;
    }

    fn catch_up_now(&mut self) {
        if self.events.is_closed() {
            self.news.clear();
            self.told.clear();
            self.dropped.clear();
        }
        let in_channel = self.events.max_capacity() - self.events.capacity();
        while self.waiting.len() > in_channel {
            self.waiting.pop_front();
        }
        while let Some(news) = self.news.pop_front() {
            let change = match &news {
                RoomEvent::Joined(participant) => Some((participant.identity.clone(), true)),
                RoomEvent::Left { identity } => Some((identity.clone(), false)),
                _ => None,
            };
            if let Err(news) = self.send(None, None, news) {
                self.news.push_front(news);
                return;
            }
            match change {
                Some((who, true)) => drop(self.told.insert(who)),
                Some((who, false)) => drop(self.told.remove(&who)),
                None => {}
            }
        }
        // Not before half of the share is free: else a flood would only be answered by a flood of complaints.
        let caught_up: Vec<_> = self
            .dropped
            .keys()
            .filter(|from| self.share(from) <= self.largest_share() / 2)
            .cloned()
            .collect();
        for from in caught_up {
            let Some(packets) = self.dropped.remove(&from) else { continue };
            let told = RoomEvent::Overflowed { from: from.clone(), packets };
            if self.send(Some(&from), None, told).is_err() {
                self.dropped.insert(from, packets);
                return;
            }
        }
    }

    fn send(
        &mut self,
        from: Option<&str>,
        reserved: Option<Reservation>,
        event: RoomEvent,
    ) -> Result<(), RoomEvent> {
        self.events.try_send(event).map_err(TrySendError::into_inner)?;
        self.waiting.push_back(Waiting { from: from.map(str::to_owned), _reserved: reserved });
        Ok(())
    }

    fn share(&self, from: &str) -> usize {
        self.waiting.iter().filter(|waiting| waiting.from.as_deref() == Some(from)).count()
    }

    fn largest_share(&self) -> usize {
        self.events.max_capacity().div_ceil(4)
    }

    /// Something of this sender's is dropped; it will be told.
    pub(super) fn drop_one(&mut self, from: &str) {
        self.counts.overflowed.add_one();
        let packets = self.dropped.entry(from.to_owned()).or_default();
        *packets = packets.saturating_add(1);
    }
}

#[cfg(test)]
mod tests;
