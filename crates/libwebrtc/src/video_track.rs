//! [`RtcVideoTrack`]: a video track of ours or of another participant, as a name with a switch.
//!
//! No picture passes through it; it exists so that video in a room does no harm.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use parking_lot::Mutex;

use crate::{media_stream_track::RtcTrackState, native::packet_trailer::PacketTrailerHandler};

/// A video track. Clones are the same track.
#[derive(Clone)]
pub struct RtcVideoTrack {
    shared: Arc<Shared>,
}

struct Shared {
    id: String,
    enabled: AtomicBool,
    ended: AtomicBool,
    packet_trailer_handler: Mutex<Option<PacketTrailerHandler>>,
}

impl RtcVideoTrack {
    /// A live, enabled track.
    pub(crate) fn new(id: &str) -> Self {
        Self {
            shared: Arc::new(Shared {
                id: id.to_owned(),
                enabled: AtomicBool::new(true),
                ended: AtomicBool::new(false),
                packet_trailer_handler: Mutex::new(None),
            }),
        }
    }

    /// Marks the track as over, for good.
    pub(crate) fn end(&self) {
        self.shared.ended.store(true, Ordering::Release);
    }

    /// Its name.
    pub fn id(&self) -> String {
        self.shared.id.clone()
    }

    /// Whether it is switched on.
    pub fn enabled(&self) -> bool {
        self.shared.enabled.load(Ordering::Acquire)
    }

    /// Switches it; whether that changed anything.
    pub fn set_enabled(&self, enabled: bool) -> bool {
        self.shared.enabled.swap(enabled, Ordering::AcqRel) != enabled
    }

    /// Whether it is over.
    pub fn state(&self) -> RtcTrackState {
        if self.shared.ended.load(Ordering::Acquire) { RtcTrackState::Ended } else { RtcTrackState::Live }
    }

    /// Keeps the handler for [`Self::packet_trailer_handler`].
    pub fn set_packet_trailer_handler(&self, handler: PacketTrailerHandler) {
        *self.shared.packet_trailer_handler.lock() = Some(handler);
    }

    /// The handler that was set last.
    pub fn packet_trailer_handler(&self) -> Option<PacketTrailerHandler> {
        self.shared.packet_trailer_handler.lock().clone()
    }
}

impl fmt::Debug for RtcVideoTrack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RtcVideoTrack")
            .field("id", &self.shared.id)
            .field("enabled", &self.enabled())
            .field("state", &self.state())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_share_the_switch_and_the_end() {
        let track = RtcVideoTrack::new("camera");
        let clone = track.clone();
        assert!(track.enabled() && track.state() == RtcTrackState::Live);
        assert!(clone.set_enabled(false), "it was on");
        assert!(!clone.set_enabled(false), "it was off already");
        clone.end();
        assert!(!track.enabled() && track.state() == RtcTrackState::Ended);
        assert_eq!(track.id(), "camera");
    }
}
