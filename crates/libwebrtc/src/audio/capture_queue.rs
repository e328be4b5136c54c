//! The queue between an application that captures audio and the steady 10 ms clock that sends it.
//!
//! Pure bookkeeping: the caller wakes those who wait. What the application relies on:
//!
//! - A captured frame is taken whole as soon as no more than the queue's capacity is waiting, and
//!   its capture is *complete* once no more than the capacity is left ([`CaptureQueue::has_room`]).
//!   So an application can always be one capacity ahead of what is heard.
//! - [`CaptureQueue::clear`] is exact: nothing pushed before it is pulled after it.
//! - At every moment *played = pushed − queued − discarded*.
//! - With a capacity of zero the application itself keeps the 10 ms beat: every frame must be 10 ms
//!   long, its capture completes at once, and where two clocks run apart the oldest frames give way.
//!
//! **The end of speech.** When less than 10 ms is left, that rest is handed out at once, filled up
//! with silence: it is neither kept until the next utterance nor played as a late crumb. In the
//! middle of speech this happens only to a producer in real time whose frames are not multiples of
//! 10 ms (16 ms, say), and only at its start: the silence filled in puts it ahead by as much, and
//! once it is 10 ms ahead the queue never runs short again.

use super::clock::BlockSizes;
use std::collections::VecDeque;
use thiserror::Error;

/// Frames kept in a queue without capacity, against jitter between two clocks.
const DIRECT_BLOCKS: usize = 5;

/// A queue that cannot exist.
#[derive(Debug, Error, Clone, Copy, PartialEq, Eq)]
#[error("audio of {rate} Hz with {channels} channels cannot be captured")]
pub(crate) struct UnsupportedFormat {
    rate: u32,
    channels: u32,
}

/// A frame that cannot be captured.
#[derive(Debug, Error, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PushError {
    /// Interleaved audio has a sample for each channel.
    #[error("{samples} samples cannot be divided among {channels} channels")]
    IncompleteFrame {
        /// Samples handed in.
        samples: usize,
        /// Channels of the source.
        channels: usize,
    },
    /// Without a queue each frame has to be 10 ms.
    #[error("direct capture requires 10 ms frames: got {got} samples per channel, expected {expected}")]
    Not10Ms {
        /// Samples per channel handed in.
        got: usize,
        /// Samples per channel in 10 ms.
        expected: usize,
    },
}

/// What became of a pushed frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Push {
    /// Taken, and there is room for more: the capture is complete.
    Complete,
    /// Taken; the capture is complete once [`CaptureQueue::has_room`].
    Wait,
    /// Not taken, since another capture still waits: try again once [`CaptureQueue::has_room`].
    Full,
}

#[cfg(test)]
/// Samples per channel that went through a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct CaptureCounters {
    /// Taken from the application.
    pub(crate) pushed: u64,
    /// Handed out to be sent.
    pub(crate) played: u64,
    /// Thrown away by a clear (or, without a queue, by running over).
    pub(crate) discarded: u64,
    /// Waiting.
    pub(crate) queued: u64,
}

/// A queue of interleaved PCM; see the module.
#[derive(Debug)]
pub(crate) struct CaptureQueue {
    samples: VecDeque<i16>,
    channels: usize,
    rate: u32,
    /// In samples over all channels; zero for direct capture.
    capacity: usize,
    blocks: BlockSizes,
    pushed: u64,
    played: u64,
    discarded: u64,
}

impl CaptureQueue {
    /// A queue holding `queue_ms` of audio; zero for direct capture.
    pub(crate) fn new(rate: u32, channels: u32, queue_ms: u32) -> Result<Self, UnsupportedFormat> {
        // 10 ms need at least one sample, and nobody captures more channels than that.
        if !(100..=768_000).contains(&rate) || !(1..=64).contains(&channels) {
            return Err(UnsupportedFormat { rate, channels });
        }
        let frames = u64::from(rate) * u64::from(queue_ms) / 1_000;
        let channels = channels as usize;
        Ok(Self {
            samples: VecDeque::new(),
            channels,
            rate,
            capacity: frames as usize * channels,
            blocks: BlockSizes::new(rate),
            pushed: 0,
            played: 0,
            discarded: 0,
        })
    }

