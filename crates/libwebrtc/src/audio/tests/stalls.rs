//! Machines that stand still for some ten milliseconds, at either end: what is heard stays as loud as it was.
//!
//! The patterns were recorded on a machine of two virtual cores that others were busy on.

use super::network::{FarEnd, Network, Say, Travelling, send};
use super::signal::{quiet_blocks, tone};
use crate::audio::capture_queue::CaptureQueue;
use crate::audio::clock::TickClock;
use crate::audio::codec::OpusParams;
use crate::audio::continuation::Continuation;
use std::time::{Duration, Instant};

/// Long enough to be past the beginning, in milliseconds.
const STALL: u64 = 2_000;

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// What is heard once the sound has begun.
fn begun(rate: u32, pcm: &[i16]) -> &[i16] {
    &pcm[rate as usize / 5..]
}

/// Packets of a tone that arrive on time, but for stalls (start and length) after which they come all at once.
fn arriving_with(stalls: &[(u64, u64)], seconds: usize) -> Vec<Travelling> {
    let sent = send(seconds * 100, OpusParams::default(), |_| Say::Tone);
    let mut arriving = Network::perfect().carry(&sent);
    for packet in &mut arriving {
        for (start, length) in stalls {
            if (millis(*start)..millis(start + length)).contains(&packet.at) {
                packet.at = millis(start + length);
            }
        }
    }
    arriving
}

#[test]
fn a_sender_that_stands_still_is_bridged_at_full_level() {
    for rate in [16_000, 48_000] {
        for length in [30, 38, 60, 80, 100, 117] {
            let mut far = FarEnd::new(rate, 1);
            far.receive_until(&arriving_with(&[(STALL, length)], 4), millis(4_000));
            assert_eq!(quiet_blocks(0.8, rate, begun(rate, &far.pcm)), 0, "{length} ms at {rate} Hz");
            assert_eq!(far.receiver.stats().lost, 0);
        }
    }
}

#[test]
fn a_longer_stall_is_heard_only_as_long_as_it_lasts() {
    for length in [150, 200, 250, 300] {
        let mut far = FarEnd::new(16_000, 1);
        far.receive_until(&arriving_with(&[(STALL, length)], 4), millis(4_000));
        let quiet = quiet_blocks(0.5, 16_000, begun(16_000, &far.pcm));
        // At least 40 ms wait in the buffer and 80 ms are made up.
        assert!(quiet as u64 * 10 <= length - 120, "{quiet} blocks in a stall of {length} ms");
    }
}

#[test]
fn stalls_that_come_again_are_expected() {
    let stalls: Vec<_> = (2..12).map(|second| (second * 1_000, 60)).collect();
    let arriving = arriving_with(&stalls, 13);
    let mut far = FarEnd::new(16_000, 1);
    far.receive_until(&arriving, millis(2_500));
    let once = far.receiver.stats().concealed_samples;
    assert!(once > 0, "the first one comes as a surprise");
    far.receive_until(&arriving, millis(13_000));
    assert_eq!(far.receiver.stats().concealed_samples, once);
    assert_eq!(quiet_blocks(0.8, 16_000, begun(16_000, &far.pcm)), 0);
}

#[test]
fn a_receiver_that_stands_still_does_not_run_ahead_of_its_packets() {
    for length in [38, 60, 100, 117, 150, 190] {
        let end = millis(STALL + length);
        let stalled = millis(STALL)..end;
        let mut far = FarEnd::new(16_000, 1);
        let arriving = arriving_with(&[], 4);
        let mut coming = arriving.into_iter().peekable();
        let mut clock = TickClock::new(far.epoch);
        let mut block = Vec::new();
        while clock.next() < far.epoch + millis(4_000) {
            let mut now = clock.next() - far.epoch;
            if stalled.contains(&now) {
                now = end;
            }
            // The pull may well be first; the socket is read soon after.
            let read_until = if (end..end + millis(4)).contains(&now) { stalled.start } else { now };
            while let Some(packet) = coming.next_if(|packet| packet.at < read_until) {
                let at = if stalled.contains(&packet.at) { end + millis(4) } else { packet.at };
                far.insert(&Travelling { at, ..packet });
            }
            for _ in 0..clock.due(far.epoch + now).run {
                far.receiver.pull_10ms(far.epoch + now, &mut block);
                far.pcm.extend(&block);
            }
        }
        assert_eq!(quiet_blocks(0.8, 16_000, begun(16_000, &far.pcm)), 0, "{length} ms");
        assert_eq!(far.pcm.len(), 4 * 16_000, "no time is lost");
        let made_up = far.receiver.stats().concealed_samples / 16;
        assert!(made_up <= 40, "{made_up} ms made up after {length} ms, though nothing was late");
    }
}

