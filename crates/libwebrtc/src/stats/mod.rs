//! What `get_stats` returns: reports in the shape of [webrtc-stats](https://www.w3.org/TR/webrtc-stats/).
//!
//! [`RtcStats`] is one report, each variant made of the [`dictionaries`] of the specification that describe
//! it. The engine fills them in as Rust values; they can also be read from the JSON form of such a report.
//! Plain data: nothing here measures anything.

pub mod dictionaries;
mod states;

use serde::Deserialize;

pub use self::states::{
    DtlsRole, DtlsTransportState, IceCandidatePairState, IceCandidateType, IceRole,
    IceServerTransportProtocol, IceTcpCandidateType, IceTransportState, QualityLimitationReason,
};

/// One report. In JSON its `type` says which.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum RtcStats {
    /// A codec in use.
    Codec(CodecStats),
    /// A stream that we receive.
    InboundRtp(InboundRtpStats),
    /// A stream that we send.
    OutboundRtp(OutboundRtpStats),
    /// What the receiver of our stream reports about it.
    RemoteInboundRtp(RemoteInboundRtpStats),
    /// What the sender of a stream reports about it.
    RemoteOutboundRtp(RemoteOutboundRtpStats),
    /// Where the media of a sent track comes from.
    MediaSource(MediaSourceStats),
    /// The playout of received sound.
    MediaPlayout(MediaPlayoutStats),
    /// The connection as a whole.
    PeerConnection(PeerConnectionStats),
    /// A data channel.
    DataChannel(DataChannelStats),
    /// The encrypted transport below all streams and channels.
    Transport(TransportStats),
    /// A path between the two sides.
    CandidatePair(CandidatePairStats),
    /// An address of ours.
    LocalCandidate(LocalCandidateStats),
    /// An address of the other side.
    RemoteCandidate(RemoteCandidateStats),
    /// A DTLS certificate.
    Certificate(CertificateStats),
    /// A media stream.
    Stream(StreamStats),
    /// No longer part of the specification; read and dropped.
    Track,
}

/// A codec in use.
#[derive(Debug, Default, Clone, Deserialize)]
pub struct CodecStats {
    /// Its name and time.
    #[serde(flatten)]
    pub rtc: dictionaries::RtcStats,
    /// What is known about it.
    #[serde(flatten)]
    pub codec: dictionaries::CodecStats,
}

/// A stream that we receive.
#[derive(Debug, Default, Clone, Deserialize)]
pub struct InboundRtpStats {
    /// Its name and time.
    #[serde(flatten)]
    pub rtc: dictionaries::RtcStats,
    /// Which stream it is.
    #[serde(flatten)]
    pub stream: dictionaries::RtpStreamStats,
    /// What arrived.
    #[serde(flatten)]
    pub received: dictionaries::ReceivedRtpStreamStats,
    /// Everything else about receiving it.
    #[serde(flatten)]
    pub inbound: dictionaries::InboundRtpStreamStats,
}

/// A stream that we send.
#[derive(Debug, Default, Clone, Deserialize)]
pub struct OutboundRtpStats {
    /// Its name and time.
    #[serde(flatten)]
    pub rtc: dictionaries::RtcStats,
    /// Which stream it is.
    #[serde(flatten)]
    pub stream: dictionaries::RtpStreamStats,
    /// What was sent.
    #[serde(flatten)]
    pub sent: dictionaries::SentRtpStreamStats,
    /// Everything else about sending it.
    #[serde(flatten)]
    pub outbound: dictionaries::OutboundRtpStreamStats,
}

/// What the receiver of our stream reports about it.
#[derive(Debug, Default, Clone, Deserialize)]
pub struct RemoteInboundRtpStats {
    /// Its name and time.
    #[serde(flatten)]
    pub rtc: dictionaries::RtcStats,
    /// Which stream it is.
    #[serde(flatten)]
    pub stream: dictionaries::RtpStreamStats,
    /// What arrived.
    #[serde(flatten)]
    pub received: dictionaries::ReceivedRtpStreamStats,
    /// What was reported.
    #[serde(flatten)]
    pub remote_inbound: dictionaries::RemoteInboundRtpStreamStats,
}

