//! What a connection can tell of its work: the figures behind `get_stats`.

use std::{collections::HashMap, time::Instant};

use str0m::{
    media::Mid,
    stats::{MediaEgressStats, MediaIngressStats},
};

use super::{
    Connection, TransceiverKey,
    connection::Route,
    transceivers::{Transceiver, opus_payload_type},
};
use crate::{
    audio::receiver::ReceiverStats,
    peer_connection::PeerConnectionState,
    rtp_parameters::{RtpCodecParameters, RtpParameters},
    stats::{
        CandidatePairStats, CodecStats, DtlsTransportState, IceCandidatePairState, IceCandidateType,
        IceTransportState, InboundRtpStats, LocalCandidateStats, OutboundRtpStats, RemoteCandidateStats,
        RemoteInboundRtpStats, RtcStats, TransportStats, dictionaries as dict,
    },
};

const TRANSPORT: &str = "T01";
const PAIR: &str = "CP01";
const LOCAL_CANDIDATE: &str = "IL01";
const REMOTE_CANDIDATE: &str = "IR01";
const OPUS_CLOCK: f64 = 48_000.0;

/// The last figures `str0m` reported for each media line.
#[derive(Debug, Default)]
pub(crate) struct MediaFigures {
    ingress: HashMap<Mid, MediaIngressStats>,
    egress: HashMap<Mid, MediaEgressStats>,
}

impl MediaFigures {
    pub(crate) fn ingress(&mut self, stats: MediaIngressStats) {
        self.ingress.insert(stats.mid, stats);
    }

    pub(crate) fn egress(&mut self, mut stats: MediaEgressStats) {
        // The peer reports less often than `str0m` does: what it said last stays true until it says otherwise.
        stats.loss = stats.loss.or_else(|| self.egress.get(&stats.mid).and_then(|before| before.loss));
        self.egress.insert(stats.mid, stats);
    }

    /// How much of what we send is lost, as the peer sees it.
    pub(crate) fn loss_percent(&self, mid: Mid) -> u8 {
        let loss = self.egress.get(&mid).and_then(|stats| stats.loss).unwrap_or(0.0);
        (loss.clamp(0.0, 1.0) * 100.0).ceil() as u8
    }
}

/// Adds time and name to reports.
struct Writer {
    timestamp: i64,
    reports: Vec<RtcStats>,
}

impl Writer {
    fn head(&self, id: impl Into<String>) -> dict::RtcStats {
        dict::RtcStats { id: id.into(), timestamp: self.timestamp }
    }
}

impl Connection {
    /// The ICE user name fragment that this side goes by; none once it is closed.
    pub(crate) fn local_username(&mut self) -> String {
        let rtc = self.rtc.as_mut();
        rtc.map(|rtc| rtc.direct_api().local_ice_credentials().ufrag).unwrap_or_default()
    }

    /// All reports, or those of one transceiver and the transport below it. `heard` has what the audio side
    /// knows of each receiving transceiver.
    pub(crate) fn statistics(
        &mut self,
        timestamp: i64,
        only: Option<TransceiverKey>,
        heard: &HashMap<TransceiverKey, ReceiverStats>,
    ) -> Vec<RtcStats> {
        let username = self.local_username();
        let mut writer = Writer { timestamp, reports: Vec::new() };
        self.write_transport(&mut writer, username);
        for transceiver in self.transceivers.iter().filter(|t| only.is_none_or(|key| key == t.key)) {
            let Some(mid) = transceiver.mid else { continue };
            self.write_codec(&mut writer, transceiver, mid);
            if transceiver.sent.packets > 0 {
                self.write_sent(&mut writer, transceiver, mid);
            }
            if transceiver.received.packets > 0 {
                self.write_received(&mut writer, transceiver, mid, heard.get(&transceiver.key));
            }
        }
        writer.reports
    }

    /// The codec agreed for one transceiver.
    pub(crate) fn rtp_parameters(&self, key: TransceiverKey) -> RtpParameters {
        let mid = self.transceivers.get(key).filter(|t| !t.kind.is_video()).and_then(|t| t.mid);
        let payload_type = mid.zip(self.rtc.as_ref()).and_then(|(mid, rtc)| opus_payload_type(rtc, mid));
        let codecs = payload_type.map(|pt| RtpCodecParameters {
            payload_type: *pt,
            mime_type: "audio/opus".to_owned(),
            clock_rate: Some(48_000),
            channels: Some(2),
        });
        let mut parameters = RtpParameters::default();
        parameters.codecs.extend(codecs);
        parameters
    }

