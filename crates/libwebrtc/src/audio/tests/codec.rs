//! Opus through the codec traits.

use super::signal::{amplitude_of, tone, voice};
use crate::audio::codec::{
    CodecError, Decoder, Encoder, NATIVE_RATES, OpusDecoder, OpusEncoder, OpusParams, carries_fec, is_dtx,
    native_rate_for, packet_samples_48k,
};
use crate::audio::level::rms;
use proptest::prelude::*;

fn encode_all(encoder: &mut OpusEncoder, pcm: &[i16]) -> Vec<Vec<u8>> {
    let frame = encoder.rate() as usize / 50 * usize::from(encoder.channels());
    pcm.chunks_exact(frame)
        .map(|pcm| {
            let mut packet = Vec::new();
            encoder.encode(pcm, &mut packet).unwrap();
            packet
        })
        .collect()
}

#[test]
fn a_tone_survives_every_rate() {
    for rate in NATIVE_RATES {
        let mut encoder = OpusEncoder::new(rate, 1, &OpusParams::default()).unwrap();
        let packets = encode_all(&mut encoder, &tone(440.0, rate, 0, rate as usize));
        assert!(packets.iter().all(|packet| packet_samples_48k(packet) == Some(960)));
        let mut decoder = OpusDecoder::new(48_000, 1).unwrap();
        let mut pcm = Vec::new();
        for packet in &packets {
            assert_eq!(decoder.decode(packet, &mut pcm), Ok(960));
        }
        let amplitude = amplitude_of(440.0, 48_000, &pcm[9_600..]);
        assert!((9_000.0..11_000.0).contains(&amplitude), "{rate} Hz: {amplitude}");
    }
}

#[test]
fn the_bit_rate_can_be_bounded_while_running() {
    let mut encoder = OpusEncoder::new(48_000, 1, &OpusParams::default()).unwrap();
    let pcm = voice(48_000, 0, 96_000);
    let bytes = |encoder: &mut OpusEncoder| encode_all(encoder, &pcm).iter().map(Vec::len).sum::<usize>();
    let usual = bytes(&mut encoder);
    encoder.configure(&OpusParams { max_bitrate: Some(12_000), ..OpusParams::default() }).unwrap();
    let bounded = bytes(&mut encoder);
    assert!(bounded * 3 < usual * 2, "{bounded} bytes instead of {usual}");
    assert!(bounded < 2 * 12_000 / 8 * 12 / 10);
}

#[test]
fn redundancy_brings_back_a_lost_frame() {
    let pcm = voice(48_000, 0, 48_000);
    let without = OpusParams { fec: false, ..OpusParams::default() };
    let packets = encode_all(&mut OpusEncoder::new(48_000, 1, &without).unwrap(), &pcm);
    assert!(!packets.iter().any(|packet| carries_fec(packet)));

    let with = OpusParams { expected_loss_percent: 20, ..OpusParams::default() };
    let packets = encode_all(&mut OpusEncoder::new(48_000, 1, &with).unwrap(), &pcm);
    assert!(packets.iter().filter(|packet| carries_fec(packet)).count() > 25);

    // Every recovered frame is closer to the truth than a made-up one.
    let (mut recovered_error, mut concealed_error) = (0.0, 0.0);
    for lost in (10..45).filter(|lost| carries_fec(&packets[lost + 1])) {
        let mut decoders = [(); 3].map(|()| OpusDecoder::new(48_000, 1).unwrap());
        let mut outputs = [(); 3].map(|()| Vec::new());
        for (decoder, output) in decoders.iter_mut().zip(&mut outputs) {
            packets[..lost].iter().for_each(|packet| {
                decoder.decode(packet, output).unwrap();
            });
            output.clear();
        }
        decoders[0].decode(&packets[lost], &mut outputs[0]).unwrap();
        decoders[1].decode_fec(&packets[lost + 1], 960, &mut outputs[1]).unwrap();
        decoders[2].conceal(960, &mut outputs[2]).unwrap();
        let error = |output: &[i16]| {
            let difference: Vec<i16> =
                outputs[0].iter().zip(output).map(|(a, b)| a.saturating_sub(*b)).collect();
            rms(&difference)
        };
        recovered_error += error(&outputs[1]);
        concealed_error += error(&outputs[2]);
    }
    assert!(recovered_error < concealed_error * 0.7, "{recovered_error} against {concealed_error}");
}

