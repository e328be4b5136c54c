//! One connection: inputs in, events and datagrams out. Offers and answers are in `negotiation.rs`.

use std::{
    collections::{HashSet, VecDeque},
    net::SocketAddr,
    time::{Duration, Instant},
};

use str0m::{
    Candidate, Event as RtcEvent, IceConnectionState as RtcIce, Input, Output, Rtc, RtcConfig,
    media::MediaKind,
    net::{Protocol, Receive, Transmit},
    stats::PeerStats,
};

use super::{
    ChannelKey, Event, TransceiverKey,
    channels::{Channels, SCTP_BUFFER_BYTES},
    negotiation::Negotiation,
    state::{Ice, StateTracker},
    transceivers::Transceivers,
};
use crate::{
    RtcError,
    audio::{codec::OpusParams, sender::EncodedPacket},
    data_channel::{DataChannelInit, DataChannelState},
    peer_connection::{IceConnectionState, PeerConnectionState, SignalingState},
    rtp_transceiver::RtpTransceiverDirection,
};

/// Candidates a peer may give us; the rest is ignored. A peer that sends thousands must not cost us pairs of
/// each with every local address.
const MAX_REMOTE_CANDIDATES: usize = 64;
/// Addresses that STUN is taken from. Whoever has seen one valid request could repeat it from ever new ones.
const MAX_REMOTE_ADDRESSES: usize = 64;
/// How often `str0m` refreshes the figures behind `get_stats`.
const STATISTICS_INTERVAL: Duration = Duration::from_secs(1);

/// How long a connection that reported an error is left alone.
const AFTER_AN_ERROR: Duration = Duration::from_secs(1);
/// Beyond this, more redundancy only costs what is left of the sound.
const MAX_EXPECTED_LOSS_PERCENT: u8 = 25;

/// What a connection is made with.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Settings {
    /// SCTP's handshake travels inside the SDP where the peer can do that too.
    pub(crate) sctp_snap: bool,
}

fn new_rtc(settings: Settings, now: Instant) -> Box<Rtc> {
    let rtc = RtcConfig::new()
        .clear_codecs()
        .enable_opus(true, true)
        // Video is negotiated, so that lines with it are not refused, and never decoded.
        .enable_vp8(true)
        .enable_h264(true)
        .set_rtp_mode(true)
        .set_snap_enabled(settings.sctp_snap)
        // Nothing is ever sent again on request (audio heals itself by RED and FEC), so no cache is kept for it.
        .set_send_buffer_audio(1)
        .set_send_buffer_video(1)
        .set_sctp_max_buffered_amount(SCTP_BUFFER_BYTES)
        .set_stats_interval(Some(STATISTICS_INTERVAL))
        .build(now);
    Box::new(rtc)
}

/// One peer connection, sans IO.
pub(crate) struct Connection {
    /// Until it is closed.
    pub(super) rtc: Option<Box<Rtc>>,
    settings: Settings,
    local_addresses: Vec<SocketAddr>,
    /// Where STUN has come from; see [`MAX_REMOTE_ADDRESSES`].
    remote_addresses: HashSet<SocketAddr>,
    pub(super) now: Instant,
    pub(super) state: StateTracker,
    pub(super) negotiation: Negotiation,
    pub(super) transceivers: Transceivers,
    pub(super) channels: Channels,
    pub(super) events: VecDeque<Event>,
    transmits: VecDeque<Transmit>,
    next_timeout: Instant,
    remote_candidates: usize,
    /// Where the last datagram to the nominated pair went.
    pub(super) route: Option<Route>,
    pub(super) peer_stats: Option<PeerStats>,
    pub(super) media_stats: super::statistics::MediaFigures,
    pub(super) traffic: Traffic,
}

pub(super) fn closed() -> RtcError {
    RtcError::invalid_state("the connection is closed")
}

/// The pair in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Route {
    pub(crate) protocol: Protocol,
    pub(crate) local: SocketAddr,
    pub(crate) remote: SocketAddr,
}

/// All datagrams of the connection.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Traffic {
    pub(crate) packets_sent: u64,
    pub(crate) bytes_sent: u64,
    pub(crate) packets_received: u64,
    pub(crate) bytes_received: u64,
}

