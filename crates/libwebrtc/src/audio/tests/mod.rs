//! Tests of the audio modules by content: tones that must come out as they went in.

mod codec;
mod network;
mod path;
mod receive;
mod resample;
mod send;
mod signal;
mod stalls;
