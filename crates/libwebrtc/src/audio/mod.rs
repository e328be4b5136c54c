//! Audio between an application's PCM and RTP payloads: queueing, resampling, Opus, jitter buffer.
//!
//! Everything here is pure: no sockets, no tasks, no threads, and no clock. Time enters as an
//! argument, so an hour of audio can be tested in seconds. PCM is interleaved `i16` everywhere.
//!
//! Outgoing: [`capture_queue`] → [`sender`] (driven by [`clock`]) → RTP payloads.
//! Incoming: RTP payloads (unwrapped by [`red`] where needed) → [`receiver`], which orders and
//! times them in [`jitter`] → 10 ms blocks at the rate the application asked for.

pub(crate) mod capture_queue;
pub(crate) mod clock;
pub(crate) mod codec;
pub(crate) mod continuation;
pub(crate) mod delay;
pub(crate) mod jitter;
pub(crate) mod level;
pub(crate) mod receiver;
pub(crate) mod red;
pub(crate) mod resample;
pub(crate) mod sender;
pub(crate) mod sequence;
pub(crate) mod stretch;

#[cfg(test)]
mod tests;