impl Connection {
    pub(crate) fn new(settings: Settings, now: Instant) -> Self {
        let mut connection = Self {
            rtc: Some(new_rtc(settings, now)),
            settings,
            local_addresses: Vec::new(),
            remote_addresses: HashSet::new(),
            now,
            state: StateTracker::new(),
            negotiation: Negotiation::default(),
            transceivers: Transceivers::default(),
            channels: Channels::default(),
            events: VecDeque::new(),
            transmits: VecDeque::new(),
            next_timeout: now,
            remote_candidates: 0,
            route: None,
            peer_stats: None,
            media_stats: super::statistics::MediaFigures::default(),
            traffic: Traffic::default(),
        };
        connection.settle();
        connection
    }

    // ---- inputs -------------------------------------------------------------------------------------------

    /// Moves time on. Harmless when called early.
    pub(crate) fn handle_time(&mut self, now: Instant) {
        self.advance(now);
        self.settle();
    }

    /// One datagram from the network. What does not belong here is ignored.
    pub(crate) fn handle_datagram(
        &mut self,
        now: Instant,
        from: SocketAddr,
        to: SocketAddr,
        contents: &[u8],
    ) {
        if contents.first().is_some_and(|byte| *byte <= 3) && !self.knows_address(from) {
            return;
        }
        let Ok(parsed) = contents.try_into() else { return };
        let receive = Receive { proto: Protocol::Udp, source: from, destination: to, contents: parsed };
        let input = Input::Receive(now.max(self.now), receive);
        let Some(rtc) = self.rtc.as_mut().filter(|rtc| rtc.accepts(&input)) else { return };
        self.now = now.max(self.now);
        self.traffic.packets_received += 1;
        self.traffic.bytes_received += contents.len() as u64;
        match rtc.handle_input(input) {
            Ok(()) => self.state.heard(self.now),
            // As DTLS demands, a bad record is dropped; it must not end the connection.
            Err(error) => log::debug!("dropped a datagram from {from}: {error}"),
        }
        self.settle();
    }

    /// Each address that STUN comes from makes a candidate for good, so there is an end to new ones.
    fn knows_address(&mut self, from: SocketAddr) -> bool {
        let room = self.remote_addresses.len() < MAX_REMOTE_ADDRESSES;
        self.remote_addresses.contains(&from) || (room && self.remote_addresses.insert(from))
    }

    /// Throws away an offer that cannot be used, before anything was agreed.
    pub(super) fn begin_anew(&mut self) {
        let mut rtc = new_rtc(self.settings, self.now);
        for address in &self.local_addresses {
            if let Ok(candidate) = Candidate::host(*address, Protocol::Udp) {
                rtc.add_local_candidate(candidate);
            }
        }
        self.rtc = Some(rtc);
    }

    pub(crate) fn add_local_address(&mut self, address: SocketAddr) -> Result<String, RtcError> {
        let candidate =
            Candidate::host(address, Protocol::Udp).map_err(|e| RtcError::invalid_state(e.to_string()))?;
        let text = candidate.to_sdp_string();
        self.local_addresses.push(address);
        self.open_rtc()?.add_local_candidate(candidate);
        self.settle();
        Ok(text)
    }

    pub(crate) fn add_remote_candidate(&mut self, candidate: Candidate) -> Result<(), RtcError> {
        self.open_rtc()?;
        if self.remote_candidates >= MAX_REMOTE_CANDIDATES {
            log::debug!("ignored a candidate: the peer gave more than {MAX_REMOTE_CANDIDATES}");
            return Ok(());
        }
        self.remote_candidates += 1;
        self.open_rtc()?.add_remote_candidate(candidate);
        self.settle();
        Ok(())
    }

    pub(super) fn forget_remote_candidates(&mut self) {
        self.remote_candidates = 0;
        self.remote_addresses.clear();
    }

    /// Nothing is read from the network for now, so its silence means nothing.
    pub(crate) fn not_listening(&mut self, now: Instant) {
        self.state.heard(now);
    }

    pub(crate) fn close(&mut self) {
        let Some(rtc) = &mut self.rtc else { return };
        if let Err(error) = rtc.close() {
            log::debug!("closing: {error}");
        }
        self.settle();
        self.state.close();
        self.negotiation.close();
        self.channels.close_all(&mut self.events);
        self.events.push_back(Event::Signaling(SignalingState::Closed));
        self.report_state();
        // Handles may be kept long after (`livekit` 0.10 keeps its own for good when it leaves others behind), so
        // what is large goes now, not with them.
        self.rtc = None;
    }

    /// The caller has seen this connection panic: nothing inside can be trusted any more.
    pub(crate) fn abandon(&mut self) {
        self.state.broke();
        self.channels.close_all(&mut self.events);
        self.transmits.clear();
        self.report_state();
    }

    // ---- data channels ------------------------------------------------------------------------------------

