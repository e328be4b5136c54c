//! Where an application puts pictures in: [`NativeVideoSource`](native::NativeVideoSource).
//!
//! This crate sends no video. A source takes every frame, counts it and drops it; the first one in a process
//! is answered by a warning in the log, so that nobody waits for a picture without a hint.

/// The size of a picture in pixels.
#[derive(Debug, Clone)]
pub struct VideoResolution {
    /// Pixels per row.
    pub width: u32,
    /// Number of rows.
    pub height: u32,
}

impl Default for VideoResolution {
    /// 720p.
    fn default() -> Self {
        Self { width: 1280, height: 720 }
    }
}

/// How fast a source of encoded frames is asked to send. Never asked here.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EncodedRateControl {
    /// Bits per second.
    pub target_bitrate_bps: u64,
    /// Frames per second.
    pub framerate_fps: f64,
}

/// A video source of any kind; there is one.
#[non_exhaustive]
#[derive(Debug, Clone)]
pub enum RtcVideoSource {
    /// Frames are put in by the application.
    Native(native::NativeVideoSource),
}

impl RtcVideoSource {
    enum_dispatch!(
        [Native];
        /// The size of the pictures, as announced when the source was made.
        pub fn video_resolution(self: &Self) -> VideoResolution;
    );
}

/// The source that an application feeds.
pub mod native {
    use std::{
        fmt,
        sync::{
            Arc, Once,
            atomic::{AtomicU64, Ordering},
        },
    };

    use super::{EncodedRateControl, VideoResolution};
    use crate::{
        native::packet_trailer::PacketTrailerHandler,
        video_frame::{EncodedVideoFrame, VideoBuffer, VideoFrame},
    };

    /// Takes frames and drops them. Clones are the same source.
    #[derive(Clone)]
    pub struct NativeVideoSource {
        resolution: VideoResolution,
        dropped_frames: Arc<AtomicU64>,
    }

    impl NativeVideoSource {
        /// A source of pictures of that size.
        pub fn new(resolution: VideoResolution, _is_screencast: bool) -> Self {
            Self { resolution, dropped_frames: Arc::default() }
        }

        /// A source of frames that are already encoded. It drops them too.
        pub fn new_encoded(resolution: VideoResolution) -> Self {
            Self::new(resolution, false)
        }

        /// Drops the frame and says so: always `false`.
        pub fn capture_frame<T: AsRef<dyn VideoBuffer>>(&self, _frame: &VideoFrame<T>) -> bool {
            self.drop_frame();
            false
        }

        /// Drops the frame and says so: always `false`.
        pub fn capture_encoded_frame(&self, _frame: &EncodedVideoFrame<'_>) -> bool {
            self.drop_frame();
            false
        }

        /// Whether somebody needs a key frame: nobody does.
        pub fn take_keyframe_request(&self) -> bool {
            false
        }

        /// Whether another rate is asked for: never.
        pub fn take_rate_control_request(&self) -> Option<EncodedRateControl> {
            None
        }

        /// Does nothing: frames that are not sent carry no trailers.
        pub fn set_packet_trailer_handler(&self, _handler: PacketTrailerHandler) {}

        /// The size of the pictures, as announced when the source was made.
        pub fn video_resolution(&self) -> VideoResolution {
            self.resolution.clone()
        }

        fn drop_frame(&self) {
            static WARNING: Once = Once::new();
            WARNING.call_once(|| {
                log::warn!("video is not sent: this libwebrtc has no video encoder, all frames are dropped");
            });
            self.dropped_frames.fetch_add(1, Ordering::Relaxed);
        }
    }

    impl Default for NativeVideoSource {
        fn default() -> Self {
            Self::new(VideoResolution::default(), false)
        }
    }

    impl fmt::Debug for NativeVideoSource {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.debug_struct("NativeVideoSource")
                .field("resolution", &self.resolution)
                .field("dropped_frames", &self.dropped_frames.load(Ordering::Relaxed))
                .finish()
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;
        use crate::video_frame::{I420Buffer, VideoRotation};

        #[test]
        fn frames_are_dropped_and_counted() {
            let source = NativeVideoSource::new(VideoResolution { width: 4, height: 2 }, false);
            let frame = VideoFrame::new(VideoRotation::VideoRotation0, I420Buffer::new_black(4, 2));
            assert!(!source.clone().capture_frame(&frame));
            assert!(!source.capture_frame(&frame));
            assert!(format!("{source:?}").contains("dropped_frames: 2"), "{source:?}");
            assert_eq!(source.video_resolution().width, 4);
        }
    }
}
