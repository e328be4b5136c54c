//! Hostile input, one function per kind of it: what the fuzz targets in `fuzz/` call and `tests/corpus.rs` replays.
//!
//! Each function takes any bytes, builds what they need around them (an engine, a peer that is already connected, an
//! audio receiver), feeds them in virtual time and checks that what comes out stays within bounds. A panic of this
//! crate is a finding and goes on. A panic of a dependency inside one connection is contained as the driver contains
//! it (`containment.rs`) and counted: [`contained_panics`] lists where they were. The audio path has no such net in
//! production, so a panic there is a finding whoever caused it.
//!
//! Here may be used whatever the crate has, and `str0m` on the other side of the wire. Nothing here opens a socket,
//! reads a clock other than for a start, or is part of the crate's API: the feature `fuzzing` is for tests alone.

mod audio_payload;
mod candidate;
mod containment;
mod crc32;
mod datagrams;
mod description;
mod floods;
mod hostile_crypto;
mod input;
mod rtp;
mod sctp;
mod signal;
mod srtp;
#[cfg(test)]
mod tests;
mod victim;
mod world;

pub use audio_payload::audio_payload;
pub use candidate::candidate;
pub use containment::contained_panics;
pub use datagrams::datagrams;
pub use description::description;
pub use floods::{FLOODS, Flood};
pub use rtp::rtp;
pub use sctp::sctp;
pub use signal::signal;

/// A function that takes hostile bytes.
pub type Target = fn(&[u8]);

/// All targets with their names, which are also those of `fuzz/fuzz_targets/` and `fuzz/corpus/`.
pub const TARGETS: &[(&str, Target)] = &[
    ("audio_payload", audio_payload),
    ("candidate", candidate),
    ("datagrams", datagrams),
    ("description", description),
    ("rtp", rtp),
    ("sctp", sctp),
    ("signal", signal),
];