#[test]
fn a_source_that_stood_still_lets_the_application_push() {
    for length in [100, 117, 150, 190] {
        let start = Instant::now();
        let mut clock = TickClock::new(start);
        let mut queue = CaptureQueue::new(48_000, 1, 100).unwrap();
        let mut block = Vec::new();
        let mut sent = 0;
        while clock.next() < start + millis(1_000) {
            // The application pushes whenever it gets its turn, which is not between ticks that run at once.
            while queue.has_room() {
                queue.push(&[1; 480]).unwrap();
            }
            let stalled = start + millis(500)..start + millis(500 + length);
            let now = if stalled.contains(&clock.next()) { stalled.end } else { clock.next() };
            for _ in 0..clock.due(now).run {
                assert!(queue.pull_10ms(&mut block), "ran dry after {length} ms");
                sent += 1;
            }
        }
        assert_eq!(sent, 100);
    }
}

#[test]
fn losses_stay_loud() {
    let params = OpusParams { fec: false, ..OpusParams::default() };
    let sent = send(2_000, params, |_| Say::Tone);
    let mut far = FarEnd::new(16_000, 1);
    far.receive_until(&Network { loss: 0.1, ..Network::perfect() }.carry(&sent), Duration::from_secs(20));
    let quiet = quiet_blocks(0.5, 16_000, begun(16_000, &far.pcm));
    assert!(quiet < 80, "{quiet} of 2,000 blocks with a tenth of the packets lost");
}

#[test]
fn what_is_made_up_fits_on_both_sides() {
    for (rate, channels) in [(8_000, 1), (16_000, 1), (48_000, 1), (48_000, 2)] {
        for hertz in [75.0, 220.0, 440.0, 1_000.0] {
            let sound = |from: u64, samples: usize| -> Vec<i16> {
                let mono = tone(hertz, rate, from, samples);
                mono.into_iter().flat_map(|sample| vec![sample; usize::from(channels)]).collect()
            };
            let piece = rate as usize / 100;
            let mut continuation = Continuation::new(rate, channels);
            let mut heard = sound(0, 6 * piece);
            continuation.hear(&heard);
            let mut made_up = Vec::new();
            for _ in 0..3 {
                assert_eq!(continuation.is_going_on(), !made_up.is_empty());
                continuation.go_on(piece, &mut made_up);
            }
            assert_eq!(made_up.len(), 3 * piece * usize::from(channels));
            let mut real = sound(6 * piece as u64, 2 * piece);
            let (before, last) = (real.len(), *real.last().unwrap());
            let added = continuation.lead_over(&mut real, 1.0);
            assert!(added <= piece);
            assert_eq!(real.len(), before + added * usize::from(channels));
            assert_eq!(*real.last().unwrap(), last);
            assert!(!continuation.is_going_on());
            heard.extend(made_up);
            heard.extend(real);
            assert_eq!(quiet_blocks(0.7, rate * u32::from(channels), &heard), 0, "{hertz} Hz at {rate} Hz");
            let steepest = |pcm: &[i16]| {
                let channels = usize::from(channels);
                (channels..pcm.len()).map(|at| pcm[at].abs_diff(pcm[at - channels])).max().unwrap()
            };
            let usual = steepest(&sound(0, rate as usize));
            assert!(
                steepest(&heard) <= usual + usual / 2 + 100,
                "{hertz} Hz at {rate} Hz: {} instead of {usual}",
                steepest(&heard)
            );
        }
    }
}

#[test]
fn silence_goes_on_as_silence_and_crumbs_are_safe() {
    let mut continuation = Continuation::new(16_000, 2);
    let mut pcm = Vec::new();
    assert_eq!(continuation.lead_over(&mut pcm, 1.0), 0, "nothing to join");
    continuation.go_on(1_000, &mut pcm);
    assert_eq!(pcm, vec![0; 2_000]);
    for frames in 0..100 {
        let mut crumb = vec![1_000; frames * 2];
        continuation.hear(&crumb);
        continuation.go_on(frames, &mut pcm);
        let added = continuation.lead_over(&mut crumb, 0.5);
        assert_eq!(crumb.len(), (frames + added) * 2);
    }
}
