//! From sender to receiver through good and bad networks, judged by what is heard.

use super::network::{FarEnd, Network, Say, Travelling, send, with_red};
use super::signal::{all_loud, all_quiet, amplitude_of, loud_fraction, purity, usual_amplitude_of};
use crate::audio::codec::{Decoder, OpusDecoder, OpusParams};
use crate::audio::receiver::ReceiverStats;
use std::time::Duration;

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn tone_packets(seconds: usize) -> Vec<Travelling> {
    send(seconds * 100, OpusParams::default(), |_| Say::Tone)
}

/// What the packets hold when decoded one after the other.
fn decoded(packets: &[Travelling]) -> Vec<i16> {
    let mut decoder = OpusDecoder::new(48_000, 1).unwrap();
    let mut pcm = Vec::new();
    for packet in packets {
        decoder.decode(&packet.payload, &mut pcm).unwrap();
    }
    pcm
}

#[test]
fn without_losses_every_sample_is_heard() {
    let sent = tone_packets(5);
    for duplicates in [0.0, 0.3] {
        let arriving = Network { duplicates, ..Network::perfect() }.carry(&sent);
        let mut far = FarEnd::new(48_000, 1);
        far.receive_until(&arriving, seconds(5));
        let truth = decoded(&sent);
        let start = far.pcm.iter().position(|sample| *sample != 0).unwrap() / 480 * 480;
        // The first packet is sent at 10 ms, travels for 20 ms and waits for 40 ms.
        assert_eq!(start, 7 * 480);
        assert_eq!(far.pcm[start..], truth[..far.pcm.len() - start]);
        let stats = far.receiver.stats();
        assert_eq!((stats.lost, stats.late, stats.concealed_samples), (0, 0, 0));
        assert_eq!(stats.duplicated > 0, duplicates > 0.0);
        assert_eq!(stats.total_samples, 5 * 48_000);
        assert!((stats.total_duration - 5.0).abs() < 1e-6);
        assert!((39.0..51.0).contains(&far.mean_wait_since(&ReceiverStats::default())));
    }
}

#[test]
fn the_tone_is_right_at_every_output_rate() {
    let arriving = Network::perfect().carry(&tone_packets(3));
    for rate in [8_000, 11_025, 16_000, 22_050, 24_000, 44_100, 48_000, 96_000] {
        for channels in [1, 2, 3] {
            let mut far = FarEnd::new(rate, channels);
            far.receive_until(&arriving, seconds(3));
            assert_eq!(far.pcm.len(), 3 * rate as usize * usize::from(channels));
            for channel in 0..usize::from(channels) {
                let pcm: Vec<i16> = far
                    .pcm
                    .iter()
                    .skip(channel)
                    .step_by(usize::from(channels))
                    .skip(rate as usize)
                    .copied()
                    .collect();
                let amplitude = amplitude_of(440.0, rate, &pcm);
                assert!(
                    (9_500.0..10_500.0).contains(&amplitude),
                    "{rate} Hz, {channels} channels: {amplitude}"
                );
                assert!(purity(440.0, rate, &pcm) > 20.0, "{}", purity(440.0, rate, &pcm));
            }
        }
    }
}

#[test]
fn a_tenth_lost_is_hardly_heard() {
    let sent = tone_packets(20);
    let mut far = FarEnd::new(48_000, 1);
    far.receive_until(&Network { loss: 0.1, ..Network::perfect() }.carry(&sent), seconds(20));
    let heard = &far.pcm[4_800..];
    assert!(loud_fraction(48_000, heard) >= 0.97, "{}", loud_fraction(48_000, heard));
    let amplitude = usual_amplitude_of(440.0, 48_000, heard);
    assert!((9_000.0..10_500.0).contains(&amplitude), "{amplitude}");
    let stats = far.receiver.stats();
    assert!((60..140).contains(&stats.lost), "{stats:?}");
    assert!(stats.concealed_samples > 20_000 && stats.concealment_events > 50, "{stats:?}");
    assert!(far.mean_wait_since(&ReceiverStats::default()) < 60.0);
}

#[test]
fn in_band_redundancy_is_used() {
    let params = OpusParams { expected_loss_percent: 20, ..OpusParams::default() };
    let sent = send(2_000, params, |_| Say::Voice);
    let mut far = FarEnd::new(16_000, 1);
    far.receive_until(&Network { loss: 0.1, ..Network::perfect() }.carry(&sent), seconds(20));
    let stats = far.receiver.stats();
    assert!(stats.fec_recovered * 2 > stats.lost, "{stats:?}");
}

#[test]
fn jitter_and_reordering_are_evened_out() {
    let sent = tone_packets(20);
    let arriving = Network { jitter: Duration::from_millis(30), ..Network::perfect() }.carry(&sent);
    assert!(arriving.windows(2).any(|pair| pair[0].sequence > pair[1].sequence), "some overtake others");
    let mut far = FarEnd::new(48_000, 1);
    far.receive_until(&arriving, seconds(3));
    let settled = far.receiver.stats();
    far.receive_until(&arriving, seconds(20));
    let stats = far.receiver.stats();
    assert_eq!(stats.lost, 0);
    assert_eq!(
        stats.concealed_samples, settled.concealed_samples,
        "nothing is made up once the jitter is known"
    );
    assert!(all_loud(48_000, &far.pcm[48_000..]));
    assert!(purity(440.0, 48_000, &far.pcm[18 * 48_000..]) > 15.0);
    assert!(far.mean_wait_since(&settled) < 80.0, "{}", far.mean_wait_since(&settled));
}

