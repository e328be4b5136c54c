//! A pure-Rust stand-in for LiveKit's `libwebrtc` crate: the same public API, on [`str0m`] instead of Google's
//! C++ library. The unmodified `livekit` crate runs on it through a `[patch.crates-io]` entry.
//!
//! - The modules with the original's names are a thin façade: handles, options, callbacks.
//! - `engine` is one connection without sockets or a clock; tests drive it in virtual time.
//! - `driver` gives engines sockets, time and a task to run in.
//! - `audio` is everything between PCM and RTP payloads.
//!
//! What is not supported answers with an error that says so; see the README for the list.

#![allow(
    clippy::unused_async,
    clippy::unused_self,
    clippy::needless_pass_by_value,
    reason = "the public signatures are those of the original crate"
)]

mod audio;
mod audio_devices;
mod callback;
mod driver;
mod engine;
#[macro_use]
mod enum_dispatch;

pub mod audio_frame;
pub mod audio_source;
pub mod audio_stream;
pub mod audio_track;
pub mod data_channel;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
pub mod ice_candidate;
pub mod media_stream;
pub mod media_stream_track;
pub mod native;
pub mod peer_connection;
pub mod peer_connection_factory;
pub mod prelude;
pub mod rtp_parameters;
pub mod rtp_receiver;
pub mod rtp_sender;
pub mod rtp_transceiver;
#[cfg(feature = "sender-identity")]
pub mod sender_identity;
pub mod session_description;
pub mod stats;
pub mod video_frame;
pub mod video_source;
pub mod video_stream;
pub mod video_track;

pub use driver::addresses::{LOOPBACK_VARIABLE, offer_loopback_addresses};

use thiserror::Error;

/// What a media line or a track carries.
#[derive(Debug, Copy, Clone, PartialEq, Eq)]
pub enum MediaType {
    /// Sound.
    Audio,
    /// Pictures; negotiated, never encoded or decoded here.
    Video,
    /// Data channels.
    Data,
    /// Anything else.
    Unsupported,
}

/// The kind of an [`RtcError`].
#[derive(Debug, Copy, Clone, PartialEq, Eq)]
pub enum RtcErrorType {
    /// Something failed inside.
    Internal,
    /// A description or candidate could not be used.
    InvalidSdp,
    /// The call does not fit the state of the object.
    InvalidState,
}

/// Why a call failed.
#[derive(Error, Debug)]
#[error("an RtcError occurred: {error_type:?} - {message}")]
pub struct RtcError {
    /// What kind of failure it is.
    pub error_type: RtcErrorType,
    /// What happened, in words.
    pub message: String,
}

impl RtcError {
    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self { error_type: RtcErrorType::Internal, message: message.into() }
    }

    pub(crate) fn invalid_sdp(message: impl Into<String>) -> Self {
        Self { error_type: RtcErrorType::InvalidSdp, message: message.into() }
    }

    pub(crate) fn invalid_state(message: impl Into<String>) -> Self {
        Self { error_type: RtcErrorType::InvalidState, message: message.into() }
    }
}
