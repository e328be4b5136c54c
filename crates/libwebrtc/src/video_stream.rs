//! Where the pictures of a track would come out: [`NativeVideoStream`](native::NativeVideoStream).
//!
//! This crate decodes no video, so the stream waits until it is closed and yields nothing.

/// The stream that an application reads.
pub mod native {
    use std::{
        fmt,
        pin::Pin,
        sync::Once,
        task::{Context, Poll, Waker},
    };

    use tokio_stream::Stream;

    use crate::{
        native::packet_trailer::PacketTrailerHandler, video_frame::BoxVideoFrame, video_track::RtcVideoTrack,
    };

    /// How frames are queued; without effect.
    #[derive(Clone, Debug, Default)]
    pub struct NativeVideoStreamOptions {
        /// The longest queue; without effect.
        pub queue_size_frames: Option<usize>,
    }

    /// Yields no frame, and ends when it is closed.
    pub struct NativeVideoStream {
        track: RtcVideoTrack,
        closed: bool,
        reader: Option<Waker>,
    }

    impl NativeVideoStream {
        /// A stream of the track's pictures. The first one in a process logs that none will come.
        pub fn new(video_track: RtcVideoTrack) -> Self {
            static WARNING: Once = Once::new();
            WARNING.call_once(|| {
                log::warn!("video is not received: this libwebrtc has no video decoder, no frame will come");
            });
            Self { track: video_track, closed: false, reader: None }
        }

        /// Like [`Self::new`].
        pub fn with_options(video_track: RtcVideoTrack, _options: NativeVideoStreamOptions) -> Self {
            Self::new(video_track)
        }

        /// Does nothing: there are no frames to look trailers up for.
        pub fn set_packet_trailer_handler(&self, _handler: PacketTrailerHandler) {}

        /// The track it was made for.
        pub fn track(&self) -> RtcVideoTrack {
            self.track.clone()
        }

        /// Ends the stream.
        pub fn close(&mut self) {
            self.closed = true;
            if let Some(reader) = self.reader.take() {
                reader.wake();
            }
        }
    }

    impl Stream for NativeVideoStream {
        type Item = BoxVideoFrame;

        fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
            if self.closed {
                return Poll::Ready(None);
            }
            self.reader = Some(context.waker().clone());
            Poll::Pending
        }
    }

    impl fmt::Debug for NativeVideoStream {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.debug_struct("NativeVideoStream").field("track", &self.track).finish_non_exhaustive()
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn the_stream_waits_until_it_is_closed() {
            let mut stream = NativeVideoStream::new(RtcVideoTrack::new("camera"));
            let mut context = Context::from_waker(Waker::noop());
            assert!(Pin::new(&mut stream).poll_next(&mut context).is_pending());
            stream.close();
            assert!(matches!(Pin::new(&mut stream).poll_next(&mut context), Poll::Ready(None)));
        }
    }
}
