//! The simulated network: two engines, a clock that jumps from event to event, and a link that may delay, lose,
//! reorder, duplicate and throttle. Everything is decided by a seed.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, VecDeque},
    net::SocketAddr,
    time::{Duration, Instant},
};

use crate::{
    data_channel::{DataChannelInit, DataChannelState},
    engine::{ChannelKey, Connection, Event, Settings},
    peer_connection::PeerConnectionState,
};

/// What the link does to datagrams.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    pub(crate) delay: Duration,
    /// Added at random to each datagram: this alone reorders.
    pub(crate) jitter: Duration,
    pub(crate) loss_percent: u32,
    pub(crate) duplicate_percent: u32,
    /// Bytes per second; a queue of 200 ms in front of it, what does not fit is lost.
    pub(crate) bandwidth: Option<u64>,
    pub(crate) down: bool,
}

impl Default for Link {
    fn default() -> Self {
        Self {
            delay: Duration::from_millis(10),
            jitter: Duration::ZERO,
            loss_percent: 0,
            duplicate_percent: 0,
            bandwidth: None,
            down: false,
        }
    }
}

/// One side.
pub(crate) struct Side {
    pub(crate) connection: Connection,
    pub(crate) address: SocketAddr,
    pub(crate) events: Vec<Event>,
    /// Bytes that callbacks reported as sent, per channel.
    pub(crate) drained: Vec<(ChannelKey, u64)>,
    pub(crate) received: VecDeque<(ChannelKey, Vec<u8>)>,
    /// Reported states with the virtual time since the start.
    pub(crate) states: Vec<(Duration, PeerConnectionState)>,
    busy_until: Instant,
}

struct InFlight {
    at: Instant,
    order: u64,
    to: usize,
    from_address: SocketAddr,
    to_address: SocketAddr,
    bytes: Vec<u8>,
}

impl PartialEq for InFlight {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.order) == (other.at, other.order)
    }
}
impl Eq for InFlight {}
impl PartialOrd for InFlight {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for InFlight {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

pub(crate) struct Network {
    pub(crate) start: Instant,
    pub(crate) now: Instant,
    pub(crate) sides: [Side; 2],
    pub(crate) link: Link,
    flying: BinaryHeap<Reverse<InFlight>>,
    random: u64,
    order: u64,
}

pub(crate) const A: usize = 0;
pub(crate) const B: usize = 1;

impl Network {
    pub(crate) fn new(link: Link, seed: u64) -> Self {
        Self::with_addresses(link, seed, ["192.0.2.1:1000", "192.0.2.2:2000"])
    }

    pub(crate) fn with_addresses(link: Link, seed: u64, addresses: [&str; 2]) -> Self {
        let start = Instant::now();
        let side = |address: &str| Side {
            connection: Connection::new(Settings::default(), start),
            address: address.parse().expect("a test address"),
            events: Vec::new(),
            drained: Vec::new(),
            received: VecDeque::new(),
            states: Vec::new(),
            busy_until: start,
        };
        let sides = addresses.map(side);
        let random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        Self { start, now: start, sides, link, flying: BinaryHeap::new(), random, order: 0 }
    }

    /// Two sides with one negotiated channel each, connected over a good link that then becomes `link`.
    pub(crate) fn connected(link: Link, seed: u64, init: &DataChannelInit) -> (Self, ChannelKey, ChannelKey) {
        let mut network = Self::new(Link::default(), seed);
        let init = DataChannelInit { negotiated: true, id: 100, ..init.clone() };
        let a = network.sides[A].connection.create_channel("test", init.clone()).expect("a channel");
        let b = network.sides[B].connection.create_channel("test", init).expect("a channel");
        network.negotiate(A, false);
        network.run_until(Duration::from_secs(5), |n| {
            n.sides[A].connection.channel_state(a) == DataChannelState::Open
                && n.sides[B].connection.channel_state(b) == DataChannelState::Open
        });
        network.link = link;
        (network, a, b)
    }

    /// A whole exchange of descriptions, by hand as signalling would do it.
    pub(crate) fn negotiate(&mut self, offerer: usize, ice_restart: bool) {
        self.negotiate_munged(offerer, ice_restart, |answer| answer);
    }