    /// Takes a frame of any length (10 ms for direct capture), whole or not at all.
    pub(crate) fn push(&mut self, pcm: &[i16]) -> Result<Push, PushError> {
        let frames = pcm.len() / self.channels;
        if !pcm.len().is_multiple_of(self.channels) {
            return Err(PushError::IncompleteFrame { samples: pcm.len(), channels: self.channels });
        }
        if self.capacity == 0 {
            let expected = (self.rate / 100) as usize;
            if frames != expected {
                return Err(PushError::Not10Ms { got: frames, expected });
            }
        } else if !self.has_room() {
            return Ok(Push::Full);
        }
        self.samples.extend(pcm);
        self.pushed += frames as u64;
        if self.capacity == 0 {
            let surplus = self.samples.len().saturating_sub(DIRECT_BLOCKS * pcm.len());
            self.discard(surplus);
        }
        Ok(if self.has_room() { Push::Complete } else { Push::Wait })
    }

    /// Whether a waiting capture is complete and another frame would be taken.
    pub(crate) fn has_room(&self) -> bool {
        self.capacity == 0 || self.samples.len() <= self.capacity
    }

    /// The next 10 ms to be sent, replacing what is in `block`; false (and an empty block) where
    /// there is nothing to send.
    pub(crate) fn pull_10ms(&mut self, block: &mut Vec<i16>) -> bool {
        block.clear();
        if self.samples.is_empty() {
            return false;
        }
        let wanted = self.blocks.advance() * self.channels;
        let available = wanted.min(self.samples.len());
        block.extend(self.samples.drain(..available));
        self.played += (available / self.channels) as u64;
        block.resize(wanted, 0);
        true
    }

    /// Throws away everything queued and says how many samples per channel that were.
    pub(crate) fn clear(&mut self) -> u64 {
        let before = self.discarded;
        self.discard(self.samples.len());
        self.discarded - before
    }

    #[cfg(test)]
    /// What went through so far.
    pub(crate) fn counters(&self) -> CaptureCounters {
        CaptureCounters {
            pushed: self.pushed,
            played: self.played,
            discarded: self.discarded,
            queued: (self.samples.len() / self.channels) as u64,
        }
    }

