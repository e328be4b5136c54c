//! The engine under attack and a hostile peer, joined by a link without delay, in virtual time.
//!
//! The peer is a plain `str0m::Rtc`: it does what is needed to be connected, and what the attack wants besides.

use std::{
    collections::VecDeque,
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use str0m::{
    Candidate, Input, Output, Rtc, RtcConfig,
    change::SdpOffer,
    net::{Protocol, Receive},
};

use super::{
    containment::contained,
    hostile_crypto::{Inside, hostile_provider},
    victim::{Datagram, Victim},
};
use crate::session_description::{SdpType, SessionDescription};

/// Time moves at least this much: timers may ask for "now" again and again.
const TICK: Duration = Duration::from_millis(1);
/// Datagrams exchanged within one moment at most; a storm that never ends would be a finding of its own.
const MAX_EXCHANGED: usize = 10_000;

pub(super) fn victim_address() -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 1], 1000))
}

pub(super) fn peer_address() -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 2], 2000))
}

/// See the module.
pub(super) struct World {
    pub(super) now: Instant,
    pub(super) victim: Victim,
    /// `None` once it has panicked: it is `str0m` too, and gets strange answers.
    pub(super) peer: Option<Rtc>,
    pub(super) inside: Arc<Mutex<Inside>>,
    peer_timeout: Instant,
}

impl World {
    pub(super) fn new() -> Self {
        let now = Instant::now();
        let (provider, inside) = hostile_provider();
        let mut peer = RtcConfig::new()
            .clear_codecs()
            .enable_opus(true, true)
            .enable_vp8(true)
            .set_rtp_mode(true)
            .set_crypto_provider(provider)
            .build(now);
        let candidate = Candidate::host(peer_address(), Protocol::Udp).expect("a usable address");
        peer.add_local_candidate(candidate);
        let victim = Victim::new(now, victim_address());
        Self { now, victim, peer: Some(peer), inside, peer_timeout: now }
    }

    /// Both have agreed; nothing has been sent yet.
    pub(super) fn negotiated() -> Self {
        let mut world = Self::new();
        let offer = world.victim.offer(false).expect("a fresh engine can offer");
        let answer = world.answer(&offer).expect("the peer understands a real offer");
        let accepted = world.call(|c| c.set_remote(answer));
        assert!(matches!(accepted, Some(Ok(()))), "an honest answer is accepted");
        world
    }

    /// ICE, DTLS and SCTP are up.
    pub(super) fn connected() -> Self {
        let mut world = Self::negotiated();
        for _ in 0..50 {
            world.run(Duration::from_millis(20));
            // Two packets each way are the handshake of SCTP.
            let associated = {
                let inside = world.inside.lock();
                inside.sent.len() >= 2 && inside.received.len() >= 2
            };
            if world.victim.is_connected() && associated {
                return world;
            }
        }
        panic!("an honest peer connects");
    }

    /// The peer's answer.
    pub(super) fn answer(&mut self, offer: &SessionDescription) -> Option<SessionDescription> {
        let offer = SdpOffer::from_sdp_string(&offer.sdp).ok()?;
        let answer = self.peer_call(|peer| peer.sdp_api().accept_offer(offer).ok())??;
        Some(SessionDescription { ty: SdpType::Answer, sdp: answer.to_sdp_string() })
    }

    /// A call from outside, and what comes of it on the wire.
    pub(super) fn call<R>(&mut self, call: impl FnOnce(&mut crate::engine::Connection) -> R) -> Option<R> {
        let now = self.now;
        let result = self.victim.call(|connection| {
            connection.advance(now);
            call(connection)
        });
        self.exchange();
        result
    }

    /// One datagram to the engine under attack, from the peer's address or another.
    pub(super) fn send(&mut self, from: SocketAddr, bytes: &[u8]) {
        let now = self.now;
        self.victim.call(|c| c.handle_datagram(now, from, victim_address(), bytes));
        self.exchange();
    }

    /// Lets `time` pass.
    pub(super) fn run(&mut self, time: Duration) {
        let deadline = self.now + time;
        loop {
            self.exchange();
            let next = self.victim.next_timeout().min(self.peer_timeout).max(self.now + TICK);
            self.now = next.min(deadline);
            let now = self.now;
            self.victim.call(|c| c.handle_time(now));
            self.peer_call(|peer| peer.handle_input(Input::Timeout(now)).ok());
            if self.now == deadline {
                return self.exchange();
            }
        }
    }

    pub(super) fn peer_call<R>(&mut self, call: impl FnOnce(&mut Rtc) -> R) -> Option<R> {
        let peer = self.peer.as_mut()?;
        let result = contained("peer", || call(peer));
        if result.is_none() {
            self.peer = None;
            self.peer_timeout = self.now + Duration::from_secs(3600);
        }
        result
    }

    /// Delivers until nobody has anything more to say.
    fn exchange(&mut self) {
        let mut exchanged = 0;
        loop {
            let to_peer = self.victim.take_output();
            let to_victim = self.poll_peer();
            if to_peer.is_empty() && to_victim.is_empty() {
                return;
            }
            exchanged += to_peer.len() + to_victim.len();
            assert!(exchanged < MAX_EXCHANGED, "a storm of {exchanged} datagrams without time passing");
            let now = self.now;
            for datagram in to_peer.into_iter().filter(|datagram| datagram.to == peer_address()) {
                self.peer_call(|peer| deliver(peer, now, &datagram));
            }
            for datagram in to_victim {
                let Datagram { from, to, bytes } = datagram;
                self.victim.call(|c| c.handle_datagram(now, from, to, &bytes));
            }
        }
    }

    fn poll_peer(&mut self) -> VecDeque<Datagram> {
        let mut datagrams = VecDeque::new();
        let timeout = self.peer_call(|peer| {
            loop {
                match peer.poll_output() {
                    Ok(Output::Timeout(at)) => return Some(at),
                    Ok(Output::Transmit(transmit)) => datagrams.push_back(Datagram {
                        from: transmit.source,
                        to: transmit.destination,
                        bytes: transmit.contents.to_vec(),
                    }),
                    Ok(Output::Event(_)) => {}
                    Err(_) => return None,
                }
            }
        });
        self.peer_timeout = timeout.flatten().unwrap_or(self.now + Duration::from_secs(3600));
        datagrams
    }
}

fn deliver(peer: &mut Rtc, now: Instant, datagram: &Datagram) {
    let Ok(contents) = datagram.bytes.as_slice().try_into() else { return };
    let receive = Receive { proto: Protocol::Udp, source: datagram.from, destination: datagram.to, contents };
    let _ = peer.handle_input(Input::Receive(now, receive));
}
