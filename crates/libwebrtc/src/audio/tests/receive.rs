//! The receiver in unusual and hostile situations.

use super::network::{FarEnd, Network, Say, Travelling, send};
use super::signal::{all_loud, all_quiet, loud_fraction};
use crate::audio::codec::OpusParams;
use crate::audio::jitter::{JitterBuffer, MAX_PACKETS};
use crate::audio::receiver::{AudioReceiver, Origin};
use proptest::prelude::*;
use std::time::{Duration, Instant};

fn tone_packets(seconds: usize) -> Vec<Travelling> {
    send(seconds * 100, OpusParams::default(), |_| Say::Tone)
}

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

#[test]
fn before_the_first_packet_there_is_silence() {
    let mut receiver = AudioReceiver::new(11_025, 2).unwrap();
    let (now, mut pcm, mut total) = (Instant::now(), Vec::new(), 0);
    for tick in 0..100 {
        let info = receiver.pull_10ms(now + millis(tick * 10), &mut pcm);
        assert_eq!(info.origin, Origin::Nothing);
        assert!(pcm.iter().all(|sample| *sample == 0));
        total += info.samples_per_channel;
    }
    assert_eq!(total, 11_025);
    let stats = receiver.stats();
    assert_eq!((stats.concealed_samples, stats.audio_level), (0, 0.0));
    assert!(AudioReceiver::new(0, 1).is_err());
    assert!(AudioReceiver::new(48_000, 0).is_err());
}

#[test]
fn a_stream_that_stops_fades_out_and_one_that_returns_is_heard() {
    let sent = tone_packets(6);
    // Nothing arrives from 2 s to 4 s.
    let arriving: Vec<_> = Network::perfect()
        .carry(&sent)
        .into_iter()
        .filter(|packet| !(2_000..4_000).contains(&packet.at.as_millis()))
        .collect();
    let mut far = FarEnd::new(48_000, 1);
    far.receive_until(&arriving, millis(6_000));
    let heard = |from: usize, to: usize| &far.pcm[from * 48..to * 48];
    assert!(all_loud(48_000, heard(200, 2_050)));
    assert!(loud_fraction(48_000, heard(2_050, 2_110)) > 0.9, "made up at first");
    assert!(all_quiet(48_000, heard(2_200, 4_000)), "then silent");
    assert!(all_loud(48_000, heard(4_090, 6_000)));
    let stats = far.receiver.stats();
    assert_eq!(stats.concealment_events, 1);
    assert!(stats.silent_concealed_samples > 80_000);
}

#[test]
fn what_returns_after_silence_comes_without_a_click() {
    let arriving = Network::perfect().carry(&tone_packets(2));
    for outage in (500..700).step_by(20) {
        let received: Vec<_> = arriving
            .iter()
            .filter(|packet| !(outage..outage + 200).contains(&packet.at.as_millis()))
            .cloned()
            .collect();
        let mut far = FarEnd::new(48_000, 1);
        far.receive_until(&received, millis(2_000));
        let heard = &far.pcm[outage as usize * 48 + 180 * 48..outage as usize * 48 + 300 * 48];
        // A tone of 440 Hz and amplitude 10 000 rises by 576 at most from sample to sample.
        let steepest = heard.windows(2).map(|pair| pair[1].abs_diff(pair[0])).max();
        assert!(steepest < Some(900), "outage at {outage} ms: {steepest:?}");
    }
}

#[test]
fn packets_held_back_are_played_and_the_delay_recovers() {
    let sent = tone_packets(20);
    // What should arrive between 2 s and 2.3 s comes all at once at 2.3 s.
    let mut arriving = Network::perfect().carry(&sent);
    for packet in &mut arriving {
        if (2_000..2_300).contains(&packet.at.as_millis()) {
            packet.at = millis(2_300);
        }
    }
    let mut far = FarEnd::new(48_000, 1);
    far.receive_until(&arriving, millis(15_000));
    let recovered = far.receiver.stats();
    assert_eq!((recovered.late, recovered.lost), (0, 0));
    far.receive_until(&arriving, millis(20_000));
    let wait = far.mean_wait_since(&recovered);
    assert!(wait < 75.0, "{wait} ms");
    assert!(all_loud(48_000, &far.pcm[2_400 * 48..]), "no hole after the stall");
}

#[test]
fn a_long_stall_is_cut_short() {
    let sent = tone_packets(10);
    let mut arriving = Network::perfect().carry(&sent);
    for packet in &mut arriving {
        if (2_000..4_000).contains(&packet.at.as_millis()) {
            packet.at = millis(4_000);
        }
    }
    let mut far = FarEnd::new(48_000, 1);
    far.receive_until(&arriving, millis(5_000));
    let after = far.receiver.stats();
    far.receive_until(&arriving, millis(10_000));
    assert!(far.mean_wait_since(&after) < 300.0, "{}", far.mean_wait_since(&after));
    assert!(after.discarded > 50, "two seconds late is of no use");
    assert!(all_loud(48_000, &far.pcm[4_300 * 48..]));
}

