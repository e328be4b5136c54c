//! Audio payloads straight into the receiver: any bytes, any leap of sequence number and time, any output format.
//!
//! Nothing is contained here: in production a panic of the decoder would end the listener's clock for good.

use std::time::{Duration, Instant};

use super::input::Input;
use crate::audio::receiver::AudioReceiver;

/// Payload type of Opus inside of redundancy.
const OPUS: u8 = 111;

/// See the module.
pub fn audio_payload(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    // The façade lets through 8 to 192 kHz and up to 8 channels; a little more here.
    let rate = match input.byte() {
        0 => 48_000,
        1 => 16_000,
        2 => 44_100,
        other => 900 + 37 * u32::from(other) * u32::from(input.byte()),
    };
    let channels = u16::from(input.byte() % 10);
    let Ok(mut receiver) = AudioReceiver::new(rate, channels) else { return };
    let mut now = Instant::now();
    let (mut sequence, mut rtp_time) = (u64::from(input.u16()), input.u32());
    let mut pcm = Vec::new();
    while !input.is_empty() {
        let operation = input.byte();
        match operation % 8 {
            0..=3 => {
                // Mostly the next packet, 20 ms later; sometimes anything.
                if operation & 0x10 == 0 {
                    (sequence, rtp_time) = (sequence.wrapping_add(1), rtp_time.wrapping_add(960));
                } else {
                    sequence = sequence.wrapping_add_signed(i64::from(input.u16().cast_signed()));
                    rtp_time = rtp_time.wrapping_add(input.u32());
                }
                let payload = input.chunk();
                if operation & 1 == 0 {
                    receiver.insert(now, sequence, rtp_time, payload);
                } else {
                    let _ = receiver.insert_red(now, sequence, rtp_time, payload, OPUS);
                }
            }
            4 => now += Duration::from_millis(input.u16().into()),
            5 => receiver.reset(),
            _ => {
                for _ in 0..=operation >> 5 {
                    let pulled = receiver.pull_10ms(now, &mut pcm);
                    assert_eq!(pcm.len(), pulled.samples_per_channel * usize::from(channels));
                    now += Duration::from_millis(10);
                }
            }
        }
    }
    let stats = receiver.stats();
    assert!(stats.audio_level.is_finite() && stats.total_audio_energy.is_finite(), "{stats:?}");
}