    fn discard(&mut self, samples: usize) {
        self.samples.drain(..samples);
        self.discarded += (samples / self.channels) as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pull(queue: &mut CaptureQueue) -> Option<Vec<i16>> {
        let mut block = vec![7; 3];
        let pulled = queue.pull_10ms(&mut block);
        assert_eq!(pulled, !block.is_empty());
        pulled.then_some(block)
    }

    #[test]
    fn a_capture_completes_when_no_more_than_the_capacity_waits() {
        let mut queue = CaptureQueue::new(48_000, 1, 100).unwrap();
        assert_eq!(queue.push(&[1; 4_800]), Ok(Push::Complete));
        assert_eq!(queue.push(&[1; 960]), Ok(Push::Wait));
        assert_eq!(queue.push(&[1; 480]), Ok(Push::Full));
        assert_eq!(queue.counters().pushed, 5_760);
        pull(&mut queue).unwrap();
        assert!(!queue.has_room());
        pull(&mut queue).unwrap();
        assert!(queue.has_room());
        assert_eq!(queue.push(&vec![1; 48_000]), Ok(Push::Wait), "a long frame is taken whole");
    }

    #[test]
    fn a_clear_is_exact_and_lets_a_waiting_capture_complete() {
        let mut queue = CaptureQueue::new(16_000, 2, 50).unwrap();
        assert_eq!(queue.push(&vec![1; 9_000]), Ok(Push::Wait));
        assert_eq!(pull(&mut queue), Some(vec![1; 320]));
        assert_eq!(queue.clear(), 4_340);
        assert!(queue.has_room());
        assert_eq!(pull(&mut queue), None);
        queue.push(&[2; 320]).unwrap();
        assert_eq!(pull(&mut queue), Some(vec![2; 320]));
        let counters = queue.counters();
        assert_eq!((counters.played, counters.discarded, counters.queued), (320, 4_340, 0));
    }

    #[test]
    fn direct_capture_wants_10_ms_and_never_waits() {
        let mut queue = CaptureQueue::new(48_000, 1, 0).unwrap();
        assert_eq!(queue.push(&[1; 960]), Err(PushError::Not10Ms { got: 960, expected: 480 }));
        for value in 0..20 {
            assert_eq!(queue.push(&[value; 480]), Ok(Push::Complete));
        }
        assert_eq!(queue.counters().discarded, 15 * 480);
        assert_eq!(pull(&mut queue), Some(vec![15; 480]), "the oldest gave way");
    }

    #[test]
    fn wrong_frames_and_formats_are_refused() {
        assert!(CaptureQueue::new(0, 1, 100).is_err());
        assert!(CaptureQueue::new(48_000, 0, 100).is_err());
        let mut queue = CaptureQueue::new(48_000, 2, 100).unwrap();
        assert_eq!(queue.push(&[1; 3]), Err(PushError::IncompleteFrame { samples: 3, channels: 2 }));
        assert_eq!(queue.counters(), CaptureCounters::default());
    }

    #[test]
    fn odd_rates_are_exact_in_the_long_run() {
        for rate in [11_025, 22_050, 44_100] {
            let mut queue = CaptureQueue::new(rate, 1, 2_000).unwrap();
            queue.push(&vec![1; rate as usize]).unwrap();
            for _ in 0..100 {
                let block = pull(&mut queue).unwrap();
                assert!(block.iter().all(|sample| *sample == 1), "no silence inside");
            }
            assert_eq!(queue.counters().queued, 0);
        }
    }

    #[test]
    fn the_rest_of_an_utterance_is_played_at_once() {
        let mut queue = CaptureQueue::new(8_000, 1, 1_000).unwrap();
        queue.push(&[1; 120]).unwrap();
        assert_eq!(pull(&mut queue), Some(vec![1; 80]));
        let rest: Vec<i16> = [[1; 40], [0; 40]].concat();
        assert_eq!(pull(&mut queue), Some(rest));
        assert_eq!(pull(&mut queue), None);
        assert_eq!(queue.counters().played, 120);
        queue.push(&[2; 80]).unwrap();
        assert_eq!(pull(&mut queue), Some(vec![2; 80]), "the next one starts at once");
    }

    #[test]
    fn a_producer_of_odd_frames_in_real_time_is_interrupted_only_at_its_start() {
        for frame_ms in [11, 15, 16, 19, 32] {
            let mut queue = CaptureQueue::new(16_000, 1, 1_000).unwrap();
            let mut interrupted = Vec::new();
            for now in 0..10_000 {
                if now % frame_ms == 0 {
                    queue.push(&vec![1; 16 * frame_ms]).unwrap();
                }
                if now % 10 == 0 && pull(&mut queue).is_none_or(|block| block.contains(&0)) {
                    interrupted.push(now);
                }
            }
            assert!(interrupted.iter().all(|at| *at < 250), "{frame_ms} ms frames: {interrupted:?}");
        }
    }

    proptest! {
        #[test]
        fn every_sample_is_played_queued_or_discarded(
            rate in prop::sample::select(vec![8_000_u32, 11_025, 22_050, 48_000]),
            channels in 1_u32..4,
            queue_ms in prop::sample::select(vec![10_u32, 50, 200]),
            steps in prop::collection::vec((0_u8..8, 1_usize..3_000), 1..200),
        ) {
            let mut queue = CaptureQueue::new(rate, channels, queue_ms).unwrap();
            // Samples count up from 1 with each push; a cleared generation must never come back.
            let (mut generation, mut cleared) = (0_i16, 0_i16);
            for (step, length) in steps {
                match step {
                    0 => {
                        let queued = queue.counters().queued;
                        prop_assert_eq!(queue.clear(), queued);
                        cleared = generation;
                    }
                    1..=3 => {
                        let before = queue.counters();
                        let pushed = queue.push(&vec![generation + 1; length * channels as usize]).unwrap();
                        if pushed == Push::Full {
                            prop_assert_eq!(queue.counters(), before);
                        } else {
                            generation += 1;
                            prop_assert_eq!(queue.counters().pushed, before.pushed + length as u64);
                        }
                    }
                    _ => {
                        if let Some(block) = pull(&mut queue) {
                            prop_assert!(block.len().abs_diff((rate / 100 * channels) as usize) <= channels as usize);
                            prop_assert!(block.iter().all(|sample| *sample == 0 || *sample > cleared));
                            prop_assert!(block.iter().filter(|sample| **sample != 0).is_sorted());
                        }
                    }
                }
                let counters = queue.counters();
                prop_assert_eq!(counters.played, counters.pushed - counters.queued - counters.discarded);
            }
        }
    }
}