#[test]
fn a_slower_route_is_got_used_to() {
    let sent = tone_packets(20);
    let mut arriving = Network::perfect().carry(&sent);
    for packet in arriving.iter_mut().filter(|packet| packet.at > millis(3_000)) {
        packet.at += millis(150);
    }
    let mut far = FarEnd::new(48_000, 1);
    far.receive_until(&arriving, millis(15_000));
    let settled = far.receiver.stats();
    far.receive_until(&arriving, millis(20_000));
    assert_eq!(far.receiver.stats().concealed_samples, settled.concealed_samples);
    assert!(far.mean_wait_since(&settled) < 75.0, "{}", far.mean_wait_since(&settled));
    assert!(all_loud(48_000, &far.pcm[3_400 * 48..]));
}

#[test]
fn a_sender_that_starts_over_is_followed() {
    let sent = tone_packets(2);
    let far_away = Network::perfect().carry(&sent);
    for (time_jump, announced) in
        [(1_000_000_000_u32, false), (10_000_000, true), (4_290_000_000, false), (0, false), (240_000, false)]
    {
        let again = far_away.iter().map(|packet| Travelling {
            at: packet.at + millis(2_000),
            sequence: packet.sequence + 40_000,
            rtp_time: packet.rtp_time.wrapping_add(time_jump),
            ..packet.clone()
        });
        let mut far = FarEnd::new(48_000, 1);
        far.receive_until(&far_away, millis(2_000));
        if announced {
            far.receiver.reset();
        }
        far.receive_until(&again.collect::<Vec<_>>(), millis(4_000));
        assert!(all_loud(48_000, &far.pcm[2_300 * 48..]), "{time_jump}");
    }
}

#[test]
fn one_stray_packet_does_not_disturb() {
    let mut arriving = Network::perfect().carry(&tone_packets(4));
    let stray = arriving[100].clone();
    arriving.insert(101, Travelling { sequence: 70_000, rtp_time: stray.rtp_time ^ 0x4000_0000, ..stray });
    let mut far = FarEnd::new(48_000, 1);
    far.receive_until(&arriving, millis(4_000));
    let stats = far.receiver.stats();
    assert_eq!((stats.discarded, stats.concealed_samples), (1, 0), "{stats:?}");
}

#[test]
fn a_clock_that_rests_while_the_sender_pauses_is_fine() {
    // Some senders do not let RTP time go on while they have nothing to send.
    let mut sent = tone_packets(4);
    for packet in sent.iter_mut().filter(|packet| packet.at >= millis(2_000)) {
        packet.at += millis(30_000);
    }
    let mut far = FarEnd::new(48_000, 1);
    far.receive_until(&Network::perfect().carry(&sent), millis(34_000));
    let stats = far.receiver.stats();
    assert_eq!((stats.late, stats.discarded), (0, 0), "{stats:?}");
    assert!(all_loud(48_000, &far.pcm[32_100 * 48..]));
}

#[test]
fn packets_that_nobody_pulls_are_bounded() {
    let now = Instant::now();
    let mut buffer = JitterBuffer::new();
    let real = tone_packets(1)[10].payload.clone();
    for packet in 0..10_000_u32 {
        buffer.insert(now, u64::from(packet), packet * 960, &real);
    }
    assert!(buffer.len() <= 50, "a second at most, not {}", buffer.len());
    // Packets of 2.5 ms, one byte after the other in time.
    let mut buffer = JitterBuffer::new();
    for packet in 0..10_000_u32 {
        buffer.insert(now, u64::from(packet), packet, &[0b1110_0000, 1, 2, 3]);
    }
    assert!(buffer.len() <= MAX_PACKETS);
    buffer.insert(now, 20_000, 10_001, &vec![0b1110_0000; 60_000]);
    assert!(buffer.len() <= MAX_PACKETS);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn whatever_comes_10_ms_go_out(
        rate in prop::sample::select(vec![8_000_u32, 16_000, 44_100, 48_000]),
        channels in 1_u16..=2,
        packets in prop::collection::vec(
            (0_u64..60, any::<bool>(), prop_oneof![0_u32..20_000, any::<u32>()],
             prop::collection::vec(any::<u8>(), 0..60), 0_u64..30, any::<bool>()),
            1..120),
    ) {
        let mut receiver = AudioReceiver::new(rate, channels).unwrap();
        let (start, mut now) = (Instant::now(), Duration::ZERO);
        let (mut pcm, mut pulls) = (Vec::new(), 0);
        for (sequence, jump, rtp_time, payload, wait, red) in packets {
            let sequence = if jump { sequence << 40 } else { sequence };
            if red {
                let _ = receiver.insert_red(start + now, sequence, rtp_time, &payload, 111);
            } else {
                receiver.insert(start + now, sequence, rtp_time, &payload);
            }
            now += millis(wait);
            let info = receiver.pull_10ms(start + now, &mut pcm);
            pulls += 1;
            prop_assert_eq!(info.samples_per_channel, rate as usize / 100);
            prop_assert_eq!(pcm.len(), info.samples_per_channel * usize::from(channels));
        }
        prop_assert_eq!(receiver.stats().total_samples, pulls * u64::from(rate) / 100);
    }
}
