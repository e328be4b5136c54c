//! [`MediaStreamTrack`]: an audio or a video track.

use crate::{audio_track::RtcAudioTrack, video_track::RtcVideoTrack};

/// Whether a track can still carry anything.
#[derive(Debug, Copy, Clone, PartialEq, Eq)]
pub enum RtcTrackState {
    /// It can.
    Live,
    /// Its connection is closed.
    Ended,
}

/// A track of either kind.
#[derive(Debug, Clone)]
pub enum MediaStreamTrack {
    /// Pictures.
    Video(RtcVideoTrack),
    /// Sound.
    Audio(RtcAudioTrack),
}

impl MediaStreamTrack {
    enum_dispatch!(
        [Video, Audio];
        /// The track's id.
        pub fn id(self: &Self) -> String;
        /// Whether it is enabled; a disabled track carries silence.
        pub fn enabled(self: &Self) -> bool;
        /// Enables or disables it. Returns whether that changed anything.
        pub fn set_enabled(self: &Self, enabled: bool) -> bool;
        /// Whether it is live.
        pub fn state(self: &Self) -> RtcTrackState;
    );
}

impl From<RtcAudioTrack> for MediaStreamTrack {
    fn from(track: RtcAudioTrack) -> Self {
        Self::Audio(track)
    }
}

impl From<RtcVideoTrack> for MediaStreamTrack {
    fn from(track: RtcVideoTrack) -> Self {
        Self::Video(track)
    }
}