/// What the sender of a stream reports about it.
#[derive(Debug, Default, Clone, Deserialize)]
pub struct RemoteOutboundRtpStats {
    /// Its name and time.
    #[serde(flatten)]
    pub rtc: dictionaries::RtcStats,
    /// Which stream it is.
    #[serde(flatten)]
    pub stream: dictionaries::RtpStreamStats,
    /// What was sent.
    #[serde(flatten)]
    pub sent: dictionaries::SentRtpStreamStats,
    /// What was reported.
    #[serde(flatten)]
    pub remote_outbound: dictionaries::RemoteOutboundRtpStreamStats,
}

/// Where the media of a sent track comes from.
#[derive(Debug, Default, Clone, Deserialize)]
pub struct MediaSourceStats {
    /// Its name and time.
    #[serde(flatten)]
    pub rtc: dictionaries::RtcStats,
    /// What it is.
    #[serde(flatten)]
    pub source: dictionaries::MediaSourceStats,
    /// If it is sound.
    #[serde(flatten)]
    pub audio: dictionaries::AudioSourceStats,
    /// If it is pictures.
    #[serde(flatten)]
    pub video: dictionaries::VideoSourceStats,
}

/// The playout of received sound.
#[derive(Debug, Default, Clone, Deserialize)]
pub struct MediaPlayoutStats {
    /// Its name and time.
    #[serde(flatten)]
    pub rtc: dictionaries::RtcStats,
    /// What is known about it.
    #[serde(flatten)]
    pub audio_playout: dictionaries::AudioPlayoutStats,
}

/// The connection as a whole.
#[derive(Debug, Default, Clone, Deserialize)]
pub struct PeerConnectionStats {
    /// Its name and time.
    #[serde(flatten)]
    pub rtc: dictionaries::RtcStats,
    /// What is known about it.
    #[serde(flatten)]
    pub pc: dictionaries::PeerConnectionStats,
}

/// A data channel.
#[derive(Debug, Default, Clone, Deserialize)]
pub struct DataChannelStats {
    /// Its name and time.
    #[serde(flatten)]
    pub rtc: dictionaries::RtcStats,
    /// What is known about it.
    #[serde(flatten)]
    pub dc: dictionaries::DataChannelStats,
}

/// The encrypted transport below all streams and channels.
#[derive(Debug, Default, Clone, Deserialize)]
pub struct TransportStats {
    /// Its name and time.
    #[serde(flatten)]
    pub rtc: dictionaries::RtcStats,
    /// What is known about it.
    #[serde(flatten)]
    pub transport: dictionaries::TransportStats,
}

/// A path between the two sides.
#[derive(Debug, Default, Clone, Deserialize)]
pub struct CandidatePairStats {
    /// Its name and time.
    #[serde(flatten)]
    pub rtc: dictionaries::RtcStats,
    /// What is known about it.
    #[serde(flatten)]
    pub candidate_pair: dictionaries::CandidatePairStats,
}

/// An address of ours.
#[derive(Debug, Default, Clone, Deserialize)]
pub struct LocalCandidateStats {
    /// Its name and time.
    #[serde(flatten)]
    pub rtc: dictionaries::RtcStats,
    /// What is known about it.
    #[serde(flatten)]
    pub local_candidate: dictionaries::IceCandidateStats,
}

/// An address of the other side.
#[derive(Debug, Default, Clone, Deserialize)]
pub struct RemoteCandidateStats {
    /// Its name and time.
    #[serde(flatten)]
    pub rtc: dictionaries::RtcStats,
    /// What is known about it.
    #[serde(flatten)]
    pub remote_candidate: dictionaries::IceCandidateStats,
}

/// A DTLS certificate.
#[derive(Debug, Default, Clone, Deserialize)]
pub struct CertificateStats {
    /// Its name and time.
    #[serde(flatten)]
    pub rtc: dictionaries::RtcStats,
    /// What is known about it.
    #[serde(flatten)]
    pub certificate: dictionaries::CertificateStats,
}

/// A media stream.
#[derive(Debug, Default, Clone, Deserialize)]
pub struct StreamStats {
    /// Its name and time.
    #[serde(flatten)]
    pub rtc: dictionaries::RtcStats,
    /// What is known about it.
    #[serde(flatten)]
    pub stream: dictionaries::StreamStats,
}

