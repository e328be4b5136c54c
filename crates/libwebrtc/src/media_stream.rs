//! [`MediaStream`]: a remote stream id and the track in it.

use std::fmt;

use crate::{audio_track::RtcAudioTrack, media_stream_track::MediaStreamTrack, video_track::RtcVideoTrack};

/// A stream that the peer groups its tracks under. LiveKit puts the participant's and the track's id into it.
#[derive(Clone)]
pub struct MediaStream {
    id: String,
    track: MediaStreamTrack,
}

impl MediaStream {
    pub(crate) fn new(id: String, track: MediaStreamTrack) -> Self {
        Self { id, track }
    }

    /// The stream's id as the peer gave it.
    pub fn id(&self) -> String {
        self.id.clone()
    }

    /// Its audio tracks.
    pub fn audio_tracks(&self) -> Vec<RtcAudioTrack> {
        match &self.track {
            MediaStreamTrack::Audio(track) => vec![track.clone()],
            MediaStreamTrack::Video(_) => Vec::new(),
        }
    }

    /// Its video tracks.
    pub fn video_tracks(&self) -> Vec<RtcVideoTrack> {
        match &self.track {
            MediaStreamTrack::Video(track) => vec![track.clone()],
            MediaStreamTrack::Audio(_) => Vec::new(),
        }
    }
}

impl fmt::Debug for MediaStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MediaStream").field("id", &self.id).field("track", &self.track).finish()
    }
}
