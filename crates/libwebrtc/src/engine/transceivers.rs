//! Transceivers: the media lines of a connection, what they are to carry and what they carry now.
//!
//! Holds facts and hands RTP over; it decodes nothing and knows no tracks (the façade does).

use std::time::Instant;

use str0m::{
    Rtc,
    format::{Codec, PayloadParams},
    media::{Direction, MediaKind, Mid, Pt},
    rtp::{ExtensionValues, RtpPacket, RtpWrite, SeqNo},
};

use super::sdp::MediaLine;
use crate::{
    audio::{codec::OpusParams, red::RedWriter, sender::EncodedPacket},
    rtp_transceiver::RtpTransceiverDirection,
};

/// A transceiver's number within its connection, from its creation on (the mid comes with the offer).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct TransceiverKey(pub(crate) usize);

#[derive(Debug)]
pub(crate) struct Transceiver {
    pub(crate) key: TransceiverKey,
    pub(crate) kind: MediaKind,
    pub(crate) mid: Option<Mid>,
    /// What the caller wants; each offer asks for it anew.
    pub(crate) direction: RtpTransceiverDirection,
    /// What was last agreed.
    pub(crate) current_direction: Option<RtpTransceiverDirection>,
    /// Written into the offer's `a=msid`.
    pub(crate) stream_id: Option<String>,
    pub(crate) track_id: Option<String>,
    /// What the caller wants to spend at most, in bits per second.
    pub(crate) max_bitrate: Option<u32>,
    /// The remote line as last described: stream id, payload types, how it wants its Opus.
    remote: Option<MediaLine>,
    receiving: bool,
    created: Instant,
    /// RTP time begins anywhere.
    rtp_offset: u32,
    next_sequence: SeqNo,
    red: RedWriter,
    pub(crate) sent: Sent,
    pub(crate) received: Received,
}

/// Counters of the outgoing stream.
#[derive(Debug, Default, Clone)]
pub(crate) struct Sent {
    pub(crate) ssrc: u32,
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
}

/// Counters of the incoming stream.
#[derive(Debug, Default, Clone)]
pub(crate) struct Received {
    pub(crate) ssrc: u32,
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
    pub(crate) last_arrival: Option<Instant>,
}

/// One received RTP payload and what the audio side must know of it.
#[derive(Debug)]
pub(crate) struct AudioPacket {
    pub(crate) arrived: Instant,
    pub(crate) ssrc: u32,
    pub(crate) sequence: u64,
    pub(crate) rtp_time: u32,
    pub(crate) payload: std::sync::Arc<[u8]>,
    /// The payload is RFC 2198 redundancy around Opus of this payload type.
    pub(crate) red_of: Option<u8>,
}

impl Transceiver {
    pub(crate) fn sends(&self) -> bool {
        use RtpTransceiverDirection::{SendOnly, SendRecv};
        matches!(self.current_direction, Some(SendOnly | SendRecv))
            && matches!(self.direction, SendOnly | SendRecv)
    }

    /// Stream ids of what the peer sends now.
    pub(crate) fn remote_stream_id(&self) -> Option<&str> {
        self.remote.as_ref().filter(|_| self.receiving).and_then(|line| line.stream_id.as_deref())
    }

    /// How the peer wants its Opus.
    pub(crate) fn opus_params(&self) -> OpusParams {
        self.remote.as_ref().map(|line| line.opus_params.clone()).unwrap_or_default()
    }

    /// Takes in the peer's view of the line. Returns whether the peer has just begun to send.
    pub(crate) fn remote_described(&mut self, line: MediaLine) -> bool {
        use RtpTransceiverDirection::{Inactive, RecvOnly, SendOnly, SendRecv};
        let wants_send = matches!(self.direction, SendOnly | SendRecv);
        let wants_receive = matches!(self.direction, RecvOnly | SendRecv);
        let receiving = line.sends && wants_receive;
        let sending = line.receives && wants_send;
        self.current_direction = Some(match (sending, receiving) {
            (true, true) => SendRecv,
            (true, false) => SendOnly,
            (false, true) => RecvOnly,
            (false, false) => Inactive,
        });
        let begins = receiving && !self.receiving;
        self.receiving = receiving;
        self.remote = Some(line);
        begins
    }

    /// The caller takes its track away; the line stays and may be used again.
    pub(crate) fn stop_sending(&mut self) {
        use RtpTransceiverDirection::{Inactive, RecvOnly, SendOnly, SendRecv};
        self.direction = match self.direction {
            SendRecv => RecvOnly,
            SendOnly => Inactive,
            other => other,
        };
    }

