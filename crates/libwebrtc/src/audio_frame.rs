//! [`AudioFrame`]: a piece of PCM sound, as it goes into an audio source and comes out of an audio stream.
//!
//! Plain data; nothing here encodes, resamples or checks.

use std::borrow::Cow;

/// Interleaved 16-bit samples with their format.
///
/// The fields are free to set, so they may contradict each other: whoever consumes a frame checks it.
#[derive(Debug, Clone)]
pub struct AudioFrame<'a> {
    /// The samples, channel after channel within each point in time.
    pub data: Cow<'a, [i16]>,
    /// Samples per second and channel.
    pub sample_rate: u32,
    /// Number of interleaved channels.
    pub num_channels: u32,
    /// How many points in time `data` holds.
    pub samples_per_channel: u32,
}

impl AudioFrame<'_> {
    /// A frame of silence that owns its samples.
    pub fn new(sample_rate: u32, num_channels: u32, samples_per_channel: u32) -> Self {
        // Multiplied after widening: two u32 always fit into u64, so no product can wrap to a short frame.
        let samples = u64::from(num_channels) * u64::from(samples_per_channel);
        Self { data: vec![0; samples as usize].into(), sample_rate, num_channels, samples_per_channel }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_frame_is_silence_of_the_asked_size() {
        let frame = AudioFrame::new(48_000, 2, 480);
        assert_eq!(frame.data.len(), 960);
        assert!(frame.data.iter().all(|sample| *sample == 0));
        assert_eq!((frame.sample_rate, frame.num_channels, frame.samples_per_channel), (48_000, 2, 480));
    }
}
