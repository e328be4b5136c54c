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
    Candidate, IceCreds, Input, Output, Rtc, RtcConfig,
    change::SdpOffer,
    crypto::Fingerprint,
    net::{Protocol, Receive},
};

use super::{
    containment::contained,
    description::with_media_ids,
    hostile_crypto::{Inside, hostile_provider},
    victim::{Datagram, Victim},
};
use crate::session_description::{SdpType, SessionDescription};

/// Time moves at least this much: timers may ask for "now" again and again.
const TICK: Duration = Duration::from_millis(1);
/// Datagrams exchanged within one moment at most; a storm that never ends would be a finding of its own.
const MAX_EXCHANGED: usize = 10_000;

/// The shortest answer to the offer of [`Victim::new`] that agrees to everything.
const ANSWER: &str = "v=0\r\no=- 1 1 IN IP4 0.0.0.0\r\ns=-\r\nt=0 0\r\na=group:BUNDLE {0} {1} {2}\r\na=setup:active\r\n\
    a=ice-ufrag:{ufrag}\r\na=ice-pwd:{pwd}\r\na=fingerprint:{fingerprint}\r\n\
    m=application 9 UDP/DTLS/SCTP webrtc-datachannel\r\nc=IN IP4 0.0.0.0\r\na=mid:{0}\r\na=sctp-port:5000\r\n\
    a=candidate:1 1 udp 2130706431 {address} typ host\r\n\
    m=audio 9 UDP/TLS/RTP/SAVPF 111 63\r\nc=IN IP4 0.0.0.0\r\na=mid:{1}\r\na=rtcp-mux\r\na=sendrecv\r\n\
    a=rtpmap:111 opus/48000/2\r\na=rtpmap:63 red/48000/2\r\na=fmtp:63 111/111\r\n\
    a=extmap:4 urn:ietf:params:rtp-hdrext:sdes:mid\r\na=ssrc:1111 cname:a\r\n\
    m=video 9 UDP/TLS/RTP/SAVPF 96\r\nc=IN IP4 0.0.0.0\r\na=mid:{2}\r\na=rtcp-mux\r\na=sendonly\r\n\
    a=rtpmap:96 VP8/90000\r\na=ssrc:2222 cname:a\r\n";

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
            .set_fingerprint_verification(false)
            .build(now);
        let candidate = Candidate::host(peer_address(), Protocol::Udp).expect("a usable address");
        peer.add_local_candidate(candidate);
        let victim = Victim::new(now, victim_address());
        Self { now, victim, peer: Some(peer), inside, peer_timeout: now }
    }

    /// With an offer of the victim. `str0m` draws media ids at random and may draw one twice: such an offer is of no
    /// use, and fuzzing makes enough of them to see it happen.
    fn offering() -> (Self, SessionDescription) {
        loop {
            let mut world = Self::new();
            let offer = world.victim.offer(false).expect("a fresh engine can offer");
            let mut mids: Vec<_> = offer.sdp.lines().filter(|line| line.starts_with("a=mid:")).collect();
            mids.sort_unstable();
            if mids.is_sorted_by(|one, other| one != other) {
                return (world, offer);
            }
        }
    }

    /// Both have agreed; nothing has been sent yet. The peer is told what it must know without any description, and
    /// its answer is short: reading descriptions would take nine tenths of the time.
    pub(super) fn negotiated() -> Self {
        let (mut world, offer) = Self::offering();
        let answer = world.agree(&offer.sdp);
        world.accept(answer);
        world
    }

    /// ICE, DTLS and SCTP are up.
    pub(super) fn connected() -> Self {
        let mut world = Self::negotiated();
        world.connect();
        world
    }

    /// The same by a real offer and a real answer, so that both can go on negotiating.
    pub(super) fn connected_by_descriptions() -> Self {
        let (mut world, offer) = Self::offering();
        let answer = world.answer(&offer).expect("the peer understands a real offer");
        world.accept(answer);
        world.connect();
        world
    }

    fn accept(&mut self, answer: SessionDescription) {
        let accepted = self.call(|c| c.set_remote(answer));
        assert!(matches!(accepted, Some(Ok(()))), "an honest answer is accepted: {accepted:?}");
    }

    fn connect(&mut self) {
        for _ in 0..50 {
            self.run(Duration::from_millis(20));
            // Two packets each way are the handshake of SCTP.
            let associated = {
                let inside = self.inside.lock();
                inside.sent.len() >= 2 && inside.received.len() >= 2
            };
            if self.victim.is_connected() && associated {
                return;
            }
        }
        panic!("an honest peer connects");
    }

    /// Tells the peer what `offer` says, and makes an answer for it.
    fn agree(&mut self, offer: &str) -> SessionDescription {
        let peer = self.peer.as_mut().expect("a fresh peer");
        let victim = Candidate::host(victim_address(), Protocol::Udp).expect("a usable address");
        peer.add_remote_candidate(victim);
        let mut api = peer.direct_api();
        let creds = api.local_ice_credentials();
        let fingerprint = api.local_dtls_fingerprint().to_string();
        api.set_ice_controlling(false);
        api.set_remote_ice_credentials(IceCreds {
            ufrag: value(offer, "a=ice-ufrag:"),
            pass: value(offer, "a=ice-pwd:"),
        });
        // Anyone will do: the peer does not check.
        api.set_remote_fingerprint(Fingerprint { hash_func: "sha-256".to_owned(), bytes: Vec::new() });
        api.start_dtls(true).expect("DTLS starts once");
        api.start_sctp(true);
        let sdp = ANSWER
            .replace("{ufrag}", &creds.ufrag)
            .replace("{pwd}", &creds.pass)
            .replace("{fingerprint}", &fingerprint)
            .replace("{address}", "192.0.2.2 2000");
        let offer = SessionDescription { ty: SdpType::Offer, sdp: offer.to_owned() };
        SessionDescription { ty: SdpType::Answer, sdp: with_media_ids(&sdp, Some(&offer)) }
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

/// The rest of the first line of `sdp` that begins with `name`.
pub(super) fn value(sdp: &str, name: &str) -> String {
    sdp.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().to_owned()
}
