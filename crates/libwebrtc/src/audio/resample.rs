//! Streaming conversion of sample rate and channel count.
//!
//! A windowed-sinc filter (rubato's asynchronous one): it takes blocks of any length without
//! holding samples back to fill a chunk, so its delay is that of the filter alone, 32 samples of
//! the lower rate (4 ms at 8 kHz, 0.7 ms at 44.1 kHz). Where the ratio of the rates is a fraction of
//! moderate size, every filter phase is computed in advance and the conversion is exact.

use rubato::audioadapter_buffers::direct::InterleavedSlice;
use rubato::{
    Async, FixedAsync, Resampler as _, Resizable as _, SincInterpolationParameters, SincInterpolationType,
    WindowFunction, calculate_cutoff,
};
use thiserror::Error;

/// Filter length in samples of the lower of both rates. With the window below the pass band reaches
/// 90 % of the lower Nyquist frequency and the stop band is 75 dB down.
const FILTER_LENGTH: usize = 64;
const WINDOW: WindowFunction = WindowFunction::Blackman;

/// Ratios with more phases than this interpolate between phases instead of storing them all.
const MAX_PHASES: u32 = 512;

/// The longest piece given to the filter at once, in samples per channel.
const MAX_PIECE: usize = 960;

/// Rates outside of this are surely a mistake.
const RATES: std::ops::RangeInclusive<u32> = 1_000..=384_000;

/// A conversion that cannot be done.
#[derive(Debug, Error, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResampleError {
    /// Neither rate may be outside 1 to 384 kHz.
    #[error("cannot convert from {from} to {to} Hz")]
    UnsupportedRate {
        /// Rate of the input.
        from: u32,
        /// Rate of the output.
        to: u32,
    },
    /// At least one channel is needed.
    #[error("cannot convert {0} channels")]
    UnsupportedChannels(u16),
}

/// Converts a stream from one sample rate to another.
pub(crate) struct Resampler {
    channels: usize,
    /// None where both rates are equal.
    filter: Option<Filter>,
}

struct Filter {
    sinc: Async<f32>,
    input: Vec<f32>,
    output: Vec<f32>,
}

impl Resampler {
    /// A converter for interleaved PCM of `channels` channels.
    pub(crate) fn new(from: u32, to: u32, channels: u16) -> Result<Self, ResampleError> {
        let unsupported = ResampleError::UnsupportedRate { from, to };
        if !RATES.contains(&from) || !RATES.contains(&to) {
            return Err(unsupported);
        }
        if channels == 0 {
            return Err(ResampleError::UnsupportedChannels(channels));
        }
        let channels = usize::from(channels);
        if from == to {
            return Ok(Self { channels, filter: None });
        }
        let phases = to / greatest_common_divisor(from, to);
        let (oversampling_factor, interpolation) = if phases <= MAX_PHASES {
            (phases as usize, SincInterpolationType::Nearest)
        } else {
            (128, SincInterpolationType::Cubic)
        };
        let parameters = SincInterpolationParameters {
            // The filter runs at the input's rate: stretched, it spans as many output samples.
            sinc_len: FILTER_LENGTH * (from.div_ceil(to) as usize).max(1),
            f_cutoff: Some(calculate_cutoff(FILTER_LENGTH, WINDOW)),
            oversampling_factor,
            interpolation,
            window: WINDOW,
        };
        let ratio = f64::from(to) / f64::from(from);
        let sinc = Async::new_sinc(ratio, 1.0, &parameters, MAX_PIECE, channels, FixedAsync::Input)
            .map_err(|_| unsupported)?;
        Ok(Self { channels, filter: Some(Filter { sinc, input: Vec::new(), output: Vec::new() }) })
    }

    /// Converts `input` and appends the result to `output`. Blocks may have any length; samples of
    /// an incomplete last frame (fewer than `channels`) are ignored.
    pub(crate) fn process(&mut self, input: &[i16], output: &mut Vec<i16>) {
        let whole = input.len() - input.len() % self.channels;
        let input = &input[..whole];
        match &mut self.filter {
            None => output.extend_from_slice(input),
            Some(filter) => {
                for piece in input.chunks(MAX_PIECE * self.channels) {
                    filter.process(piece, self.channels, output);
                }
            }
        }
    }
}

impl Filter {
    fn process(&mut self, piece: &[i16], channels: usize, output: &mut Vec<i16>) {
        let frames = piece.len() / channels;
        self.input.clear();
        self.input.extend(piece.iter().map(|sample| f32::from(*sample)));
        self.sinc.set_chunk_size(frames).expect("a piece has 1 to MAX_PIECE frames");
        let produced = self.sinc.output_frames_next();
        self.output.resize(produced * channels, 0.0);
        let source = InterleavedSlice::new(&self.input, channels, frames)
            .expect("the buffer was filled with exactly this many frames");
        let mut target = InterleavedSlice::new_mut(&mut self.output, channels, produced)
            .expect("the buffer was sized for exactly this many frames");
        self.sinc
            .process_into_buffer(&source, &mut target, None)
            .expect("both buffers have the sizes that the filter asked for");
        // A float to integer cast saturates, which is what too loud a sample needs.
        output.extend(self.output.iter().map(|sample| sample.round() as i16));
    }
}

/// Appends `pcm` to `output` with another number of channels: surplus channels are averaged into
/// those that remain, missing ones are copies. Mono to stereo doubles, stereo to mono averages.
pub(crate) fn remix(pcm: &[i16], from: u16, to: u16, output: &mut Vec<i16>) {
    let (from, to) = (usize::from(from), usize::from(to));
    if from == 0 || to == 0 {
        return;
    }
    if from == to {
        output.extend_from_slice(pcm);
        return;
    }
    for frame in pcm.chunks_exact(from) {
        for channel in 0..to {
            let sources = frame.iter().skip(channel % from).step_by(to);
            let count = sources.len() as i32;
            let sum: i32 = sources.map(|sample| i32::from(*sample)).sum();
            output.push((sum / count) as i16);
        }
    }
}

fn greatest_common_divisor(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}
