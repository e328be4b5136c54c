//! The names most users need: `use libwebrtc::prelude::*`, the same list as in the original crate.
//!
//! Missing from it: `I420ABuffer`, which only a video decoder makes.

pub use crate::{
    MediaType, RtcError, RtcErrorType,
    audio_frame::AudioFrame,
    audio_source::{AudioSourceOptions, RtcAudioSource},
    audio_track::RtcAudioTrack,
    data_channel::{DataBuffer, DataChannel, DataChannelError, DataChannelInit, DataChannelState},
    ice_candidate::IceCandidate,
    media_stream::MediaStream,
    media_stream_track::{MediaStreamTrack, RtcTrackState},
    peer_connection::{
        AnswerOptions, BitrateSettings, IceConnectionState, IceGatheringState, OfferOptions, PeerConnection,
        PeerConnectionState, SignalingState,
    },
    peer_connection_factory::{
        ContinualGatheringPolicy, IceServer, IceTransportsType, PeerConnectionFactory, RtcConfiguration,
    },
    rtp_parameters::*,
    rtp_receiver::RtpReceiver,
    rtp_sender::{RtpSender, VideoEncoderBackend},
    rtp_transceiver::{RtpTransceiver, RtpTransceiverDirection, RtpTransceiverInit},
    session_description::{SdpType, SessionDescription},
    video_frame::{
        BoxVideoBuffer, BoxVideoFrame, I010Buffer, I420Buffer, I422Buffer, I444Buffer, NV12Buffer,
        VideoBuffer, VideoBufferType, VideoFormatType, VideoFrame, VideoRotation,
    },
    video_source::{RtcVideoSource, VideoResolution},
    video_track::RtcVideoTrack,
};