    /// `None` when the packet is not audio that we understand.
    pub(crate) fn received(&mut self, packet: RtpPacket) -> Option<AudioPacket> {
        self.received.ssrc = *packet.header.ssrc;
        self.received.packets += 1;
        self.received.bytes += packet.payload.len() as u64;
        self.received.last_arrival = Some(packet.timestamp);
        let line = self.remote.as_ref()?;
        let pt = *packet.header.payload_type;
        if self.kind.is_video() {
            return None;
        }
        let red_of = if line.red.contains(&pt) {
            Some(*line.opus.first()?)
        } else if line.opus.contains(&pt) {
            None
        } else {
            return None;
        };
        Some(AudioPacket {
            arrived: packet.timestamp,
            ssrc: *packet.header.ssrc,
            sequence: *packet.seq_no,
            rtp_time: packet.header.timestamp,
            payload: packet.payload,
            red_of,
        })
    }

    /// Queues one encoded packet. What cannot be sent now (not negotiated, not sending) is dropped: audio does
    /// not wait.
    ///
    /// `origin` is the moment that the packet's time counts from: one transceiver may send one track after
    /// another, and the RTP time must go on through all of them.
    pub(crate) fn send_audio(
        &mut self,
        rtc: &mut Rtc,
        now: Instant,
        origin: Instant,
        packet: &EncodedPacket,
    ) {
        let Some(mid) = self.mid.filter(|_| self.sends()) else { return };
        let Some(opus) = opus_payload_type(rtc, mid) else { return };
        let (pt, payload) = match self.remote.as_ref().and_then(MediaLine::preferred_red) {
            Some(red) => (Pt::from(red), self.red.wrap(*opus, packet.rtp_time, &packet.payload)),
            None => (opus, packet.payload.clone()),
        };
        let mut api = rtc.direct_api();
        let Some(stream) = api.stream_tx_by_mid(mid, None) else { return };
        let extensions = ExtensionValues {
            audio_level: Some(packet.audio_level),
            voice_activity: Some(packet.voice_activity),
            ..ExtensionValues::default()
        };
        let sequence = self.next_sequence.inc();
        let since_start = origin.saturating_duration_since(self.created).as_nanos() * 48 / 1_000_000;
        let rtp_time = (since_start as u64).wrapping_add(packet.rtp_time) as u32;
        self.sent.ssrc = *stream.ssrc();
        self.sent.packets += 1;
        self.sent.bytes += payload.len() as u64;
        stream.write_rtp(
            RtpWrite::new(pt, sequence, rtp_time.wrapping_add(self.rtp_offset), now, payload)
                .marker(packet.marker)
                .ext_vals(extensions),
        );
    }
}

pub(crate) fn opus_payload_type(rtc: &Rtc, mid: Mid) -> Option<Pt> {
    let agreed = rtc.media(mid)?.remote_pts();
    rtc.codec_config()
        .find(|params| params.spec().codec == Codec::Opus && agreed.contains(&params.pt()))
        .map(PayloadParams::pt)
}

/// All transceivers of one connection, in the order of their creation.
#[derive(Debug, Default)]
pub(crate) struct Transceivers {
    list: Vec<Transceiver>,
}

impl Transceivers {
    pub(crate) fn add(
        &mut self,
        now: Instant,
        kind: MediaKind,
        direction: RtpTransceiverDirection,
        stream_id: Option<String>,
        track_id: Option<String>,
    ) -> TransceiverKey {
        let key = TransceiverKey(self.list.len());
        self.list.push(Transceiver {
            key,
            kind,
            mid: None,
            direction,
            current_direction: None,
            stream_id,
            track_id,
            max_bitrate: None,
            remote: None,
            receiving: false,
            created: now,
            rtp_offset: (*SeqNo::default() as u32).wrapping_mul(0x9e37_79b9),
            next_sequence: SeqNo::default(),
            red: RedWriter::default(),
            sent: Sent::default(),
            received: Received::default(),
        });
        key
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Transceiver> {
        self.list.iter()
    }

    pub(crate) fn get(&self, key: TransceiverKey) -> Option<&Transceiver> {
        self.list.get(key.0)
    }

    pub(crate) fn get_mut(&mut self, key: TransceiverKey) -> Option<&mut Transceiver> {
        self.list.get_mut(key.0)
    }

    pub(crate) fn by_mid(&mut self, mid: Mid) -> Option<&mut Transceiver> {
        self.list.iter_mut().find(|t| t.mid == Some(mid))
    }
}

pub(crate) fn to_str0m(direction: RtpTransceiverDirection) -> Direction {
    match direction {
        RtpTransceiverDirection::SendRecv => Direction::SendRecv,
        RtpTransceiverDirection::SendOnly => Direction::SendOnly,
        RtpTransceiverDirection::RecvOnly => Direction::RecvOnly,
        RtpTransceiverDirection::Inactive | RtpTransceiverDirection::Stopped => Direction::Inactive,
    }
}
