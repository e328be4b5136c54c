//! The dictionaries of webrtc-stats, field by field.
//!
//! A field means what the text of the [specification](https://www.w3.org/TR/webrtc-stats/) says about its
//! camel-case name; a few are not in it but in Chromium. Durations are in seconds. Fields that the engine
//! does not measure keep their default.
#![allow(missing_docs, reason = "the specification documents the fields; a copy here would only age")]

use std::collections::HashMap;

use serde::Deserialize;

use super::{
    DtlsRole, DtlsTransportState, IceCandidatePairState, IceCandidateType, IceRole,
    IceServerTransportProtocol, IceTcpCandidateType, IceTransportState, QualityLimitationReason,
};
use crate::data_channel::DataChannelState;

/// What every report begins with.
#[derive(Debug, Default, Clone, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RtcStats {
    pub id: String,
    /// Microseconds since the Unix epoch.
    pub timestamp: i64,
}

/// A codec in use.
#[derive(Debug, Default, Clone, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct CodecStats {
    pub payload_type: u32,
    pub transport_id: String,
    pub mime_type: String,
    pub clock_rate: u32,
    pub channels: u32,
    pub sdp_fmtp_line: String,
}

/// What every RTP stream has.
#[derive(Debug, Default, Clone, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RtpStreamStats {
    pub ssrc: u32,
    pub kind: String,
    pub transport_id: String,
    pub codec_id: String,
}

/// How a stream arrives, at us or at the other side.
#[derive(Debug, Default, Clone, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ReceivedRtpStreamStats {
    pub packets_received: u64,
    pub packets_lost: i64,
    pub jitter: f64,
}

/// A stream that we receive.
#[derive(Debug, Default, Clone, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct InboundRtpStreamStats {
    pub track_identifier: String,
    pub mid: String,
    pub remote_id: String,
    pub frames_decoded: u32,
    pub key_frames_decoded: u32,
    pub frames_rendered: u32,
    pub frames_dropped: u32,
    pub frame_width: u32,
    pub frame_height: u32,
    pub frames_per_second: f64,
    pub qp_sum: u64,
    pub total_decode_time: f64,
    pub total_inter_frame_delay: f64,
    pub total_squared_inter_frame_delay: f64,
    pub pause_count: u32,
    pub total_pause_duration: f64,
    pub freeze_count: u32,
    pub total_freeze_duration: f64,
    pub last_packet_received_timestamp: f64,
    pub header_bytes_received: u64,
    pub packets_discarded: u64,
    pub fec_bytes_received: u64,
    pub fec_packets_received: u64,
    pub fec_packets_discarded: u64,
    pub bytes_received: u64,
    pub nack_count: u32,
    pub fir_count: u32,
    pub pli_count: u32,
    pub total_processing_delay: f64,
    pub estimated_playout_timestamp: f64,
    pub jitter_buffer_delay: f64,
    pub jitter_buffer_target_delay: f64,
    pub jitter_buffer_emitted_count: u64,
    pub jitter_buffer_minimum_delay: f64,
    pub total_samples_received: u64,
    pub concealed_samples: u64,
    pub silent_concealed_samples: u64,
    pub concealment_events: u64,
    pub inserted_samples_for_deceleration: u64,
    pub removed_samples_for_acceleration: u64,
    pub audio_level: f64,
    pub total_audio_energy: f64,
    pub total_samples_duration: f64,
    pub frames_received: u64,
    pub decoder_implementation: String,
    pub playout_id: String,
    pub power_efficient_decoder: bool,
    pub frames_assembled_from_multiple_packets: u64,
    pub total_assembly_time: f64,
    pub retransmitted_packets_received: u64,
    pub retransmitted_bytes_received: u64,
    pub rtx_ssrc: u32,
    pub fec_ssrc: u32,
}

/// How a stream is sent, by us or by the other side.
#[derive(Debug, Default, Clone, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SentRtpStreamStats {
    pub packets_sent: u64,
    pub bytes_sent: u64,
}

/// A stream that we send.
#[derive(Debug, Default, Clone, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct OutboundRtpStreamStats {
    pub mid: String,
    pub media_source_id: String,
    pub remote_id: String,
    pub rid: String,
    pub header_bytes_sent: u64,
    pub retransmitted_packets_sent: u64,
    pub retransmitted_bytes_sent: u64,
    pub rtx_ssrc: u32,
    pub target_bitrate: f64,
    pub total_encoded_bytes_target: u64,
    pub frame_width: u32,
    pub frame_height: u32,
    pub frames_per_second: f64,
    pub frames_sent: u32,
    pub huge_frames_sent: u32,
    pub frames_encoded: u32,
    pub key_frames_encoded: u32,
    pub qp_sum: u64,
    pub total_encode_time: f64,
    pub total_packet_send_delay: f64,
    pub quality_limitation_reason: QualityLimitationReason,
    pub quality_limitation_durations: HashMap<String, f64>,
    pub quality_limitation_resolution_changes: u32,
    pub nack_count: u32,
    pub fir_count: u32,
    pub pli_count: u32,
    pub encoder_implementation: String,
    pub power_efficient_encoder: bool,
    pub active: bool,
    pub scalibility_mode: String,
}

