//! Resampling keeps frequency, level and length.

use super::signal::{amplitude_of, purity, tone};
use crate::audio::resample::{ResampleError, Resampler, remix};

const PAIRS: [(u32, u32); 9] = [
    (44_100, 48_000),
    (48_000, 44_100),
    (48_000, 22_050),
    (16_000, 48_000),
    (48_000, 16_000),
    (11_025, 48_000),
    (48_000, 8_000),
    (24_000, 11_025),
    (44_100, 16_001),
];

fn convert(resampler: &mut Resampler, input: &[i16], block: usize) -> Vec<i16> {
    let mut output = Vec::new();
    for piece in input.chunks(block) {
        resampler.process(piece, &mut output);
    }
    output
}

#[test]
fn a_sine_keeps_frequency_and_level() {
    for (from, to) in PAIRS {
        for hertz in [200.0, 1_000.0, f64::from(from.min(to)) * 0.4] {
            let mut resampler = Resampler::new(from, to, 1).unwrap();
            let output = convert(&mut resampler, &tone(hertz, from, 0, from as usize), from as usize / 100);
            let settled = &output[to as usize / 50..];
            let amplitude = amplitude_of(hertz, to, settled);
            assert!(
                (9_850.0..10_150.0).contains(&amplitude),
                "{from} → {to}, {hertz} Hz: amplitude {amplitude}"
            );
            let purity = purity(hertz, to, settled);
            assert!(purity > 60.0, "{from} → {to}, {hertz} Hz: {purity} dB");
        }
    }
}

#[test]
fn what_the_lower_rate_cannot_hold_is_removed() {
    for (from, to) in [(48_000, 16_000), (48_000, 22_050), (24_000, 11_025)] {
        let hertz = f64::from(to) * 0.56;
        let mut resampler = Resampler::new(from, to, 1).unwrap();
        let output = convert(&mut resampler, &tone(hertz, from, 0, from as usize), 480);
        let loudest = output[to as usize / 50..].iter().map(|sample| sample.abs()).max().unwrap();
        assert!(loudest < 30, "{from} → {to}: {loudest} of 10 000 left");
    }
}

#[test]
fn the_delay_is_a_few_milliseconds_and_blocks_may_have_any_length() {
    for (from, to) in PAIRS {
        let input = tone(440.0, from, 0, from as usize);
        let mut whole = Resampler::new(from, to, 1).unwrap();
        let mut pieces = Resampler::new(from, to, 1).unwrap();
        let whole = convert(&mut whole, &input, 480);
        let pieces = convert(&mut pieces, &input, 77);
        let lag = f64::from(to) - pieces.len() as f64;
        assert!((0.0..0.009 * f64::from(to)).contains(&lag), "{from} → {to}: {lag} samples behind");
        let common = whole.len().min(pieces.len());
        assert!(whole[..common].iter().zip(&pieces).all(|(a, b)| a.abs_diff(*b) <= 1));
    }
}

#[test]
fn an_hour_is_an_hour() {
    // An hour at a thirtieth of 44.1 and 48 kHz (the same arithmetic), less at real rates.
    for (from, to, seconds) in
        [(1_470, 1_600, 3_600), (1_001, 1_600, 3_600), (44_100, 48_000, 20), (11_025, 8_000, 60)]
    {
        let mut resampler = Resampler::new(from, to, 1).unwrap();
        let second = vec![0; from as usize];
        let (mut output, mut produced) = (Vec::new(), 0);
        for _ in 0..seconds {
            output.clear();
            resampler.process(&second, &mut output);
            produced += output.len();
        }
        // What is missing is the delay of the filter, not a drift.
        let missing = to as usize * seconds - produced;
        assert!(
            missing <= 70 * to.div_ceil(from.min(to)) as usize,
            "{from} → {to}: {missing} samples missing"
        );
    }
}

#[test]
fn channels_stay_apart() {
    let (left, right) = (tone(440.0, 48_000, 0, 48_000), tone(1_000.0, 48_000, 0, 48_000));
    let input: Vec<i16> = left.iter().zip(&right).flat_map(|(l, r)| [*l, *r]).collect();
    let mut resampler = Resampler::new(48_000, 16_000, 2).unwrap();
    let output = convert(&mut resampler, &input, 960);
    let left: Vec<i16> = output.iter().step_by(2).skip(800).copied().collect();
    let right: Vec<i16> = output.iter().skip(1).step_by(2).skip(800).copied().collect();
    assert!(purity(440.0, 16_000, &left) > 60.0);
    assert!(purity(1_000.0, 16_000, &right) > 60.0);
}

#[test]
fn equal_rates_change_nothing_and_absurd_ones_are_refused() {
    let mut resampler = Resampler::new(16_000, 16_000, 2).unwrap();
    let mut output = Vec::new();
    resampler.process(&[1, 2, 3, 4, 5], &mut output);
    assert_eq!(output, [1, 2, 3, 4]);
    let refused = ResampleError::UnsupportedRate { from: 0, to: 48_000 };
    assert_eq!(Resampler::new(0, 48_000, 1).err(), Some(refused));
    assert!(Resampler::new(48_000, u32::MAX, 1).is_err());
    assert!(Resampler::new(48_000, 16_000, 0).is_err());
}

#[test]
fn channel_counts_are_converted() {
    let remixed = |pcm: &[i16], from, to| {
        let mut output = Vec::new();
        remix(pcm, from, to, &mut output);
        output
    };
    assert_eq!(remixed(&[1, -2], 1, 2), [1, 1, -2, -2]);
    assert_eq!(remixed(&[10, 20, i16::MAX, i16::MAX], 2, 1), [15, i16::MAX]);
    assert_eq!(remixed(&[10, 20], 2, 3), [10, 20, 10]);
    assert_eq!(remixed(&[10, 20, 30, 40], 4, 2), [20, 30]);
    assert_eq!(remixed(&[10, 20], 2, 2), [10, 20]);
    assert_eq!(remixed(&[10, 20, 30], 2, 1), [15], "an incomplete frame is ignored");
}
