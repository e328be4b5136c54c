//! [`RtpReceiver`]: the receiving half of a transceiver.

use std::{
    fmt,
    sync::{Arc, Weak},
};

use crate::{
    RtcError, driver::Shared, media_stream::MediaStream, media_stream_track::MediaStreamTrack,
    rtp_parameters::RtpParameters, rtp_transceiver::TransceiverHandle, stats::RtcStats,
};

/// The receiving half of a transceiver.
#[derive(Clone)]
pub struct RtpReceiver {
    shared: Weak<Shared>,
    handle: Arc<TransceiverHandle>,
}

impl RtpReceiver {
    pub(crate) fn of(shared: Weak<Shared>, handle: Arc<TransceiverHandle>) -> Self {
        Self { shared, handle }
    }

    /// The track that arrives here. It exists from the start, silent until the peer sends.
    pub fn track(&self) -> Option<MediaStreamTrack> {
        Some(self.handle.remote_track.clone())
    }

    /// Ids of the streams that the peer's track belongs to now.
    pub fn stream_ids(&self) -> Vec<String> {
        let Some(shared) = self.shared.upgrade() else { return Vec::new() };
        shared.read(|connection| {
            let transceiver = connection.transceiver(self.handle.key);
            transceiver.and_then(|t| t.remote_stream_id()).map(str::to_owned).into_iter().collect()
        })
    }

    /// The streams that the peer's track belongs to now.
    pub fn streams(&self) -> Vec<MediaStream> {
        let ids = self.stream_ids().into_iter();
        ids.map(|id| MediaStream::new(id, self.handle.remote_track.clone())).collect()
    }

    /// What is known of its work so far.
    pub async fn get_stats(&self) -> Result<Vec<RtcStats>, RtcError> {
        let shared =
            self.shared.upgrade().ok_or_else(|| RtcError::invalid_state("the connection is closed"))?;
        Ok(shared.statistics(Some(self.handle.key)))
    }

    /// What is received, as far as it is known: the codec.
    pub fn parameters(&self) -> RtpParameters {
        let shared = self.shared.upgrade();
        shared.map(|shared| shared.rtp_parameters(self.handle.key)).unwrap_or_default()
    }

    /// From now on the track is silent: what arrives is encrypted in a way that is not known here.
    pub(crate) fn refuse_plaintext(&self, reason: &str) {
        log::error!("receiving is stopped: {reason}");
        if let MediaStreamTrack::Audio(track) = &self.handle.remote_track {
            track.refuse();
        }
    }
}

impl fmt::Debug for RtpReceiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RtpReceiver").field("key", &self.handle.key).finish_non_exhaustive()
    }
}