/// Has nothing in it, like [`RtcStats::Track`].
#[derive(Debug, Default, Clone, Deserialize)]
pub struct TrackStats {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data_channel::DataChannelState;

    /// Reports as libwebrtc writes them, with fields we do not know among them.
    const REPORTS: &str = r#"[
        {"type":"transport","id":"T01","timestamp":1700000000000000,"bytesSent":1200,"dtlsState":"connected",
         "iceRole":"controlling","dtlsRole":"client","selectedCandidatePairId":"CPx","unheardOf":{"a":[1]}},
        {"type":"candidate-pair","id":"CPx","timestamp":1700000000000000,"state":"in-progress","nominated":true,
         "currentRoundTripTime":0.021,"localCandidateId":"Ia","remoteCandidateId":"Ib"},
        {"type":"local-candidate","id":"Ia","timestamp":1,"address":"192.168.1.7","port":50000,"protocol":"udp",
         "candidateType":"host","priority":2122260223,"networkType":"ethernet"},
        {"type":"inbound-rtp","id":"IT01A1","timestamp":1,"ssrc":4294967295,"kind":"audio","packetsReceived":50,
         "packetsLost":-1,"jitter":0.002,"concealedSamples":480,"trackIdentifier":"TR_x"},
        {"type":"outbound-rtp","id":"OT01A2","timestamp":1,"packetsSent":7,"qualityLimitationReason":"cpu",
         "qualityLimitationDurations":{"cpu":1.5,"none":0}},
        {"type":"remote-inbound-rtp","id":"RI","timestamp":1,"fractionLost":0.25,"roundTripTime":0.03},
        {"type":"data-channel","id":"D1","timestamp":1,"label":"_reliable","state":"open","messagesSent":3},
        {"type":"track","id":"old","timestamp":1,"ended":false}
    ]"#;

    #[test]
    fn reports_are_read_from_their_json_form() {
        let reports: Vec<RtcStats> = serde_json::from_str(REPORTS).expect("the sample is well formed");
        let [
            RtcStats::Transport(transport),
            RtcStats::CandidatePair(pair),
            RtcStats::LocalCandidate(local),
            RtcStats::InboundRtp(inbound),
            RtcStats::OutboundRtp(outbound),
            RtcStats::RemoteInboundRtp(remote),
            RtcStats::DataChannel(channel),
            RtcStats::Track,
        ] = &reports[..]
        else {
            panic!("{reports:?}")
        };

        assert_eq!((transport.rtc.id.as_str(), transport.rtc.timestamp), ("T01", 1_700_000_000_000_000));
        assert_eq!(transport.transport.dtls_state, Some(DtlsTransportState::Connected));
        assert_eq!(transport.transport.ice_role, IceRole::Controlling);
        assert_eq!(transport.transport.dtls_role, DtlsRole::Client);
        assert_eq!(transport.transport.ice_state, None);
        assert_eq!(pair.candidate_pair.state, Some(IceCandidatePairState::InProgress));
        assert!((pair.candidate_pair.current_round_trip_time - 0.021).abs() < 1e-9);
        assert_eq!(local.local_candidate.candidate_type, Some(IceCandidateType::Host));
        assert_eq!(local.local_candidate.network_type.as_deref(), Some("ethernet"));
        assert_eq!(inbound.stream.ssrc, u32::MAX);
        assert_eq!(inbound.received.packets_lost, -1);
        assert_eq!(inbound.inbound.concealed_samples, 480);
        assert_eq!(outbound.sent.packets_sent, 7);
        assert_eq!(outbound.outbound.quality_limitation_reason, QualityLimitationReason::Cpu);
        assert!((outbound.outbound.quality_limitation_durations["cpu"] - 1.5).abs() < 1e-9);
        assert!((remote.remote_inbound.fraction_lost - 0.25).abs() < 1e-9);
        assert_eq!(channel.dc.state, Some(DataChannelState::Open));
        assert_eq!(channel.dc.messages_sent, 3);
    }

    #[test]
    fn a_report_of_an_unknown_type_is_an_error() {
        assert!(serde_json::from_str::<RtcStats>(r#"{"type":"weather","id":"x","timestamp":1}"#).is_err());
    }
}