    pub(crate) fn create_channel(
        &mut self,
        label: &str,
        init: DataChannelInit,
    ) -> Result<ChannelKey, RtcError> {
        if self.is_closed() {
            return Err(closed());
        }
        let key = self.channels.create(label, init)?;
        self.open_channels();
        self.settle();
        Ok(key)
    }

    pub(crate) fn send(&mut self, key: ChannelKey, data: &[u8], binary: bool) -> Result<(), RtcError> {
        let rtc = self.rtc.as_mut().ok_or_else(closed)?;
        self.channels.send(key, data, binary, rtc)?;
        self.settle();
        Ok(())
    }

    pub(crate) fn close_channel(&mut self, key: ChannelKey) {
        // A connection that is closed has closed its channels.
        let Some(rtc) = &mut self.rtc else { return };
        self.channels.close(key, rtc, &mut self.events);
        self.settle();
    }

    pub(crate) fn channel_state(&self, key: ChannelKey) -> DataChannelState {
        self.channels.state(key)
    }

    pub(crate) fn channel_label(&self, key: ChannelKey) -> Option<String> {
        self.channels.get(key).map(|channel| channel.label.clone())
    }

    pub(crate) fn channel_stream_id(&self, key: ChannelKey) -> i32 {
        self.channels.get(key).map_or(-1, |channel| channel.init.id)
    }

    pub(crate) fn buffered_amount(&self, key: ChannelKey) -> u64 {
        self.channels.buffered(key)
    }

    // ---- media --------------------------------------------------------------------------------------------

    pub(crate) fn add_transceiver(
        &mut self,
        kind: MediaKind,
        direction: RtpTransceiverDirection,
        stream_id: Option<String>,
        track_id: Option<String>,
    ) -> TransceiverKey {
        self.transceivers.add(self.now, kind, direction, stream_id, track_id)
    }

    pub(crate) fn transceiver(&self, key: TransceiverKey) -> Option<&super::transceivers::Transceiver> {
        self.transceivers.get(key)
    }

    pub(crate) fn transceiver_mut(
        &mut self,
        key: TransceiverKey,
    ) -> Option<&mut super::transceivers::Transceiver> {
        self.transceivers.get_mut(key)
    }

    /// How to encode for this transceiver, or `None` while nothing would be sent.
    pub(crate) fn sending_params(&self, key: TransceiverKey) -> Option<OpusParams> {
        let transceiver = self.transceivers.get(key)?;
        let live = self.state.connection() == PeerConnectionState::Connected && transceiver.sends();
        let mid = transceiver.mid.filter(|_| live)?;
        // In-band FEC spends bits in proportion to the loss it is told of.
        let expected_loss_percent = self.media_stats.loss_percent(mid).min(MAX_EXPECTED_LOSS_PERCENT);
        let params = transceiver.opus_params();
        let max_bitrate = params.max_bitrate.into_iter().chain(transceiver.max_bitrate).min();
        Some(OpusParams { max_bitrate, expected_loss_percent, ..params })
    }

    pub(crate) fn send_audio(&mut self, key: TransceiverKey, origin: Instant, packets: &[EncodedPacket]) {
        let now = self.now;
        if let (Some(transceiver), Some(rtc)) = (self.transceivers.get_mut(key), &mut self.rtc) {
            for packet in packets {
                transceiver.send_audio(rtc, now, origin, packet);
            }
        }
        // Queued packets leave with the next step of time.
        self.advance(now);
        self.settle();
    }

    // ---- outputs ------------------------------------------------------------------------------------------

    pub(crate) fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// The next datagram to send. It stays in the queue until [`Self::drop_transmit`]: a socket may be full.
    pub(crate) fn peek_transmit(&self) -> Option<&Transmit> {
        self.transmits.front()
    }

    pub(crate) fn drop_transmit(&mut self) {
        self.transmits.pop_front();
    }

    /// When [`Self::handle_time`] wants to be called at the latest.
    pub(crate) fn next_timeout(&self) -> Instant {
        self.state.next_deadline().map_or(self.next_timeout, |deadline| deadline.min(self.next_timeout))
    }

    pub(crate) fn connection_state(&self) -> PeerConnectionState {
        self.state.connection()
    }

    pub(crate) fn ice_state(&self) -> IceConnectionState {
        self.state.ice()
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.state.connection() == PeerConnectionState::Closed
    }

    // ---- inside -------------------------------------------------------------------------------------------

    /// What only an open connection can do needs this.
    pub(super) fn open_rtc(&mut self) -> Result<&mut Rtc, RtcError> {
        self.rtc.as_deref_mut().ok_or_else(closed)
    }