/// What the receiver of our stream reports about it.
#[derive(Debug, Default, Clone, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RemoteInboundRtpStreamStats {
    pub local_id: String,
    pub round_trip_time: f64,
    pub total_round_trip_time: f64,
    pub fraction_lost: f64,
    pub round_trip_time_measurements: u64,
}

/// What the sender of a stream reports about it.
#[derive(Debug, Default, Clone, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RemoteOutboundRtpStreamStats {
    pub local_id: String,
    pub remote_timestamp: f64,
    pub reports_sent: u64,
    pub round_trip_time: f64,
    pub total_round_trip_time: f64,
    pub round_trip_time_measurements: u64,
}

/// Where the media of a sent track comes from.
#[derive(Debug, Default, Clone, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct MediaSourceStats {
    pub track_identifier: String,
    pub kind: String,
}

/// The sound that is put in for sending.
#[derive(Debug, Default, Clone, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct AudioSourceStats {
    pub audio_level: f64,
    pub total_audio_energy: f64,
    pub total_samples_duration: f64,
    pub echo_return_loss: f64,
    pub echo_return_loss_enhancement: f64,
    pub dropped_samples_duration: f64,
    pub dropped_samples_events: u32,
    pub total_capture_delay: f64,
    pub total_samples_captured: u64,
}

/// The pictures that are put in for sending.
#[derive(Debug, Default, Clone, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct VideoSourceStats {
    pub width: u32,
    pub height: u32,
    pub frames: u32,
    pub frames_per_second: f64,
}

/// The playout of received sound.
#[derive(Debug, Default, Clone, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct AudioPlayoutStats {
    pub kind: String,
    pub synthesized_samples_duration: f64,
    pub synthesized_samples_events: u32,
    pub total_samples_duration: f64,
    pub total_playout_delay: f64,
    pub total_samples_count: u64,
}

/// The connection as a whole.
#[derive(Debug, Default, Clone, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PeerConnectionStats {
    pub data_channels_opened: u32,
    pub data_channels_closed: u32,
}

/// A data channel.
#[derive(Debug, Default, Clone, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DataChannelStats {
    pub label: String,
    pub protocol: String,
    pub data_channel_identifier: i32,
    pub state: Option<DataChannelState>,
    pub messages_sent: u32,
    pub bytes_sent: u64,
    pub messages_received: u32,
    pub bytes_received: u64,
}

/// The encrypted transport below all streams and channels.
#[derive(Debug, Default, Clone, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct TransportStats {
    pub packets_sent: u64,
    pub packets_received: u64,
    pub bytes_sent: u64,
    pub bytes_received: u64,
    pub ice_role: IceRole,
    pub ice_local_username_fragment: String,
    pub dtls_state: Option<DtlsTransportState>,
    pub ice_state: Option<IceTransportState>,
    pub selected_candidate_pair_id: String,
    pub local_certificate_id: String,
    pub remote_certificate_id: String,
    pub tls_version: String,
    pub dtls_cipher: String,
    pub dtls_role: DtlsRole,
    pub srtp_cipher: String,
    pub selected_candidate_pair_changes: u32,
}

/// A path between the two sides.
#[derive(Debug, Default, Clone, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct CandidatePairStats {
    pub transport_id: String,
    pub local_candidate_id: String,
    pub remote_candidate_id: String,
    pub state: Option<IceCandidatePairState>,
    pub nominated: bool,
    pub packets_sent: u64,
    pub packets_received: u64,
    pub bytes_sent: u64,
    pub bytes_received: u64,
    pub last_packet_sent_timestamp: f64,
    pub last_packet_received_timestamp: f64,
    pub total_round_trip_time: f64,
    pub current_round_trip_time: f64,
    pub available_outgoing_bitrate: f64,
    pub available_incoming_bitrate: f64,
    pub requests_received: u64,
    pub requests_sent: u64,
    pub responses_received: u64,
    pub responses_sent: u64,
    pub consent_requests_sent: u64,
    pub packets_discarded_on_send: u32,
    pub bytes_discarded_on_send: u64,
}

/// An address of one side.
#[derive(Debug, Default, Clone, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct IceCandidateStats {
    pub transport_id: String,
    pub address: String,
    pub port: i32,
    pub protocol: String,
    pub candidate_type: Option<IceCandidateType>,
    pub priority: i32,
    pub url: String,
    pub relay_protocol: Option<IceServerTransportProtocol>,
    pub foundation: String,
    pub related_address: String,
    pub related_port: i32,
    pub username_fragment: String,
    pub tcp_type: Option<IceTcpCandidateType>,
    pub network_type: Option<String>,
}

/// A DTLS certificate.
#[derive(Debug, Default, Clone, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct CertificateStats {
    pub fingerprint: String,
    pub fingerprint_algorithm: String,
    pub base64_certificate: String,
    pub issuer_certificate_id: String,
}

/// A media stream.
#[derive(Debug, Default, Clone, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct StreamStats {
    pub id: String,
    pub stream_identifier: String,
}