    fn write_transport(&self, writer: &mut Writer, username: String) {
        let state = self.connection_state();
        let transport = dict::TransportStats {
            packets_sent: self.traffic.packets_sent,
            packets_received: self.traffic.packets_received,
            bytes_sent: self.traffic.bytes_sent,
            bytes_received: self.traffic.bytes_received,
            ice_local_username_fragment: username,
            dtls_state: Some(match state {
                PeerConnectionState::New => DtlsTransportState::New,
                PeerConnectionState::Connecting => DtlsTransportState::Connecting,
                PeerConnectionState::Connected | PeerConnectionState::Disconnected => {
                    DtlsTransportState::Connected
                }
                PeerConnectionState::Failed => DtlsTransportState::Failed,
                PeerConnectionState::Closed => DtlsTransportState::Closed,
            }),
            ice_state: Some(match state {
                PeerConnectionState::New => IceTransportState::New,
                PeerConnectionState::Connecting => IceTransportState::Checking,
                PeerConnectionState::Connected => IceTransportState::Connected,
                PeerConnectionState::Disconnected => IceTransportState::Disconnected,
                PeerConnectionState::Failed => IceTransportState::Failed,
                PeerConnectionState::Closed => IceTransportState::Closed,
            }),
            selected_candidate_pair_id: self.route.map(|_| PAIR.to_owned()).unwrap_or_default(),
            ..dict::TransportStats::default()
        };
        let rtc = writer.head(TRANSPORT);
        writer.reports.push(RtcStats::Transport(TransportStats { rtc, transport }));
        if let Some(route) = self.route {
            self.write_pair(writer, route);
        }
    }

    fn write_pair(&self, writer: &mut Writer, route: Route) {
        let measured = self.peer_stats.as_ref().and_then(|stats| stats.selected_candidate_pair.as_ref());
        let candidate_pair = dict::CandidatePairStats {
            transport_id: TRANSPORT.to_owned(),
            local_candidate_id: LOCAL_CANDIDATE.to_owned(),
            remote_candidate_id: REMOTE_CANDIDATE.to_owned(),
            state: Some(IceCandidatePairState::Succeeded),
            nominated: true,
            packets_sent: self.traffic.packets_sent,
            packets_received: self.traffic.packets_received,
            bytes_sent: self.traffic.bytes_sent,
            bytes_received: self.traffic.bytes_received,
            current_round_trip_time: measured
                .and_then(|m| m.current_round_trip_time)
                .map_or(0.0, |rtt| rtt.as_secs_f64()),
            total_round_trip_time: measured.map_or(0.0, |m| m.total_round_trip_time.as_secs_f64()),
            responses_received: measured.map_or(0, |m| m.responses_received),
            ..dict::CandidatePairStats::default()
        };
        let candidate = |address: std::net::SocketAddr, kind| dict::IceCandidateStats {
            transport_id: TRANSPORT.to_owned(),
            address: address.ip().to_string(),
            port: i32::from(address.port()),
            protocol: route.protocol.to_string(),
            candidate_type: Some(kind),
            ..dict::IceCandidateStats::default()
        };
        let rtc = writer.head(PAIR);
        writer.reports.push(RtcStats::CandidatePair(CandidatePairStats { rtc, candidate_pair }));
        let rtc = writer.head(LOCAL_CANDIDATE);
        let local_candidate = candidate(route.local, IceCandidateType::Host);
        writer.reports.push(RtcStats::LocalCandidate(LocalCandidateStats { rtc, local_candidate }));
        let rtc = writer.head(REMOTE_CANDIDATE);
        let remote_candidate = candidate(route.remote, IceCandidateType::Host);
        writer.reports.push(RtcStats::RemoteCandidate(RemoteCandidateStats { rtc, remote_candidate }));
    }

    fn write_codec(&self, writer: &mut Writer, transceiver: &Transceiver, mid: Mid) {
        if transceiver.kind.is_video() {
            return;
        }
        let payload_type = self.rtc.as_ref().and_then(|rtc| opus_payload_type(rtc, mid));
        let Some(payload_type) = payload_type else { return };
        let codec = dict::CodecStats {
            payload_type: u32::from(*payload_type),
            transport_id: TRANSPORT.to_owned(),
            mime_type: "audio/opus".to_owned(),
            clock_rate: OPUS_CLOCK as u32,
            channels: 2,
            ..dict::CodecStats::default()
        };
        let rtc = writer.head(codec_id(mid));
        writer.reports.push(RtcStats::Codec(CodecStats { rtc, codec }));
    }

