//! Makes a piece of audio a little shorter or longer without changing its pitch.
//!
//! A stretch of some milliseconds is left out or repeated where the waveform is most alike on both
//! sides, with a cross-fade over the seam (the idea of WSOLA). The first and the last sample stay,
//! so the piece still fits between its neighbours.

/// Cuts out up to half of `pcm`; says how many samples per channel were removed.
pub(crate) fn shorten(pcm: &mut Vec<i16>, channels: u16) -> usize {
    let channels = usize::from(channels);
    let Some(seam) = Seam::find(pcm, channels) else { return 0 };
    let cut = seam.lag * channels;
    for at in 0..seam.overlap * channels {
        pcm[at] = seam.blend(pcm[at], pcm[at + cut], at / channels);
    }
    let kept_head = seam.overlap * channels;
    pcm.drain(kept_head..kept_head + cut);
    seam.lag
}

/// Repeats up to half of `pcm`; says how many samples per channel were added.
pub(crate) fn lengthen(pcm: &mut Vec<i16>, channels: u16) -> usize {
    let channels = usize::from(channels);
    let Some(seam) = Seam::find(pcm, channels) else { return 0 };
    let repeated = seam.lag * channels;
    let mut longer = Vec::with_capacity(pcm.len() + repeated);
    longer.extend_from_slice(&pcm[..repeated]);
    longer.extend(
        (0..seam.overlap * channels).map(|at| seam.blend(pcm[at + repeated], pcm[at], at / channels)),
    );
    longer.extend_from_slice(&pcm[seam.overlap * channels..]);
    *pcm = longer;
    seam.lag
}

/// Two places of a piece, `lag` apart, that look alike for `overlap` samples per channel.
struct Seam {
    lag: usize,
    overlap: usize,
}

impl Seam {
    /// Looks for the most similar continuation. For 20 ms the overlap is 5 ms and the lag 2.5 to
    /// 10 ms, which holds a period of any voice.
    fn find(pcm: &[i16], channels: usize) -> Option<Self> {
        let frames = pcm.len() / channels;
        let overlap = frames / 4;
        let difference = |lag: usize| -> i64 {
            (0..overlap)
                .map(|at| i64::from(pcm[at * channels]) - i64::from(pcm[(at + lag) * channels]))
                .map(|difference| difference * difference)
                .sum()
        };
        let lag = (frames / 8..=frames / 2).filter(|lag| *lag > 0).min_by_key(|lag| difference(*lag))?;
        Some(Self { lag, overlap })
    }

    /// Goes over from one sample to another in the course of the overlap.
    fn blend(&self, from: i16, to: i16, at: usize) -> i16 {
        let (at, overlap) = (at as i64, self.overlap as i64);
        ((i64::from(from) * (overlap - at) + i64::from(to) * at) / overlap) as i16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tone(frames: usize, channels: usize) -> Vec<i16> {
        (0..frames * channels)
            .map(|at| ((at / channels) as f64 / 48_000.0 * 440.0 * std::f64::consts::TAU).sin() * 10_000.0)
            .map(|sample| sample as i16)
            .collect()
    }

    fn steepest_step(pcm: &[i16], channels: usize) -> i32 {
        (channels..pcm.len())
            .map(|at| (i32::from(pcm[at]) - i32::from(pcm[at - channels])).abs())
            .max()
            .unwrap()
    }

    #[test]
    fn a_tone_changes_its_length_without_a_click() {
        for channels in [1, 2] {
            let original = tone(960, channels);
            let smooth = steepest_step(&original, channels) * 12 / 10;
            let mut shorter = original.clone();
            let removed = shorten(&mut shorter, channels as u16);
            assert!((120..=480).contains(&removed));
            assert_eq!(shorter.len(), original.len() - removed * channels);
            let mut longer = original.clone();
            let added = lengthen(&mut longer, channels as u16);
            assert!((120..=480).contains(&added));
            assert_eq!(longer.len(), original.len() + added * channels);
            for changed in [&shorter, &longer] {
                assert_eq!(changed[0], original[0]);
                assert_eq!(changed.last(), original.last());
                assert!(steepest_step(changed, channels) <= smooth);
            }
        }
    }

    #[test]
    fn too_little_audio_is_left_alone() {
        for frames in 0..2 {
            let mut pcm = vec![1; frames];
            assert_eq!(shorten(&mut pcm, 1), 0);
            assert_eq!(lengthen(&mut pcm, 1), 0);
            assert_eq!(pcm.len(), frames);
        }
    }

    #[test]
    fn any_length_is_safe() {
        for frames in 0..200 {
            let original = tone(frames, 2);
            let mut pcm = original.clone();
            let removed = shorten(&mut pcm, 2);
            assert_eq!(pcm.len(), original.len() - removed * 2);
            let mut pcm = original.clone();
            let added = lengthen(&mut pcm, 2);
            assert_eq!(pcm.len(), original.len() + added * 2);
        }
    }
}