    /// The same with an answer that something on the way rewrites.
    pub(crate) fn negotiate_munged(
        &mut self,
        offerer: usize,
        ice_restart: bool,
        munge: impl FnOnce(String) -> String,
    ) {
        let answerer = 1 - offerer;
        for side in [offerer, answerer] {
            let address = self.sides[side].address;
            self.sides[side].connection.add_local_address(address).expect("a local address");
        }
        let offer = self.call(offerer, |c| c.create_offer(ice_restart)).expect("an offer");
        self.call(offerer, |c| c.set_local(offer.clone())).expect("our offer fits");
        self.call(answerer, |c| c.set_remote(offer)).expect("the offer is understood");
        let mut answer = self.call(answerer, Connection::create_answer).expect("an answer");
        self.call(answerer, |c| c.set_local(answer.clone())).expect("our answer fits");
        answer.sdp = munge(answer.sdp);
        self.call(offerer, |c| c.set_remote(answer)).expect("the answer is understood");
    }

    /// A call from outside at the present virtual time.
    pub(crate) fn call<R>(&mut self, side: usize, call: impl FnOnce(&mut Connection) -> R) -> R {
        let connection = &mut self.sides[side].connection;
        connection.advance(self.now);
        let result = call(connection);
        self.collect(side);
        result
    }

    /// Lets time pass until `done`; panics after `limit` of virtual time.
    pub(crate) fn run_until(&mut self, limit: Duration, mut done: impl FnMut(&mut Self) -> bool) {
        let deadline = self.now + limit;
        while !done(self) {
            assert!(
                self.now < deadline,
                "not done after {limit:?}: {:?} {:?}",
                self.sides[A].states,
                self.sides[B].states
            );
            self.step(deadline);
        }
    }

    pub(crate) fn run_for(&mut self, time: Duration) {
        let deadline = self.now + time;
        while self.now < deadline {
            self.step(deadline);
        }
    }

    /// One event: the next datagram or the next timer.
    fn step(&mut self, deadline: Instant) {
        let arrival = self.flying.peek().map(|Reverse(p)| p.at);
        let timers = self.sides.iter().map(|s| s.connection.next_timeout()).min();
        let next = arrival.into_iter().chain(timers).min().unwrap_or(deadline).min(deadline);
        self.now = next.max(self.now);
        while let Some(Reverse(packet)) = self.flying.pop() {
            if packet.at > self.now {
                self.flying.push(Reverse(packet));
                break;
            }
            let connection = &mut self.sides[packet.to].connection;
            connection.handle_datagram(self.now, packet.from_address, packet.to_address, &packet.bytes);
            self.collect(packet.to);
        }
        for side in [A, B] {
            if self.sides[side].connection.next_timeout() <= self.now {
                self.sides[side].connection.handle_time(self.now);
                self.collect(side);
            }
        }
        // Timers may ask for "now" again and again: time has to move all the same.
        if self.now < deadline {
            self.now += Duration::from_micros(1);
        }
    }

    fn collect(&mut self, side: usize) {
        while let Some(transmit) = self.sides[side].connection.peek_transmit() {
            let (from, to, bytes) = (transmit.source, transmit.destination, transmit.contents.to_vec());
            self.sides[side].connection.drop_transmit();
            self.post(side, from, to, bytes);
        }
        let since = self.now.duration_since(self.start);
        let side = &mut self.sides[side];
        while let Some(event) = side.connection.poll_event() {
            match event {
                Event::ChannelMessage { key, data, .. } => side.received.push_back((key, data)),
                Event::ChannelDrained { key, bytes } => side.drained.push((key, bytes)),
                Event::Connection(state) => side.states.push((since, state)),
                event => side.events.push(event),
            }
        }
    }

    fn post(&mut self, side: usize, from: SocketAddr, to: SocketAddr, bytes: Vec<u8>) {
        let other = 1 - side;
        if self.link.down || self.sides[other].address != to || self.chance(self.link.loss_percent) {
            return;
        }
        let mut leaves = self.now;
        if let Some(bandwidth) = self.link.bandwidth {
            let takes = Duration::from_nanos(bytes.len() as u64 * 1_000_000_000 / bandwidth);
            let queue_from = self.sides[side].busy_until.max(self.now);
            if queue_from.duration_since(self.now) > Duration::from_millis(200) {
                return;
            }
            leaves = queue_from + takes;
            self.sides[side].busy_until = leaves;
        }
        let copies = if self.chance(self.link.duplicate_percent) { 2 } else { 1 };
        for _ in 0..copies {
            let jitter = Duration::from_micros(self.random() % (self.link.jitter.as_micros() as u64 + 1));
            self.order += 1;
            self.flying.push(Reverse(InFlight {
                at: leaves + self.link.delay + jitter,
                order: self.order,
                to: other,
                from_address: from,
                to_address: to,
                bytes: bytes.clone(),
            }));
        }
    }

    fn chance(&mut self, percent: u32) -> bool {
        percent > 0 && self.random() % 100 < u64::from(percent)
    }

    pub(crate) fn random(&mut self) -> u64 {
        // xorshift64*: enough for a network.
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        self.random.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
}