#[test]
fn concealment_has_any_length_and_changes_can_be_reset() {
    let mut encoder = OpusEncoder::new(48_000, 2, &OpusParams::default()).unwrap();
    let packets = encode_all(&mut encoder, &tone(440.0, 96_000, 0, 19_200));
    for rate in NATIVE_RATES {
        let mut decoder = OpusDecoder::new(rate, 2).unwrap();
        let mut pcm = Vec::new();
        for samples in [0, 1, 100, 481, 20_000] {
            decoder.decode(&packets[3], &mut pcm).unwrap();
            pcm.clear();
            decoder.conceal(samples, &mut pcm).unwrap();
            assert_eq!(pcm.len(), samples * 2);
        }
        decoder.reset();
        pcm.clear();
        decoder.conceal(960, &mut pcm).unwrap();
        assert!(pcm.iter().all(|sample| *sample == 0), "nothing to go on from");
    }
}

#[test]
fn silence_ends_in_dtx() {
    let params = OpusParams { dtx: true, ..OpusParams::default() };
    let mut encoder = OpusEncoder::new(16_000, 1, &params).unwrap();
    encode_all(&mut encoder, &voice(16_000, 0, 16_000));
    let packets = encode_all(&mut encoder, &vec![0; 16_000]);
    assert!(packets.iter().filter(|packet| is_dtx(packet)).count() > 25);
}

#[test]
fn wrong_uses_are_errors() {
    assert_eq!(OpusDecoder::new(44_100, 1).err(), Some(CodecError::UnsupportedRate(44_100)));
    assert_eq!(OpusDecoder::new(48_000, 3).err(), Some(CodecError::UnsupportedChannels(3)));
    assert!(OpusEncoder::new(22_050, 1, &OpusParams::default()).is_err());
    let mut encoder = OpusEncoder::new(48_000, 1, &OpusParams::default()).unwrap();
    let wrong = CodecError::WrongFrameLength { got: 480, expected: 960 };
    assert_eq!(encoder.encode(&[0; 480], &mut Vec::new()), Err(wrong));
    let mut decoder = OpusDecoder::new(48_000, 1).unwrap();
    assert_eq!(decoder.decode(&[], &mut Vec::new()), Err(CodecError::InvalidPacket));
    assert_eq!(native_rate_for(11_025), 12_000);
    assert_eq!(native_rate_for(96_000), 48_000);
}

#[test]
fn durations_are_read_from_the_first_bytes() {
    assert_eq!(packet_samples_48k(&[]), None);
    assert_eq!(packet_samples_48k(&[0b0100_1000]), Some(960), "SILK, 20 ms");
    assert_eq!(packet_samples_48k(&[0b0101_1001]), Some(5_760), "SILK, twice 60 ms");
    assert_eq!(packet_samples_48k(&[0b0111_0000]), Some(480), "hybrid, 10 ms");
    assert_eq!(packet_samples_48k(&[0b1110_0000]), Some(120), "CELT, 2.5 ms");
    assert_eq!(packet_samples_48k(&[0b1111_1011]), None, "a frame count is missing");
    assert_eq!(packet_samples_48k(&[0b1111_1011, 0]), None, "no frame at all");
    assert_eq!(packet_samples_48k(&[0b1111_1011, 6]), Some(5_760));
    assert_eq!(packet_samples_48k(&[0b1111_1011, 7]), None, "more than 120 ms");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn hostile_packets_are_decoded_or_refused(
        rate in prop::sample::select(NATIVE_RATES.to_vec()),
        channels in 1_u16..=2,
        packets in prop::collection::vec((0_u8..4, prop::collection::vec(any::<u8>(), 0..300)), 1..12),
    ) {
        let mut decoder = OpusDecoder::new(rate, channels).unwrap();
        for (kind, packet) in packets {
            let mut pcm = Vec::new();
            let duration = packet_samples_48k(&packet);
            if kind == 0 {
                let _ = decoder.decode_fec(&packet, rate as usize / 50, &mut pcm);
            } else if kind == 1 {
                decoder.conceal(rate as usize / 100, &mut pcm).unwrap();
            } else if let Ok(samples) = decoder.decode(&packet, &mut pcm) {
                prop_assert_eq!(samples as u32 * 48_000 / rate, duration.unwrap());
                prop_assert_eq!(pcm.len(), samples * usize::from(channels));
            } else {
                prop_assert!(pcm.is_empty());
            }
            let _ = carries_fec(&packet);
        }
    }
}