    /// Every call from outside first brings the time up to date, so that timers count from the right moment.
    pub(crate) fn advance(&mut self, now: Instant) {
        self.now = now.max(self.now);
        let Some(rtc) = &mut self.rtc else { return };
        if let Err(error) = rtc.handle_input(Input::Timeout(self.now)) {
            self.broke(&error.to_string());
        }
    }

    /// `str0m`'s contract: after every change, poll until it asks for a timeout.
    pub(super) fn settle(&mut self) {
        loop {
            self.poll_rtc();
            let Some(rtc) = &mut self.rtc else { return };
            if !self.channels.flush(rtc) {
                self.channels.report_drained(rtc, &mut self.events);
                break;
            }
        }
        self.report_state();
    }

    fn poll_rtc(&mut self) {
        while let Some(rtc) = &mut self.rtc {
            match rtc.poll_output() {
                Ok(Output::Timeout(at)) => {
                    self.next_timeout = at;
                    return;
                }
                Ok(Output::Transmit(transmit)) => self.queue(transmit),
                Ok(Output::Event(event)) => self.on_event(event),
                Err(error) => {
                    self.broke(&error.to_string());
                    // It may say the same again: never ask in a tight loop.
                    self.next_timeout = self.now + AFTER_AN_ERROR;
                    return;
                }
            }
        }
    }

    fn queue(&mut self, transmit: Transmit) {
        self.traffic.packets_sent += 1;
        self.traffic.bytes_sent += transmit.contents.len() as u64;
        // STUN (first byte 0..=3) goes to every candidate; all else only to the nominated pair.
        if transmit.contents.first().is_some_and(|byte| *byte > 3) {
            self.route = Some(Route {
                protocol: transmit.proto,
                local: transmit.source,
                remote: transmit.destination,
            });
        }
        self.transmits.push_back(transmit);
    }

    fn on_event(&mut self, event: RtcEvent) {
        match event {
            RtcEvent::Connected => self.state.dtls_connected(),
            RtcEvent::IceConnectionStateChange(ice) => {
                let ice = match ice {
                    RtcIce::New => Ice::New,
                    RtcIce::Checking => Ice::Checking,
                    RtcIce::Connected => Ice::Connected,
                    RtcIce::Completed => Ice::Completed,
                    RtcIce::Disconnected => Ice::Disconnected,
                };
                self.state.ice_changed(self.now, ice);
            }
            // The peer said goodbye. As in libwebrtc its channels are closed at once, while the connection is left
            // to fall silent: the goodbye of a server that ends a session must not overtake its reason, which
            // comes by signalling.
            RtcEvent::Closed => {
                self.state.peer_left();
                self.channels.close_all(&mut self.events);
            }
            RtcEvent::ChannelOpen(id, label) => {
                if let Some(rtc) = &mut self.rtc {
                    self.channels.opened(id, label, rtc, &mut self.events);
                }
            }
            RtcEvent::ChannelData(message) => {
                self.channels.received(message.id, message.data, message.binary, &mut self.events);
            }
            RtcEvent::ChannelClose(id) => self.channels.closed(id, &mut self.events),
            RtcEvent::RtpPacket(packet) => self.on_rtp(packet),
            RtcEvent::PeerStats(stats) => self.peer_stats = Some(stats),
            RtcEvent::MediaIngressStats(stats) => self.media_stats.ingress(stats),
            RtcEvent::MediaEgressStats(stats) => self.media_stats.egress(stats),
            _ => {}
        }
    }

    fn on_rtp(&mut self, packet: str0m::rtp::RtpPacket) {
        let ssrc = packet.header.ssrc;
        let Some(rtc) = &mut self.rtc else { return };
        let Some(mid) = rtc.direct_api().stream_rx(&ssrc).map(|stream| stream.mid()) else { return };
        let Some(transceiver) = self.transceivers.by_mid(mid) else { return };
        let key = transceiver.key;
        if let Some(packet) = transceiver.received(packet) {
            self.events.push_back(Event::Audio { transceiver: key, packet });
        }
    }

    pub(super) fn broke(&mut self, why: &str) {
        if !self.is_closed() {
            log::debug!("connection broken: {why}");
        }
        self.state.broke();
    }

    pub(super) fn report_state(&mut self) {
        let changed = self.state.update(self.now);
        if let Some(ice) = changed.ice {
            self.events.push_back(Event::Ice(ice));
        }
        if let Some(connection) = changed.connection {
            self.events.push_back(Event::Connection(connection));
        }
    }
}
