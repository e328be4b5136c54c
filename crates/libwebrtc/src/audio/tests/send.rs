//! The sender by itself: what it sends, when, and how it is marked.

use super::network::{Say, send};
use super::signal::{amplitude_of, tone, voice};
use crate::audio::clock::BlockSizes;
use crate::audio::codec::{Decoder, OpusDecoder, OpusParams, is_dtx};
use crate::audio::sender::{AudioSender, EncodedPacket};

fn dtx() -> OpusParams {
    OpusParams { dtx: true, ..OpusParams::default() }
}

fn decode(packets: &[EncodedPacket], channels: u16) -> Vec<i16> {
    let mut decoder = OpusDecoder::new(48_000, channels).unwrap();
    let mut pcm = Vec::new();
    for packet in packets {
        decoder.decode(&packet.payload, &mut pcm).unwrap();
    }
    pcm
}

#[test]
fn sources_of_any_rate_and_channels_sound_right() {
    for rate in [8_000, 11_025, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000, 96_000] {
        for channels in [1, 2, 4] {
            let mut sender = AudioSender::new(rate, channels, OpusParams::default()).unwrap();
            let mut sizes = BlockSizes::new(rate);
            let (mut packets, mut at) = (Vec::new(), 0);
            for _ in 0..100 {
                let block = tone(440.0, rate, at, sizes.advance());
                at += block.len() as u64;
                let interleaved: Vec<i16> = block
                    .iter()
                    .flat_map(|sample| std::iter::repeat_n(*sample, usize::from(channels)))
                    .collect();
                sender.push(&interleaved, false, &mut packets).unwrap();
            }
            assert!((49..=50).contains(&packets.len()), "{rate} Hz: {} packets", packets.len());
            assert!(packets.iter().zip(0..).all(|(packet, number)| packet.rtp_time == number * 960));
            let amplitude = amplitude_of(440.0, 48_000, &decode(&packets, 1)[9_600..]);
            assert!((9_000.0..11_000.0).contains(&amplitude), "{rate} Hz, {channels} channels: {amplitude}");
            assert_eq!(packets[20].audio_level, -13, "a sine of amplitude 10 000");
            assert!(packets[20].voice_activity);
        }
    }
    assert!(AudioSender::new(48_000, 0, OpusParams::default()).is_err());
    assert!(AudioSender::new(10, 1, OpusParams::default()).is_err());
}

#[test]
fn stereo_is_sent_only_to_those_who_take_it() {
    let block = |at: u64| -> Vec<i16> {
        let (left, right) = (tone(440.0, 48_000, at * 480, 480), tone(1_000.0, 48_000, at * 480, 480));
        left.iter().zip(&right).flat_map(|(l, r)| [*l, *r]).collect()
    };
    let mut sender = AudioSender::new(48_000, 2, OpusParams::default()).unwrap();
    let mut mono = Vec::new();
    (0..100).for_each(|at| sender.push(&block(at), false, &mut mono).unwrap());
    let decoded = decode(&mono, 2);
    assert!(decoded.chunks(2).all(|frame| frame[0] == frame[1]));

    // With in-band redundancy Opus itself would move the channels together.
    sender.set_params(OpusParams { stereo: true, fec: false, ..OpusParams::default() }).unwrap();
    let mut stereo = Vec::new();
    (100..200).for_each(|at| sender.push(&block(at), false, &mut stereo).unwrap());
    assert_eq!(stereo[0].rtp_time, 100 * 480, "time goes on");
    let left: Vec<i16> = decode(&stereo, 2)[19_200..].iter().step_by(2).copied().collect();
    let (own, other) = (amplitude_of(440.0, 48_000, &left), amplitude_of(1_000.0, 48_000, &left));
    assert!(own > 5.0 * other, "{own} {other}");
}

