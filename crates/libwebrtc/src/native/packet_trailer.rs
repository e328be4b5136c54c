//! Trailers on encoded video frames: data of the application's that travels with a picture.
//!
//! There is no video here, so there are no trailers: a handler can be made and switched, which `livekit` does
//! for video tracks, but it stores nothing and no observer is ever called.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use crate::{
    peer_connection_factory::PeerConnectionFactory, rtp_receiver::RtpReceiver, rtp_sender::RtpSender,
};

/// How far a sent frame has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PublishTimingStage {
    /// Given to the encoder.
    EncoderUpload,
    /// Out of the encoder.
    EncoderOutput,
    /// Given to the packetizer.
    WebrtcPacketize,
}

/// How far a received frame has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SubscribeTimingStage {
    /// Put together from its packets.
    WebrtcReceive,
    /// Given to the decoder.
    DecoderUpload,
    /// Out of the decoder.
    DecoderOutput,
}

/// A sent frame reached a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PublishTimingEvent {
    /// Which stage.
    pub stage: PublishTimingStage,
    /// When, in microseconds since the Unix epoch.
    pub timestamp_us: u64,
    /// When the picture was taken, in microseconds since the Unix epoch.
    pub capture_timestamp_us: u64,
    /// The application's number for the frame.
    pub frame_id: Option<u32>,
}

/// A received frame reached a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SubscribeTimingEvent {
    /// Which stage.
    pub stage: SubscribeTimingStage,
    /// When, in microseconds since the Unix epoch.
    pub timestamp_us: u64,
    /// When the picture was taken, in microseconds since the Unix epoch.
    pub capture_timestamp_us: u64,
    /// The application's number for the frame.
    pub frame_id: Option<u32>,
}

/// Told about sent frames.
pub type PublishTimingObserver = Arc<dyn Fn(PublishTimingEvent) + Send + Sync + 'static>;
/// Told about received frames.
pub type SubscribeTimingObserver = Arc<dyn Fn(SubscribeTimingEvent) + Send + Sync + 'static>;

/// A switch without a lamp. Clones are the same handler.
#[derive(Clone)]
pub struct PacketTrailerHandler {
    enabled: Arc<AtomicBool>,
}

impl PacketTrailerHandler {
    fn new() -> Self {
        Self { enabled: Arc::new(AtomicBool::new(true)) }
    }

    /// Remembers the switch.
    pub fn set_enabled(&self, enabled: bool) {
        self.enabled.store(enabled, Ordering::Release);
    }

    /// The switch.
    pub fn enabled(&self) -> bool {
        self.enabled.load(Ordering::Acquire)
    }

    /// Timestamp, frame number and data that came with a frame: never any.
    pub fn lookup_frame_metadata(&self, _rtp_timestamp: u32) -> Option<(u64, u32, Vec<u8>)> {
        None
    }

    /// Does nothing: the frame is not sent either.
    pub fn store_frame_metadata(
        &self,
        _capture_timestamp_us: i64,
        _user_timestamp: u64,
        _frame_id: u32,
        _user_data: &[u8],
    ) {
    }

    /// Does nothing: no frame reaches a stage.
    pub fn set_publish_timing_observer(&self, _observer: Option<PublishTimingObserver>) {}

    /// Does nothing: no frame reaches a stage.
    pub fn set_subscribe_timing_observer(&self, _observer: Option<SubscribeTimingObserver>) {}
}

/// A handler for what the sender sends.
pub fn create_sender_handler(
    _peer_factory: &PeerConnectionFactory,
    _sender: &RtpSender,
) -> PacketTrailerHandler {
    PacketTrailerHandler::new()
}

/// A handler for what the receiver receives.
pub fn create_receiver_handler(
    _peer_factory: &PeerConnectionFactory,
    _receiver: &RtpReceiver,
) -> PacketTrailerHandler {
    PacketTrailerHandler::new()
}
