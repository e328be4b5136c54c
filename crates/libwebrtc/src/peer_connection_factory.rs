//! [`PeerConnectionFactory`]: makes connections and tracks.

use std::{fmt, sync::Arc};

use crate::{
    MediaType, RtcError,
    audio_devices::AudioDeviceFlags,
    audio_source::native::NativeAudioSource,
    audio_track::RtcAudioTrack,
    peer_connection::PeerConnection,
    rtp_parameters::{RtpCapabilities, RtpCodecCapability},
};

/// A STUN or TURN server. Not used yet: only direct UDP paths are tried.
#[derive(Debug, Clone)]
pub struct IceServer {
    /// Where it is.
    pub urls: Vec<String>,
    /// The user's name.
    pub username: String,
    /// The user's password.
    pub password: String,
}

/// Whether to watch for new addresses. They are looked for with each description, whatever is chosen.
#[derive(Debug, Copy, Clone, PartialEq, Eq)]
pub enum ContinualGatheringPolicy {
    /// Only at the start.
    GatherOnce,
    /// All the time.
    GatherContinually,
}

/// Which paths may be used.
#[derive(Debug, Copy, Clone, PartialEq, Eq)]
pub enum IceTransportsType {
    /// Only through a TURN server; not supported.
    Relay,
    /// All but direct ones; not supported.
    NoHost,
    /// All.
    All,
}

/// What a connection is made with.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RtcConfiguration {
    /// STUN and TURN servers; not used yet.
    pub ice_servers: Vec<IceServer>,
    /// Whether to watch for new addresses.
    pub continual_gathering_policy: ContinualGatheringPolicy,
    /// Which paths may be used.
    pub ice_transport_type: IceTransportsType,
    /// SCTP's handshake travels inside the SDP where the peer can do that too: one round trip less.
    pub enable_sctp_snap: bool,
}

impl Default for RtcConfiguration {
    fn default() -> Self {
        Self {
            ice_servers: Vec::new(),
            continual_gathering_policy: ContinualGatheringPolicy::GatherContinually,
            ice_transport_type: IceTransportsType::All,
            enable_sctp_snap: false,
        }
    }
}

/// Makes connections and tracks. Cheap: all factories share one runtime.
#[derive(Clone, Default)]
pub struct PeerConnectionFactory {
    audio_devices: Arc<AudioDeviceFlags>,
}

impl fmt::Debug for PeerConnectionFactory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PeerConnectionFactory").finish_non_exhaustive()
    }
}

impl PeerConnectionFactory {
    /// The same as the default: the option concerns video, which is not rendered here.
    pub fn with_zero_playout_delay() -> Self {
        Self::default()
    }

    /// The same as the default: the first option concerns video; of the second, the SCTP part is chosen by
    /// [`RtcConfiguration::enable_sctp_snap`] and the DTLS part is not supported (peers then do without it).
    pub fn with_options(_zero_playout_delay: bool, _enable_warp: bool) -> Self {
        Self::default()
    }

    /// Makes a connection. Inside a tokio runtime its callbacks run there, else on this crate's own.
    pub fn create_peer_connection(&self, config: RtcConfiguration) -> Result<PeerConnection, RtcError> {
        PeerConnection::new(&config)
    }

    /// What can be sent.
    pub fn get_rtp_sender_capabilities(&self, media_type: MediaType) -> RtpCapabilities {
        RtpCapabilities { codecs: codecs(media_type), header_extensions: Vec::new() }
    }

    /// What can be received.
    pub fn get_rtp_receiver_capabilities(&self, media_type: MediaType) -> RtpCapabilities {
        self.get_rtp_sender_capabilities(media_type)
    }

    pub(crate) fn new_audio_track(&self, label: &str, source: NativeAudioSource) -> RtcAudioTrack {
        RtcAudioTrack::local(label, Some(source))
    }

    /// A track of a microphone that does not exist: it sends nothing.
    pub(crate) fn new_silent_audio_track(&self, label: &str) -> RtcAudioTrack {
        RtcAudioTrack::local(label, None)
    }

    pub(crate) fn audio_devices(&self) -> &AudioDeviceFlags {
        &self.audio_devices
    }
}

fn codecs(media_type: MediaType) -> Vec<RtpCodecCapability> {
    let codec = |mime_type: &str, clock_rate, channels, fmtp: Option<&str>| RtpCodecCapability {
        channels,
        clock_rate: Some(clock_rate),
        mime_type: mime_type.to_owned(),
        sdp_fmtp_line: fmtp.map(str::to_owned),
    };
    match media_type {
        MediaType::Audio => vec![
            codec("audio/opus", 48_000, Some(2), Some("minptime=10;useinbandfec=1")),
            codec("audio/red", 48_000, Some(2), None),
        ],
        // Named so that lines for it are made; frames are dropped (see `video_source`).
        MediaType::Video => {
            vec![codec("video/VP8", 90_000, None, None), codec("video/H264", 90_000, None, None)]
        }
        MediaType::Data | MediaType::Unsupported => Vec::new(),
    }
}

/// What exists only outside browsers.
pub mod native {
    pub use crate::audio_devices::PeerConnectionFactoryExt;
}