#[test]
fn mute_sends_silence_without_a_click() {
    let mut sender = AudioSender::new(48_000, 1, OpusParams::default()).unwrap();
    let mut packets = Vec::new();
    for at in 0..300 {
        let muted = (100..200).contains(&at);
        sender.push(&tone(440.0, 48_000, at * 480, 480), muted, &mut packets).unwrap();
    }
    assert_eq!(packets.len(), 150, "as many packets as ever");
    let decoded = decode(&packets, 1);
    assert!(decoded[60_000..95_000].iter().all(|sample| sample.abs() < 60), "silent");
    assert!(packets[60..95].iter().all(|packet| packet.audio_level == -127 && !packet.voice_activity));
    assert!(amplitude_of(440.0, 48_000, &decoded[106_000..]) > 9_000.0, "heard again");
    // A tone of 440 Hz and amplitude 10 000 rises by 576 at most from sample to sample.
    let steepest =
        decoded.windows(2).map(|pair| (i32::from(pair[1]) - i32::from(pair[0])).abs()).max().unwrap();
    assert!(steepest < 1_000, "{steepest}");
}

#[test]
fn dtx_leaves_packets_out_keeps_time_and_marks_the_next_talk_spurt() {
    let mut sender = AudioSender::new(48_000, 1, dtx()).unwrap();
    let mut packets = Vec::new();
    for at in 0..600_u64 {
        let block = if (200..400).contains(&at) { vec![0; 480] } else { voice(48_000, at * 480, 480) };
        sender.push(&block, false, &mut packets).unwrap();
    }
    let silent: Vec<_> =
        packets.iter().filter(|packet| (120_000..192_000).contains(&packet.rtp_time)).collect();
    assert!((1..15).contains(&silent.len()), "{} packets in 1.5 s of silence", silent.len());
    assert!(silent.iter().any(|packet| is_dtx(&packet.payload)), "the far end is told");
    assert!(packets.iter().all(|packet| packet.rtp_time % 960 == 0));
    let marked: Vec<u64> =
        packets.iter().filter(|packet| packet.marker).map(|packet| packet.rtp_time / 960).collect();
    assert_eq!(marked.len(), 2, "{marked:?}");
    assert!(marked[0] < 5 && (200..205).contains(&marked[1]), "{marked:?}");
}

#[test]
fn a_source_that_has_nothing_costs_little_and_time_goes_on() {
    for rate in [48_000, 44_100] {
        let mut sender = AudioSender::new(rate, 1, dtx()).unwrap();
        let block = rate as usize / 100;
        let mut packets = Vec::new();
        (0..100).for_each(|at| sender.push(&voice(rate, at * 480, block), false, &mut packets).unwrap());
        let spoken = packets.len();
        (0..1_000).for_each(|_| sender.idle(&mut packets).unwrap());
        let silent = packets.len() - spoken;
        assert!((25..50).contains(&silent), "{silent} packets in 10 s");
        let longest = packets.windows(2).map(|pair| pair[1].rtp_time - pair[0].rtp_time).max().unwrap();
        assert!(longest <= 48_000 / 2, "something is sent every half second");
        sender.advance(50);
        let before = packets.len();
        (0..10).for_each(|at| sender.push(&voice(rate, at * 480, block), false, &mut packets).unwrap());
        assert_eq!(packets[before].rtp_time, (100 + 1_000 + 50) * 480);
        assert!(packets[before..].iter().any(|packet| packet.marker));
    }
}

#[test]
fn dtx_never_leaves_out_what_can_be_heard() {
    // Opus alone takes a steady tone for noise after about a second.
    let mut sender = AudioSender::new(48_000, 1, dtx()).unwrap();
    let mut packets = Vec::new();
    for block in 0..1_000_u32 {
        let pcm: Vec<i16> = (0..480)
            .map(|i| {
                let t = f64::from(block * 480 + i) / 48_000.0;
                ((t * 440.0 * std::f64::consts::TAU).sin() * 300.0) as i16
            })
            .collect();
        sender.push(&pcm, false, &mut packets).unwrap();
    }
    assert_eq!(packets.len(), 500);
    assert!(packets.iter().all(|packet| !is_dtx(&packet.payload)));
}

#[test]
fn without_dtx_silence_is_sent_like_anything_else() {
    let sent = send(400, OpusParams::default(), |tick| if tick < 100 { Say::Voice } else { Say::Nothing });
    assert_eq!(sent.len(), 200);
}
