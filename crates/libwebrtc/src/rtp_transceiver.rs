//! [`RtpTransceiver`]: one media line, with what we send on it and what the peer sends.

use std::{
    fmt,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
};

use parking_lot::Mutex;

use crate::{
    RtcError,
    audio_track::{AudioFeed, RtcAudioTrack},
    driver::Shared,
    engine::TransceiverKey,
    media_stream_track::MediaStreamTrack,
    native::create_random_uuid,
    rtp_parameters::{RtpCodecCapability, RtpEncodingParameters},
    rtp_receiver::RtpReceiver,
    rtp_sender::RtpSender,
    video_track::RtcVideoTrack,
};

/// How a transceiver begins.
#[derive(Debug, Clone)]
pub struct RtpTransceiverInit {
    /// Which ways media is to flow.
    pub direction: RtpTransceiverDirection,
    /// The streams that the sent track belongs to; the first one counts.
    pub stream_ids: Vec<String>,
    /// Limits of what is sent. For audio the bitrate of the first one counts.
    pub send_encodings: Vec<RtpEncodingParameters>,
}

/// Which ways media flows, from our point of view.
#[derive(Debug, Copy, Clone, PartialEq, Eq)]
pub enum RtpTransceiverDirection {
    /// Both ways.
    SendRecv,
    /// From us to the peer.
    SendOnly,
    /// From the peer to us.
    RecvOnly,
    /// Not at all, for now.
    Inactive,
    /// Never again.
    Stopped,
}

/// What all handles on a transceiver share.
pub(crate) struct TransceiverHandle {
    pub(crate) key: TransceiverKey,
    pub(crate) remote_track: MediaStreamTrack,
    pub(crate) local: Mutex<Option<LocalMedia>>,
    /// End-to-end encryption was asked for and is not there: nothing may leave in the clear.
    pub(crate) refuses_to_send: AtomicBool,
}

/// A track on its way to the peer.
pub(crate) struct LocalMedia {
    pub(crate) track: MediaStreamTrack,
    /// Keeps the path from the audio source alive; its source holds it weakly.
    pub(crate) _feed: Option<Arc<AudioFeed>>,
}

impl TransceiverHandle {
    pub(crate) fn new(key: TransceiverKey, video: bool) -> Arc<Self> {
        let id = create_random_uuid();
        let remote_track =
            if video { RtcVideoTrack::new(&id).into() } else { RtcAudioTrack::remote(&id).into() };
        Arc::new(Self { key, remote_track, local: Mutex::new(None), refuses_to_send: AtomicBool::new(false) })
    }

    pub(crate) fn refuses_to_send(&self) -> bool {
        self.refuses_to_send.load(Ordering::Relaxed)
    }

    /// The connection is closed: nothing flows any more.
    pub(crate) fn end(&self) {
        *self.local.lock() = None;
        match &self.remote_track {
            MediaStreamTrack::Audio(track) => track.end(),
            MediaStreamTrack::Video(track) => track.end(),
        }
    }
}

/// A handle on one transceiver of a connection.
#[derive(Clone)]
pub struct RtpTransceiver {
    shared: Weak<Shared>,
    handle: Arc<TransceiverHandle>,
}

impl RtpTransceiver {
    pub(crate) fn of(shared: &Arc<Shared>, handle: Arc<TransceiverHandle>) -> Self {
        Self { shared: Arc::downgrade(shared), handle }
    }

    /// Its name in descriptions, once it has one.
    pub fn mid(&self) -> Option<String> {
        self.read(|t| t.mid.map(|mid| mid.to_string())).flatten()
    }

    /// What was last agreed with the peer.
    pub fn current_direction(&self) -> Option<RtpTransceiverDirection> {
        self.read(|t| t.current_direction).flatten()
    }

    /// What we want.
    pub fn direction(&self) -> RtpTransceiverDirection {
        self.read(|t| t.direction).unwrap_or(RtpTransceiverDirection::Stopped)
    }

    /// Its sending half.
    pub fn sender(&self) -> RtpSender {
        RtpSender::of(self.shared.clone(), self.handle.clone())
    }

    /// Its receiving half.
    pub fn receiver(&self) -> RtpReceiver {
        RtpReceiver::of(self.shared.clone(), self.handle.clone())
    }

    /// Accepted without effect: audio is always Opus, and video is not sent.
    pub fn set_codec_preferences(&self, _codecs: Vec<RtpCodecCapability>) -> Result<(), RtcError> {
        Ok(())
    }

    /// Ends it; the peer learns of it with the next offer.
    pub fn stop(&self) -> Result<(), RtcError> {
        let shared =
            self.shared.upgrade().ok_or_else(|| RtcError::invalid_state("the connection is closed"))?;
        *self.handle.local.lock() = None;
        shared.call(|connection| {
            if let Some(transceiver) = connection.transceiver_mut(self.handle.key) {
                transceiver.direction = RtpTransceiverDirection::Stopped;
            }
        })?;
        shared.negotiation_needed();
        Ok(())
    }

    fn read<R>(&self, read: impl FnOnce(&crate::engine::Transceiver) -> R) -> Option<R> {
        let shared = self.shared.upgrade()?;
        shared.read(|connection| connection.transceiver(self.handle.key).map(read))
    }
}

impl fmt::Debug for RtpTransceiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RtpTransceiver").field("key", &self.handle.key).finish_non_exhaustive()
    }
}
