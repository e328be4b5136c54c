//! Pictures: [`VideoFrame`] and the buffers it can hold.
//!
//! The types are real so that code written for the original crate compiles and runs, but no video is encoded
//! or decoded here: a video source drops what it is given (see [`video_source`](crate::video_source)), and no
//! frame ever comes out of a video stream. Buffers that only a decoder produces, conversions between formats
//! and scaling do not exist.

mod buffers;

use std::fmt;

pub use self::buffers::{I010Buffer, I420Buffer, I422Buffer, I444Buffer, NV12Buffer};
use crate::video_source::VideoResolution;

/// By how much a picture has to be turned, clockwise, to stand upright.
#[derive(Debug, Copy, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum VideoRotation {
    VideoRotation0 = 0,
    VideoRotation90 = 90,
    VideoRotation180 = 180,
    VideoRotation270 = 270,
}

/// The order of the bytes of a packed pixel.
#[derive(Debug, Copy, Clone, PartialEq, Eq)]
#[allow(missing_docs, clippy::upper_case_acronyms, reason = "the common names of the formats")]
pub enum VideoFormatType {
    ARGB,
    BGRA,
    ABGR,
    RGBA,
}

/// How a buffer stores its picture.
#[derive(Debug, Copy, Clone, PartialEq, Eq)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the common names of the formats")]
pub enum VideoBufferType {
    Native,
    I420,
    I420A,
    I422,
    I444,
    I010,
    NV12,
}

/// What an application attaches to a frame. Dropped together with the frame.
#[derive(Debug, Clone)]
pub struct FrameMetadata {
    /// When the picture was taken, in microseconds since the Unix epoch.
    pub user_timestamp: Option<u64>,
    /// A number of the application's own.
    pub frame_id: Option<u32>,
    /// Bytes of the application's own.
    pub user_data: Option<Vec<u8>>,
}

/// The codec of a frame that is already encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the common names of the codecs")]
pub enum EncodedVideoCodec {
    H264,
    H265,
    VP8,
    VP9,
    AV1,
}

/// Whether an encoded frame can be decoded on its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EncodedFrameType {
    /// It can.
    Key,
    /// It needs the frames before it.
    Delta,
}

/// A frame that is already encoded.
#[derive(Debug, Clone)]
pub struct EncodedVideoFrame<'a> {
    /// Its codec.
    pub codec: EncodedVideoCodec,
    /// Its bytes.
    pub payload: &'a [u8],
    /// When the picture was taken, in microseconds.
    pub timestamp_us: i64,
    /// Whether it stands on its own.
    pub frame_type: EncodedFrameType,
    /// Its size.
    pub resolution: VideoResolution,
    /// What the application attached.
    pub frame_metadata: Option<FrameMetadata>,
}

/// A picture with its time.
#[derive(Debug)]
pub struct VideoFrame<T>
where
    T: AsRef<dyn VideoBuffer>,
{
    /// How it has to be turned.
    pub rotation: VideoRotation,
    /// When it was taken, in microseconds; 0 means now.
    pub timestamp_us: i64,
    /// What the application attached.
    pub frame_metadata: Option<FrameMetadata>,
    /// The picture itself.
    pub buffer: T,
}

impl<T: AsRef<dyn VideoBuffer>> VideoFrame<T> {
    /// A frame of now, with nothing attached.
    pub fn new(rotation: VideoRotation, buffer: T) -> Self {
        Self { rotation, timestamp_us: 0, frame_metadata: None, buffer }
    }
}

/// A buffer of any kind.
pub type BoxVideoBuffer = Box<dyn VideoBuffer>;
/// A frame with a buffer of any kind.
pub type BoxVideoFrame = VideoFrame<BoxVideoBuffer>;

mod sealed {
    /// Only this crate can make kinds of buffers.
    pub trait Sealed: Send + Sync {}
}

/// A picture in memory, of one of the kinds in [`VideoBufferType`].
pub trait VideoBuffer: sealed::Sealed + fmt::Debug {
    /// Pixels per row.
    fn width(&self) -> u32;
    /// Number of rows.
    fn height(&self) -> u32;
    /// How the picture is stored.
    fn buffer_type(&self) -> VideoBufferType;

    /// The buffer itself if it is of this kind.
    fn as_i420(&self) -> Option<&I420Buffer> {
        None
    }
    /// The buffer itself if it is of this kind.
    fn as_i422(&self) -> Option<&I422Buffer> {
        None
    }
    /// The buffer itself if it is of this kind.
    fn as_i444(&self) -> Option<&I444Buffer> {
        None
    }
    /// The buffer itself if it is of this kind.
    fn as_i010(&self) -> Option<&I010Buffer> {
        None
    }
    /// The buffer itself if it is of this kind.
    fn as_nv12(&self) -> Option<&NV12Buffer> {
        None
    }
}
