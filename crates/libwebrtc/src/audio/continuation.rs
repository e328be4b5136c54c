//! Makes up audio that goes on from what was heard last, and leads back to what really comes.
//!
//! The newest stretch of sound that resembles the one before it is repeated, and what returns is
//! joined where the waveforms fit (the way of libwebrtc's `NetEq`). The decoder is not asked, for two reasons: what
//! Opus makes up for a steady sound falls by 15 dB within 20 ms; and it leaves the decoder in another
//! state than the sender's encoder, so that packets which were only late would be decoded wrongly.
//!
//! Pure: PCM in, PCM out. How loud it should be, and for how long, others decide.

use std::ops::RangeInclusive;

/// All lengths are in parts of a second: a period of any voice is between 2.5 and 20 ms long, …
const SHORTEST_CYCLE: usize = 400;
/// See [`SHORTEST_CYCLE`].
const LONGEST_CYCLE: usize = 50;
/// … the newest 10 ms are compared with what was before, …
const COMPARED: usize = 100;
/// … the seam to what returns is 5 ms long, …
const SEAM: usize = 200;
/// … and may lie up to 10 ms away.
const SEAM_WITHIN: usize = 100;
/// Of the waveforms that are compared it is enough to look at this many points per second at first.
const COARSE_RATE: usize = 8_000;

/// Knows what was heard last; see the module.
#[derive(Debug)]
pub(crate) struct Continuation {
    rate: usize,
    channels: usize,
    /// The newest sound, as long as the longest cycle and what it is compared with.
    heard: Vec<i16>,
    /// What is repeated; empty while nothing is made up.
    cycle: Vec<i16>,
    /// Where in the cycle what was made up ends, in samples over all channels.
    at: usize,
}

impl Continuation {
    /// Nothing was heard yet.
    pub(crate) fn new(rate: u32, channels: u16) -> Self {
        let (rate, channels) = (rate as usize, usize::from(channels));
        let remembered = (rate / LONGEST_CYCLE + rate / COMPARED) * channels;
        Self { rate, channels, heard: vec![0; remembered], cycle: Vec::new(), at: 0 }
    }

    /// Notes what is played, made up or not.
    pub(crate) fn hear(&mut self, pcm: &[i16]) {
        let remembered = self.heard.len();
        let newest = &pcm[pcm.len().saturating_sub(remembered)..];
        self.heard.drain(..newest.len());
        self.heard.extend_from_slice(newest);
    }

    /// Whether the sound at hand is being made up.
    pub(crate) fn is_going_on(&self) -> bool {
        !self.cycle.is_empty()
    }

    /// Appends so many made-up samples per channel.
    pub(crate) fn go_on(&mut self, frames: usize, pcm: &mut Vec<i16>) {
        if self.cycle.is_empty() {
            self.cycle = self.find_cycle();
            self.at = 0;
        }
        let made_up = self.cycle.iter().cycle().skip(self.at).take(frames * self.channels);
        pcm.extend(made_up);
        self.at = (self.at + frames * self.channels) % self.cycle.len();
    }

    /// Joins real audio to what was made up, which was last heard with this gain. Says how many samples
    /// per channel have come before it until the waveforms fit.
    pub(crate) fn lead_over(&mut self, pcm: &mut Vec<i16>, gain: f64) -> usize {
        let overlap = (self.rate / SEAM).min(pcm.len() / self.channels);
        if overlap == 0 || self.cycle.is_empty() {
            return 0;
        }
        // Where nothing is heard any more everything fits.
        let within = if gain > 0.0 { self.rate / SEAM_WITHIN } else { 0 };
        let mut joined = Vec::with_capacity((within + overlap) * self.channels + pcm.len());
        self.go_on(within + overlap, &mut joined);
        for sample in &mut joined {
            *sample = (f64::from(*sample) * gain) as i16;
        }
        let shift = self.best_shift(&joined, pcm, 0..=within, overlap);
        joined.truncate((shift + overlap) * self.channels);
        let seam = &mut joined[shift * self.channels..];
        for (at, (made_up, real)) in seam.iter_mut().zip(pcm.iter()).enumerate() {
            let progress = (at / self.channels) as f64 / overlap as f64;
            *made_up = (f64::from(*made_up) * (1.0 - progress) + f64::from(*real) * progress) as i16;
        }
        joined.extend_from_slice(&pcm[overlap * self.channels..]);
        *pcm = joined;
        self.stop();
        shift
    }

    /// Real audio is heard again.
    pub(crate) fn stop(&mut self) {
        self.cycle.clear();
    }

    /// The newest stretch that resembles the one before it, ready to be repeated without a click.
    fn find_cycle(&self) -> Vec<i16> {
        let frames = self.heard.len() / self.channels;
        let compared = self.rate / COMPARED;
        let newest = &self.heard[(frames - compared) * self.channels..];
        let (shortest, longest) = (self.rate / SHORTEST_CYCLE, self.rate / LONGEST_CYCLE);
        // A shift to the right in what is remembered is a shorter cycle.
        let shift = self.best_shift(&self.heard, newest, 0..=longest - shortest, compared);
        let length = (longest - shift) * self.channels;
        let start = self.heard.len() - length;
        let mut cycle = self.heard[start..].to_vec();
        // The end goes over into what precedes the start.
        let seam = length / self.channels / 4;
        for at in 0..seam * self.channels {
            let progress = (at / self.channels) as f64 / seam as f64;
            let (end, before) = (length - seam * self.channels + at, start - seam * self.channels + at);
            let blend = f64::from(cycle[end]) * (1.0 - progress) + f64::from(self.heard[before]) * progress;
            cycle[end] = blend as i16;
        }
        cycle
    }

    /// How far `sound` has to be shifted to resemble `other` best for so many samples per channel; of
    /// several that are about as good the least.
    fn best_shift(
        &self,
        sound: &[i16],
        other: &[i16],
        shifts: RangeInclusive<usize>,
        frames: usize,
    ) -> usize {
        let coarse = (self.rate / COARSE_RATE).max(1);
        let difference = |shift: usize, step: usize| -> f64 {
            let frames = (0..frames).step_by(step).map(|frame| frame * self.channels);
            let samples = frames.flat_map(|frame| frame..frame + self.channels);
            samples
                .map(|at| (f64::from(sound[shift * self.channels + at]) - f64::from(other[at])).powi(2))
                .sum()
        };
        let (first, last) = (*shifts.start(), *shifts.end());
        let rough: Vec<_> = shifts.step_by(coarse).map(|shift| (shift, difference(shift, coarse))).collect();
        let best = rough.iter().map(|(_, difference)| *difference).fold(f64::INFINITY, f64::min);
        let near =
            rough.iter().find(|(_, difference)| *difference <= best * 1.5).map_or(first, |(shift, _)| *shift);
        let fine = near.saturating_sub(coarse).max(first)..=(near + coarse).min(last);
        fine.map(|shift| (shift, difference(shift, 1)))
            .min_by(|left, right| left.1.total_cmp(&right.1))
            .map_or(first, |(shift, _)| shift)
    }
}
