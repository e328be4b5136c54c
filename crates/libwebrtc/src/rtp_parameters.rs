//! What is known and asked about RTP streams: codecs, header extensions, encodings, capabilities.
//!
//! Plain data that senders, receivers and transceivers hand out and take back.

use crate::rtp_transceiver::RtpTransceiverDirection;

/// How important a stream is compared with the others.
#[derive(Debug, Copy, Clone, PartialEq, Eq)]
pub enum Priority {
    /// Below everything.
    VeryLow,
    /// The usual one.
    Low,
    /// Above the usual.
    Medium,
    /// Above everything.
    High,
}

/// What a video encoder gives up first when bandwidth is short.
#[derive(Debug, Copy, Clone, PartialEq, Eq, Default)]
pub enum DegradationPreference {
    /// Neither: whole frames are dropped instead.
    MaintainFramerateAndResolution,
    /// Resolution goes first.
    MaintainFramerate,
    /// Frame rate goes first.
    MaintainResolution,
    /// A bit of both.
    #[default]
    Balanced,
}

impl DegradationPreference {
    /// The old name of [`Self::MaintainFramerateAndResolution`].
    #[deprecated(since = "0.8.0", note = "Use MaintainFramerateAndResolution instead")]
    #[allow(non_upper_case_globals, reason = "the name users of the original crate wrote")]
    pub const Disabled: Self = Self::MaintainFramerateAndResolution;
}

/// A header extension in use.
#[derive(Debug, Clone)]
pub struct RtpHeaderExtensionParameters {
    /// What the extension means.
    pub uri: String,
    /// Its number on the wire.
    pub id: i32,
    /// Whether it is encrypted.
    pub encrypted: bool,
}

/// Everything about one sender's or receiver's streams.
#[derive(Debug, Clone, Default)]
pub struct RtpParameters {
    /// The negotiated codecs, the preferred one first.
    pub codecs: Vec<RtpCodecParameters>,
    /// The negotiated header extensions.
    pub header_extensions: Vec<RtpHeaderExtensionParameters>,
    /// The encodings that are sent; empty on a receiver.
    pub encodings: Vec<RtpEncodingParameters>,
    /// The RTCP side.
    pub rtcp: RtcpParameters,
    degradation_preference: Option<DegradationPreference>,
}

impl RtpParameters {
    /// Sets what a video encoder gives up first. Remembered, and without effect: no video is encoded here.
    pub fn set_degradation_preference(&mut self, preference: DegradationPreference) {
        self.degradation_preference = Some(preference);
    }

    /// The preference, if one was set.
    pub fn degradation_preference(&self) -> Option<DegradationPreference> {
        self.degradation_preference
    }
}

/// A negotiated codec.
#[derive(Debug, Clone, Default)]
pub struct RtpCodecParameters {
    /// Its number on the wire.
    pub payload_type: u8,
    /// For example `audio/opus`.
    pub mime_type: String,
    /// Ticks of its RTP clock per second.
    pub clock_rate: Option<u64>,
    /// Number of audio channels.
    pub channels: Option<u16>,
}

/// The RTCP side of a session.
#[derive(Debug, Clone, Default)]
pub struct RtcpParameters {
    /// The canonical name that ties the streams of one sender together.
    pub cname: String,
    /// Whether short RTCP packets are allowed.
    pub reduced_size: bool,
}

/// One encoding of what a sender sends.
#[derive(Debug, Clone)]
pub struct RtpEncodingParameters {
    /// Whether it is sent at all.
    pub active: bool,
    /// Upper limit in bits per second.
    pub max_bitrate: Option<u64>,
    /// Upper limit in frames per second.
    pub max_framerate: Option<f64>,
    /// How important it is.
    pub priority: Priority,
    /// Its name among the encodings of the sender; empty if there is only one.
    pub rid: String,
    /// By how much the picture is made smaller.
    pub scale_resolution_down_by: Option<f64>,
    /// The layers of a scalable video codec, for example `L3T3_KEY`.
    pub scalability_mode: Option<String>,
    /// Whether `ssrc` means anything.
    pub has_ssrc: bool,
    /// The stream's number on the wire.
    pub ssrc: u32,
}

impl Default for RtpEncodingParameters {
    fn default() -> Self {
        Self {
            active: true,
            max_bitrate: None,
            max_framerate: None,
            priority: Priority::Low,
            rid: String::new(),
            scale_resolution_down_by: None,
            scalability_mode: None,
            has_ssrc: false,
            ssrc: 0,
        }
    }
}

/// A codec that could be negotiated.
#[derive(Debug, Clone)]
pub struct RtpCodecCapability {
    /// Number of audio channels.
    pub channels: Option<u16>,
    /// Ticks of its RTP clock per second.
    pub clock_rate: Option<u64>,
    /// For example `audio/opus`.
    pub mime_type: String,
    /// Its parameters as they stand in an SDP `fmtp` line.
    pub sdp_fmtp_line: Option<String>,
}

/// A header extension that could be negotiated.
#[derive(Debug, Clone)]
pub struct RtpHeaderExtensionCapability {
    /// What the extension means.
    pub uri: String,
    /// In which directions it can be used.
    pub direction: RtpTransceiverDirection,
}

/// All that could be negotiated for one kind of media.
#[derive(Debug, Clone)]
pub struct RtpCapabilities {
    /// The codecs, the preferred one first.
    pub codecs: Vec<RtpCodecCapability>,
    /// The header extensions.
    pub header_extensions: Vec<RtpHeaderExtensionCapability>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_degradation_preference_is_remembered() {
        let mut parameters = RtpParameters::default();
        assert_eq!(parameters.degradation_preference(), None);
        parameters.set_degradation_preference(DegradationPreference::MaintainResolution);
        assert_eq!(parameters.degradation_preference(), Some(DegradationPreference::MaintainResolution));
    }

    #[test]
    fn an_encoding_is_sent_unless_switched_off() {
        assert!(RtpEncodingParameters::default().active);
    }
}
