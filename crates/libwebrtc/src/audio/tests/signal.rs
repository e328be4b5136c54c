//! Test signals and how to measure them.

use crate::audio::level::rms;
use std::f64::consts::TAU;

/// A sine of amplitude 10 000 (−10.3 dBov peak) starting at phase zero at sample `from`.
pub(crate) fn tone(hertz: f64, rate: u32, from: u64, samples: usize) -> Vec<i16> {
    (from..from + samples as u64)
        .map(|at| ((at as f64 * hertz / f64::from(rate) * TAU).sin() * 10_000.0).round() as i16)
        .collect()
}

/// Something like a voice: a pulsating buzz of harmonics, which Opus takes for speech.
pub(crate) fn voice(rate: u32, from: u64, samples: usize) -> Vec<i16> {
    (from..from + samples as u64)
        .map(|at| {
            let time = at as f64 / f64::from(rate);
            let pitch = 140.0 + 30.0 * (time * 3.0 * TAU).sin();
            let buzz: f64 = (1..12)
                .map(|harmonic| (time * pitch * f64::from(harmonic) * TAU).sin() / f64::from(harmonic))
                .sum();
            let loudness = 0.55 + 0.45 * (time * 4.0 * TAU).sin();
            (buzz * loudness * 6_000.0) as i16
        })
        .collect()
}

/// The amplitude of a frequency in PCM (the Goertzel idea, written as a correlation).
pub(crate) fn amplitude_of(hertz: f64, rate: u32, pcm: &[i16]) -> f64 {
    let (sine, cosine) = components(hertz, rate, pcm);
    sine.hypot(cosine)
}

/// The same, as the median over pieces of 100 ms: some of them may be damaged.
pub(crate) fn usual_amplitude_of(hertz: f64, rate: u32, pcm: &[i16]) -> f64 {
    let pieces = pcm.chunks_exact(rate as usize / 10);
    let mut amplitudes: Vec<f64> = pieces.map(|piece| amplitude_of(hertz, rate, piece)).collect();
    amplitudes.sort_by(f64::total_cmp);
    amplitudes[amplitudes.len() / 2]
}

/// How far the best fitting sine of that frequency stands above everything else, in dB.
pub(crate) fn purity(hertz: f64, rate: u32, pcm: &[i16]) -> f64 {
    let (sine, cosine) = components(hertz, rate, pcm);
    let (mut signal, mut noise) = (0.0, 0.0);
    for (at, sample) in pcm.iter().enumerate() {
        let phase = at as f64 * hertz / f64::from(rate) * TAU;
        let ideal = sine * phase.sin() + cosine * phase.cos();
        signal += ideal * ideal;
        noise += (f64::from(*sample) - ideal).powi(2);
    }
    10.0 * (signal / noise.max(1e-9)).log10()
}

/// Of how many 10 ms blocks the level is above −40 dBov, as a fraction.
pub(crate) fn loud_fraction(rate: u32, pcm: &[i16]) -> f64 {
    let (loud, total) = loud_blocks(rate, pcm);
    loud as f64 / total as f64
}

/// Whether every 10 ms block is.
pub(crate) fn all_loud(rate: u32, pcm: &[i16]) -> bool {
    let (loud, total) = loud_blocks(rate, pcm);
    loud == total
}

/// Whether no 10 ms block is.
pub(crate) fn all_quiet(rate: u32, pcm: &[i16]) -> bool {
    loud_blocks(rate, pcm).0 == 0
}

/// How many 10 ms blocks have less than this share of a [`tone`]'s level.
pub(crate) fn quiet_blocks(share: f64, rate: u32, pcm: &[i16]) -> usize {
    let least = share * 10_000.0 / 32_768.0 / 2_f64.sqrt();
    pcm.chunks_exact(rate as usize / 100).filter(|block| rms(block) < least).count()
}

fn loud_blocks(rate: u32, pcm: &[i16]) -> (usize, usize) {
    let blocks = pcm.chunks_exact(rate as usize / 100);
    let total = blocks.len();
    (blocks.filter(|block| rms(block) > 0.01).count(), total)
}

/// Least squares fit of sine and cosine (exact also where the PCM holds no whole periods).
fn components(hertz: f64, rate: u32, pcm: &[i16]) -> (f64, f64) {
    let (mut ss, mut cc, mut sc, mut xs, mut xc) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for (at, sample) in pcm.iter().enumerate() {
        let (sine, cosine) = (at as f64 * hertz / f64::from(rate) * TAU).sin_cos();
        let sample = f64::from(*sample);
        ss += sine * sine;
        cc += cosine * cosine;
        sc += sine * cosine;
        xs += sample * sine;
        xc += sample * cosine;
    }
    let determinant = ss * cc - sc * sc;
    ((xs * cc - xc * sc) / determinant, (xc * ss - xs * sc) / determinant)
}
