//! The engine under attack: every call is contained as the driver does it, and everything it puts out is counted.

use std::{net::SocketAddr, time::Instant};

use str0m::media::MediaKind;

use super::containment::contained;
use crate::{
    audio::receiver::AudioReceiver,
    data_channel::DataChannelInit,
    engine::{AudioPacket, ChannelKey, Connection, Event, Settings, TransceiverKey},
    peer_connection::PeerConnectionState,
    rtp_transceiver::RtpTransceiverDirection,
    session_description::SessionDescription,
};

/// What one input may cause at most. Generous: a description of 1,024 media lines has an event or two for each.
const MAX_EVENTS: usize = 4_096;
/// Datagrams that one input may cause at most: the SCTP window, and checks of all candidate pairs.
const MAX_DATAGRAMS: usize = 2_048;

/// A datagram on its way.
pub(super) struct Datagram {
    pub(super) from: SocketAddr,
    pub(super) to: SocketAddr,
    pub(super) bytes: Vec<u8>,
}

/// See the module.
pub(super) struct Victim {
    connection: Connection,
    panicked: bool,
    /// The sound of the first audio line, as a listener would hear it.
    pub(super) receiver: AudioReceiver,
    heard_ssrc: Option<u32>,
    /// Messages of data channels so far.
    pub(super) messages: usize,
    /// Sends back every message, so that there is outgoing data whose acknowledgement can be attacked too.
    pub(super) echoes: bool,
}

impl Victim {
    /// A connection as `livekit` makes it: channels, sound both ways, pictures from the peer.
    pub(super) fn new(now: Instant, address: SocketAddr) -> Self {
        // As with a LiveKit server, SCTP's handshake is on the wire, where it can be attacked.
        let mut victim = Self::with_settings(Settings { sctp_snap: false }, now, address);
        let connection = &mut victim.connection;
        for (label, id) in [("_reliable", 100), ("_lossy", 101), ("_data_track", 102)] {
            let lossy = (id != 100).then_some(0);
            let init = DataChannelInit {
                negotiated: true,
                id,
                ordered: id == 100,
                max_retransmits: lossy,
                ..DataChannelInit::default()
            };
            connection.create_channel(label, init).expect("the ids are free");
        }
        let stream = || Some("stream".to_owned());
        connection.add_transceiver(MediaKind::Audio, RtpTransceiverDirection::SendRecv, stream(), stream());
        connection.add_transceiver(MediaKind::Video, RtpTransceiverDirection::RecvOnly, None, None);
        victim
    }

    /// A connection with nothing in it, ready to take SCTP's handshake out of a description.
    pub(super) fn bare(now: Instant, address: SocketAddr) -> Self {
        Self::with_settings(Settings { sctp_snap: true }, now, address)
    }

    fn with_settings(settings: Settings, now: Instant, address: SocketAddr) -> Self {
        let mut connection = Connection::new(settings, now);
        connection.add_local_address(address).expect("a usable address");
        let receiver = AudioReceiver::new(48_000, 1).expect("a usual format");
        Self { connection, panicked: false, receiver, heard_ssrc: None, messages: 0, echoes: true }
    }

    /// One call against the engine. `None` once a dependency has panicked in it: then it is over.
    pub(super) fn call<R>(&mut self, call: impl FnOnce(&mut Connection) -> R) -> Option<R> {
        if self.panicked {
            return None;
        }
        let result = contained("engine", || call(&mut self.connection));
        if result.is_none() {
            self.panicked = true;
            self.connection.abandon();
            // The one thing that is still done to it.
            contained("engine, closing after a panic", || self.connection.close());
        }
        result
    }

    pub(super) fn offer(&mut self, ice_restart: bool) -> Option<SessionDescription> {
        self.call(|c| {
            let offer = c.create_offer(ice_restart).ok()?;
            c.set_local(offer.clone()).ok()?;
            Some(offer)
        })?
    }

    pub(super) fn is_connected(&self) -> bool {
        self.state() == PeerConnectionState::Connected
    }

    pub(super) fn state(&self) -> PeerConnectionState {
        self.connection.connection_state()
    }

    pub(super) fn next_timeout(&self) -> Instant {
        self.connection.next_timeout()
    }

    /// Takes everything that came of the last call, which must not be too much.
    pub(super) fn take_output(&mut self) -> Vec<Datagram> {
        let mut events = 0;
        while let Some(event) = self.connection.poll_event() {
            events += 1;
            match event {
                Event::Audio { packet, .. } => self.hear(&packet),
                Event::ChannelFromPeer { key } => {
                    let _ = self.connection.channel_label(key);
                }
                Event::ChannelMessage { key, data, binary } => {
                    self.messages += 1;
                    if self.echoes {
                        self.echo(key, &data, binary);
                    }
                }
                Event::Track(key) => self.look_at(key),
                _ => {}
            }
        }
        assert!(events <= MAX_EVENTS, "{events} events of one input");
        let mut datagrams = Vec::new();
        while let Some(transmit) = self.connection.peek_transmit() {
            let (from, to, bytes) = (transmit.source, transmit.destination, transmit.contents.to_vec());
            datagrams.push(Datagram { from, to, bytes });
            self.connection.drop_transmit();
        }
        assert!(datagrams.len() <= MAX_DATAGRAMS, "{} datagrams of one input", datagrams.len());
        datagrams
    }

    fn echo(&mut self, key: ChannelKey, data: &[u8], binary: bool) {
        self.call(|c| {
            let before = c.buffered_amount(key);
            let sent = c.send(key, data, binary).is_ok();
            assert!(c.buffered_amount(key) <= before + if sent { data.len() as u64 } else { 0 });
        });
    }

    fn look_at(&mut self, key: TransceiverKey) {
        self.call(|c| {
            let _ = c.transceiver(key).map(|t| t.remote_stream_id().map(str::len));
            let _ = c.rtp_parameters(key);
            let _ = c.sending_params(key);
        });
    }

    /// As a listener of the track does it (`audio_stream.rs`).
    fn hear(&mut self, packet: &AudioPacket) {
        if self.heard_ssrc.replace(packet.ssrc).is_some_and(|before| before != packet.ssrc) {
            self.receiver.reset();
        }
        let (arrived, sequence, time) = (packet.arrived, packet.sequence, packet.rtp_time);
        match packet.red_of {
            Some(opus) => {
                let _ = self.receiver.insert_red(arrived, sequence, time, &packet.payload, opus);
            }
            None => self.receiver.insert(arrived, sequence, time, &packet.payload),
        }
    }
}