#[test]
fn a_third_lost_is_repaired_by_red() {
    let sent = with_red(&tone_packets(20), 2);
    let mut far = FarEnd::new(48_000, 1);
    far.receive_until(&Network { loss: 0.3, ..Network::perfect() }.carry(&sent), seconds(20));
    let stats = far.receiver.stats();
    assert!(stats.red_recovered > 200, "{stats:?}");
    // One in 37 is lost three times in a row; those may be made up.
    assert!(stats.concealed_samples < 20 * 48_000 / 20, "{stats:?}");
    assert!(loud_fraction(48_000, &far.pcm[4_800..]) >= 0.99);
    assert_eq!(stats.late, 0);

    // Without losses RED changes nothing.
    let plain = tone_packets(3);
    let mut far = FarEnd::new(48_000, 1);
    far.receive_until(&Network::perfect().carry(&with_red(&plain, 2)), seconds(3));
    let truth = decoded(&plain);
    assert_eq!(far.pcm[7 * 480..], truth[..far.pcm.len() - 7 * 480]);
    assert_eq!(far.receiver.stats().red_recovered, 0);
}

#[test]
fn everything_at_once() {
    let sent = with_red(&tone_packets(20), 1);
    let network =
        Network { loss: 0.1, duplicates: 0.1, jitter: Duration::from_millis(30), ..Network::perfect() };
    let mut far = FarEnd::new(16_000, 2);
    far.receive_until(&network.carry(&sent), seconds(20));
    let left: Vec<i16> = far.pcm.iter().step_by(2).copied().collect();
    assert!(loud_fraction(16_000, &left[16_000..]) >= 0.99);
    let amplitude = usual_amplitude_of(440.0, 16_000, &left[16_000..]);
    assert!((9_000.0..10_500.0).contains(&amplitude), "{amplitude}");
    assert!(far.mean_wait_since(&ReceiverStats::default()) < 100.0);
}

#[test]
fn silence_with_dtx_is_silent_and_speech_returns_whole() {
    let params = OpusParams { dtx: true, ..OpusParams::default() };
    for pause in [Say::Silence, Say::Nothing] {
        let spoken = |tick: usize| tick % 300 < 100;
        let sent = send(1_200, params.clone(), |tick| if spoken(tick) { Say::Voice } else { pause });
        assert!(sent.len() < 350, "{} packets for 4 s of speech in 12 s", sent.len());
        let mut far = FarEnd::new(48_000, 1);
        far.receive_until(&Network::perfect().carry(&sent), seconds(12));
        let stats = far.receiver.stats();
        assert_eq!((stats.late, stats.discarded, stats.lost), (0, 0, 0), "{pause:?}: {stats:?}");
        for round in 0..4 {
            // Speech is heard 70 to 90 ms after it was said.
            let start = round * 3 * 48_000 + 4_320;
            assert!(loud_fraction(48_000, &far.pcm[start..start + 42_000]) > 0.9, "{pause:?} {round}");
            let quiet = &far.pcm[start + 72_000..start + 130_000];
            assert!(all_quiet(48_000, quiet), "{pause:?} {round}");
        }
        assert_eq!(stats.concealed_samples, 0, "a silence that was announced is no loss");
    }
}

#[test]
fn clocks_that_run_apart_do_not_change_the_delay() {
    let sent = tone_packets(60);
    for clock_ppm in [1_000.0, -1_000.0] {
        let mut far = FarEnd::new(48_000, 1);
        far.clock_ppm = clock_ppm;
        let arriving = Network::perfect().carry(&sent);
        far.receive_until(&arriving, seconds(50));
        let before = far.receiver.stats();
        far.receive_until(&arriving, seconds(60));
        let wait = far.mean_wait_since(&before);
        assert!((15.0..75.0).contains(&wait), "{clock_ppm} ppm: {wait} ms after a minute");
        let stats = far.receiver.stats();
        assert_eq!((stats.late, stats.discarded), (0, 0));
        assert!(stats.concealed_samples <= 480, "{clock_ppm} ppm: {stats:?}");
        // 60 ms have to go; a few corrections must do.
        let corrected = stats.inserted_samples_for_deceleration + stats.removed_samples_for_acceleration;
        assert!((1_000..4_800).contains(&corrected), "{clock_ppm} ppm: {stats:?}");
        assert!(all_loud(48_000, &far.pcm[9_600..]));
    }
}

#[test]
fn the_drift_of_an_hour_leaves_the_delay_where_it_was() {
    // 100 ppm in an hour are 300 ppm in 20 minutes. The same packets come again and again, with the
    // times they would have.
    let second = tone_packets(1);
    let mut far = FarEnd::new(8_000, 1);
    far.clock_ppm = 300.0;
    for now in 0..20 * 60 {
        let again: Vec<Travelling> = second
            .iter()
            .map(|packet| Travelling {
                at: packet.at + seconds(now),
                sequence: packet.sequence + now * 50,
                rtp_time: packet.rtp_time.wrapping_add(now as u32 * 48_000),
                ..packet.clone()
            })
            .collect();
        far.receive_until(&again, seconds(now + 1));
        far.pcm.clear();
    }
    let stats = far.receiver.stats();
    let wait = far.mean_wait_since(&ReceiverStats::default());
    assert!((15.0..75.0).contains(&wait), "{wait} ms");
    assert!(stats.concealed_samples < 8_000 / 10, "{stats:?}");
    assert_eq!(stats.late + stats.discarded, 0);
}
