//! [`RtpSender`]: the sending half of a transceiver.

use std::{
    fmt,
    sync::{Arc, Weak, atomic::Ordering},
};

use crate::{
    RtcError,
    audio_track::AudioFeed,
    driver::Shared,
    media_stream_track::MediaStreamTrack,
    rtp_parameters::RtpParameters,
    rtp_transceiver::{LocalMedia, TransceiverHandle},
    stats::RtcStats,
};

/// How video would be encoded. Nothing here encodes video; the names exist for `livekit`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum VideoEncoderBackend {
    /// Whatever there is.
    #[default]
    Auto,
    /// In software.
    Software,
    /// In hardware.
    Hardware,
    /// By NVENC.
    Nvenc,
    /// By VAAPI.
    Vaapi,
    /// By Apple's video toolbox.
    VideoToolbox,
    /// Not at all: frames come encoded.
    PreEncoded,
}

impl VideoEncoderBackend {
    /// The backends that exist: none.
    pub fn list_available() -> impl IntoIterator<Item = VideoEncoderBackend> {
        []
    }
}

/// The sending half of a transceiver.
#[derive(Clone)]
pub struct RtpSender {
    shared: Weak<Shared>,
    handle: Arc<TransceiverHandle>,
}

impl RtpSender {
    pub(crate) fn of(shared: Weak<Shared>, handle: Arc<TransceiverHandle>) -> Self {
        Self { shared, handle }
    }

    /// The track that is sent.
    pub fn track(&self) -> Option<MediaStreamTrack> {
        self.handle.local.lock().as_ref().map(|local| local.track.clone())
    }

    /// What is known of its work so far.
    pub async fn get_stats(&self) -> Result<Vec<RtcStats>, RtcError> {
        let shared = self.shared.upgrade().ok_or_else(gone)?;
        Ok(shared.statistics(Some(self.handle.key)))
    }

    /// Sends another track from now on, or none. Needs no new offer.
    pub fn set_track(&self, track: Option<MediaStreamTrack>) -> Result<(), RtcError> {
        let shared = self.shared.upgrade().ok_or_else(gone)?;
        let local = match track {
            Some(track) => {
                let feed = match &track {
                    MediaStreamTrack::Audio(audio) => AudioFeed::connect(&shared, &self.handle, audio)?,
                    MediaStreamTrack::Video(_) => None,
                };
                Some(LocalMedia { track, _feed: feed })
            }
            None => None,
        };
        *self.handle.local.lock() = local;
        Ok(())
    }

    /// What is sent and how, as far as it can be chosen here: the codec.
    pub fn parameters(&self) -> RtpParameters {
        let shared = self.shared.upgrade();
        shared.map(|shared| shared.rtp_parameters(self.handle.key)).unwrap_or_default()
    }

    /// Accepted without effect: bitrate and codec follow what the peer asks for.
    pub fn set_parameters(&self, _parameters: RtpParameters) -> Result<(), RtcError> {
        Ok(())
    }

    /// Accepted without effect: video is not sent.
    pub fn set_video_encoder_backend(&self, _backend: VideoEncoderBackend) {}

    /// From now on nothing is sent: encryption was asked for that does not exist here.
    pub(crate) fn refuse_plaintext(&self, reason: &str) {
        log::error!("sending is stopped: {reason}");
        self.handle.refuses_to_send.store(true, Ordering::Relaxed);
    }

    /// Takes the track away and says so in the next offer.
    pub(crate) fn detach(&self, owner: &Arc<Shared>) -> Result<(), RtcError> {
        if !self.shared.upgrade().is_some_and(|shared| Arc::ptr_eq(&shared, owner)) {
            return Err(RtcError::invalid_state("the sender belongs to another connection"));
        }
        *self.handle.local.lock() = None;
        owner.call(|connection| {
            if let Some(transceiver) = connection.transceiver_mut(self.handle.key) {
                transceiver.stop_sending();
            }
        })?;
        owner.negotiation_needed();
        Ok(())
    }
}

fn gone() -> RtcError {
    RtcError::invalid_state("the connection is closed")
}

impl fmt::Debug for RtpSender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RtpSender").field("key", &self.handle.key).finish_non_exhaustive()
    }
}