    fn write_sent(&self, writer: &mut Writer, transceiver: &Transceiver, mid: Mid) {
        let sent = &transceiver.sent;
        let stream = stream(sent.ssrc, mid, transceiver);
        let measured = self.media_stats.egress.get(&mid);
        let remote_id = format!("RI{}", sent.ssrc);
        writer.reports.push(RtcStats::OutboundRtp(OutboundRtpStats {
            rtc: writer.head(format!("OT{}", sent.ssrc)),
            stream: stream.clone(),
            sent: dict::SentRtpStreamStats { packets_sent: sent.packets, bytes_sent: sent.bytes },
            outbound: dict::OutboundRtpStreamStats {
                mid: mid.to_string(),
                remote_id: remote_id.clone(),
                nack_count: measured.map_or(0, |m| m.nacks as u32),
                active: transceiver.sends(),
                ..dict::OutboundRtpStreamStats::default()
            },
        }));
        let Some((measured, remote)) = measured.and_then(|m| m.remote.as_ref().map(|remote| (m, remote)))
        else {
            return;
        };
        writer.reports.push(RtcStats::RemoteInboundRtp(RemoteInboundRtpStats {
            rtc: writer.head(remote_id),
            stream,
            received: dict::ReceivedRtpStreamStats {
                packets_lost: remote.packets_lost as i64,
                jitter: f64::from(remote.jitter) / OPUS_CLOCK,
                ..dict::ReceivedRtpStreamStats::default()
            },
            remote_inbound: dict::RemoteInboundRtpStreamStats {
                local_id: format!("OT{}", sent.ssrc),
                round_trip_time: measured.rtt.map_or(0.0, |rtt| rtt.as_secs_f64()),
                fraction_lost: f64::from(measured.loss.unwrap_or(0.0)),
                ..dict::RemoteInboundRtpStreamStats::default()
            },
        }));
    }

    fn write_received(
        &self,
        writer: &mut Writer,
        transceiver: &Transceiver,
        mid: Mid,
        heard: Option<&ReceiverStats>,
    ) {
        let received = &transceiver.received;
        let measured = self.media_stats.ingress.get(&mid);
        let heard = heard.copied().unwrap_or_default();
        let age = |at: Instant| self.now.saturating_duration_since(at).as_millis() as f64;
        writer.reports.push(RtcStats::InboundRtp(InboundRtpStats {
            rtc: writer.head(format!("IT{}", received.ssrc)),
            stream: stream(received.ssrc, mid, transceiver),
            received: dict::ReceivedRtpStreamStats {
                packets_received: received.packets,
                packets_lost: heard.lost as i64,
                jitter: measured.map_or(0.0, |m| f64::from(m.jitter) / OPUS_CLOCK),
            },
            inbound: dict::InboundRtpStreamStats {
                mid: mid.to_string(),
                bytes_received: received.bytes,
                last_packet_received_timestamp: received
                    .last_arrival
                    .map_or(0.0, |at| writer.timestamp as f64 / 1000.0 - age(at)),
                packets_discarded: heard.late + heard.duplicated + heard.discarded,
                fec_packets_received: heard.fec_recovered,
                nack_count: measured.map_or(0, |m| m.nacks as u32),
                jitter_buffer_delay: heard.jitter_buffer_delay_s,
                jitter_buffer_target_delay: heard.jitter_buffer_target_delay_s,
                inserted_samples_for_deceleration: heard.inserted_samples_for_deceleration,
                removed_samples_for_acceleration: heard.removed_samples_for_acceleration,
                jitter_buffer_emitted_count: heard.jitter_buffer_emitted,
                total_samples_received: heard.total_samples,
                concealed_samples: heard.concealed_samples,
                silent_concealed_samples: heard.silent_concealed_samples,
                concealment_events: heard.concealment_events,
                audio_level: heard.audio_level,
                total_audio_energy: heard.total_audio_energy,
                total_samples_duration: heard.total_duration,
                ..dict::InboundRtpStreamStats::default()
            },
        }));
    }
}

fn codec_id(mid: Mid) -> String {
    format!("C{mid}")
}

fn stream(ssrc: u32, mid: Mid, transceiver: &Transceiver) -> dict::RtpStreamStats {
    let kind = if transceiver.kind.is_video() { "video" } else { "audio" };
    dict::RtpStreamStats {
        ssrc,
        kind: kind.to_owned(),
        transport_id: TRANSPORT.to_owned(),
        codec_id: codec_id(mid),
    }
}
