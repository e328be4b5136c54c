//! The receiving end of an audio track: packets go in as they come, 10 ms of PCM come out on demand.
//!
//! Decodes what [`super::jitter`] hands out, fills in what is missing, and converts to the rate and
//! channels asked for. Owns no clock: whoever pulls every 10 ms sets the pace, and differences to
//! the sender's clock are evened out. Never fails and never blocks; a broken packet is a lost one.

use super::clock::BlockSizes;
use super::codec::{CodecError, Decoder, OpusDecoder, RTP_RATE, frame_samples_48k, native_rate_for};
use super::continuation::Continuation;
use super::jitter::{JitterBuffer, Next, Packet, Stretch};
use super::level::rms;
use super::red::{RedBlocks, RedError};
use super::resample::{ResampleError, Resampler, remix};
use super::stretch::{lengthen, shorten};
use std::time::{Duration, Instant};
use thiserror::Error;

/// Made-up audio is heard in full for 60 ms, then fades out until 120 ms (in RTP time).
const FADE_FROM: u32 = 2_880;
/// See [`FADE_FROM`].
const FADE_TO: u32 = 5_760;
/// Between two corrections of the delay lies at least this much audio (100 ms, in RTP time).
const STRETCH_EVERY: u32 = 4_800;

/// A receiver that cannot exist.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
pub(crate) enum ReceiverError {
    /// The output cannot be converted to.
    #[error(transparent)]
    Format(#[from] ResampleError),
    /// The decoder cannot be made.
    #[error(transparent)]
    Codec(#[from] CodecError),
}

/// What a pulled block consists of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PullInfo {
    /// Samples of each channel.
    pub(crate) samples_per_channel: usize,
    /// Where the newest audio in it came from.
    pub(crate) origin: Origin,
}

/// Where audio came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Nothing has been received yet.
    Nothing,
    /// Decoded from a packet.
    Decoded,
    /// Recovered from redundancy.
    Recovered,
    /// Made up for a loss.
    Concealed,
    /// Filled in while the sender is silent.
    Comfort,
}

/// Totals since the receiver was made. Samples are per channel at the output's rate; names and
/// meanings are those of WebRTC's inbound-rtp statistics.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct ReceiverStats {
    /// Packets that came.
    pub(crate) packets: u64,
    /// Packets that were expected and never came.
    pub(crate) lost: u64,
    /// Packets that came too late to be played.
    pub(crate) late: u64,
    /// Packets that came more than once.
    pub(crate) duplicated: u64,
    /// Packets thrown away for other reasons: broken, too many, not of this stream.
    pub(crate) discarded: u64,
    /// Samples made up for losses.
    pub(crate) concealed_samples: u64,
    /// Those of them that were silent.
    pub(crate) silent_concealed_samples: u64,
    /// How often concealment began.
    pub(crate) concealment_events: u64,
    /// Frames recovered from in-band redundancy.
    pub(crate) fec_recovered: u64,
    /// Packets recovered from `audio/red`.
    pub(crate) red_recovered: u64,
    /// Samples handed out.
    pub(crate) total_samples: u64,
    /// Samples added to lengthen the delay.
    pub(crate) inserted_samples_for_deceleration: u64,
    /// Samples left out to shorten the delay.
    pub(crate) removed_samples_for_acceleration: u64,
    /// Time that all emitted samples spent waiting, added up, in seconds.
    pub(crate) jitter_buffer_delay_s: f64,
    /// The same for the target delay.
    pub(crate) jitter_buffer_target_delay_s: f64,
    /// Samples that were decoded from packets.
    pub(crate) jitter_buffer_emitted: u64,
    /// Square of the level over time, in seconds.
    pub(crate) total_audio_energy: f64,
    /// Level of the newest block, 0 to 1.
    pub(crate) audio_level: f64,
    /// Seconds of audio handed out.
    pub(crate) total_duration: f64,
}

/// Receives one track; see the module.
pub(crate) struct AudioReceiver {
    buffer: JitterBuffer,
    decoder: Box<dyn Decoder>,
    continuation: Continuation,
    resampler: Resampler,
    blocks: BlockSizes,
    out_rate: u32,
    out_channels: u16,
    /// Samples ready to be pulled, at the output's rate and channels.
    ready: Vec<i16>,
    /// Samples as they come from the decoder, and the same at the output's rate.
    decoded: Vec<i16>,
    resampled: Vec<i16>,
    origin: Origin,
    /// How much was made up since the last real audio, in RTP time.
    concealed_run: u32,
    /// How much was decoded since the last stretch, in RTP time.
    since_stretch: u32,
    stats: ReceiverStats,
}

impl AudioReceiver {
    /// A receiver of Opus that makes PCM of the given rate and channels.
    pub(crate) fn new(out_rate: u32, out_channels: u16) -> Result<Self, ReceiverError> {
        let decoder = OpusDecoder::new(native_rate_for(out_rate), out_channels.clamp(1, 2))?;
        Self::with_decoder(Box::new(decoder), out_rate, out_channels)
    }

    /// A receiver with another decoder.
    pub(crate) fn with_decoder(
        decoder: Box<dyn Decoder>,
        out_rate: u32,
        out_channels: u16,
    ) -> Result<Self, ReceiverError> {
        if out_channels == 0 {
            return Err(ResampleError::UnsupportedChannels(out_channels).into());
        }
        Ok(Self {
            buffer: JitterBuffer::new(),
            continuation: Continuation::new(decoder.rate(), decoder.channels()),
            resampler: Resampler::new(decoder.rate(), out_rate, decoder.channels())?,
            decoder,
            blocks: BlockSizes::new(out_rate),
            out_rate,
            out_channels,
            ready: Vec::new(),
            decoded: Vec::new(),
            resampled: Vec::new(),
            origin: Origin::Nothing,
            concealed_run: FADE_TO,
            since_stretch: 0,
            stats: ReceiverStats::default(),
        })
    }

    /// Takes an Opus payload. `sequence` is the extended sequence number.
    pub(crate) fn insert(&mut self, now: Instant, sequence: u64, rtp_time: u32, payload: &[u8]) {
        self.buffer.insert(now, sequence, rtp_time, payload);
    }

    /// Takes an `audio/red` payload; blocks of another type than `opus_type` are left out.
    pub(crate) fn insert_red(
        &mut self,
        now: Instant,
        sequence: u64,
        rtp_time: u32,
        payload: &[u8],
        opus_type: u8,
    ) -> Result<(), RedError> {
        let blocks = RedBlocks::parse(payload)?;
        let primary = blocks.primary();
        if primary.payload_type == opus_type {
            self.buffer.insert(now, sequence, rtp_time, primary.payload);
        }
        // The newest copy is of the packet before, and so on back.
        for (distance, block) in (1..).zip(blocks.redundant().iter().rev()) {
            if block.payload_type == opus_type && block.timestamp_offset > 0 {
                let time = rtp_time.wrapping_sub(block.timestamp_offset);
                self.buffer.insert_recovered(now, sequence.saturating_sub(distance), time, block.payload);
            }
        }
        Ok(())
    }

    /// Makes exactly 10 ms of audio, replacing what is in `pcm`.
    pub(crate) fn pull_10ms(&mut self, now: Instant, pcm: &mut Vec<i16>) -> PullInfo {
        let samples_per_channel = self.blocks.advance();
        let wanted = samples_per_channel * usize::from(self.out_channels);
        while self.ready.len() < wanted {
            self.produce(now);
        }
        pcm.clear();
        pcm.extend(self.ready.drain(..wanted));
        self.account(pcm, samples_per_channel);
        PullInfo { samples_per_channel, origin: self.origin }
    }

    /// Another stream follows (a new SSRC): what waits is forgotten, the statistics go on.
    pub(crate) fn reset(&mut self) {
        self.buffer.reset();
        self.decoder.reset();
    }

    /// Totals so far.
    pub(crate) fn stats(&self) -> ReceiverStats {
        let counters = self.buffer.counters();
        ReceiverStats {
            packets: counters.received,
            lost: self.buffer.lost(),
            late: counters.late,
            duplicated: counters.duplicated,
            discarded: counters.discarded + self.stats.discarded,
            ..self.stats
        }
    }

    /// Adds some more samples to what is ready.
    fn produce(&mut self, now: Instant) {
        self.decoded.clear();
        let ready_frames = self.ready.len() / usize::from(self.out_channels);
        let at = now + Duration::from_secs_f64(ready_frames as f64 / f64::from(self.out_rate));
        match self.buffer.next(at) {
            Next::Play(packet, stretch) => self.play(&packet, stretch, at),
            Next::Recover(packet) => {
                let samples = frame_samples_48k(&packet.payload).unwrap_or(0);
                let frames = samples * self.decoder.rate() / RTP_RATE;
                match self.decoder.decode_fec(&packet.payload, frames as usize, &mut self.decoded) {
                    Ok(()) => {
                        self.stats.fec_recovered += 1;
                        self.lead_over();
                        self.heard(Origin::Recovered);
                    }
                    Err(_) => self.conceal(samples),
                }
            }
            Next::Conceal(samples) => self.conceal(samples),
            Next::Idle => {
                self.silence(RTP_RATE / 100);
                self.origin = Origin::Nothing;
            }
        }
        self.continuation.hear(&self.decoded);
        self.resampled.clear();
        self.resampler.process(&self.decoded, &mut self.resampled);
        remix(&self.resampled, self.decoder.channels(), self.out_channels, &mut self.ready);
    }

    fn play(&mut self, packet: &Packet, stretch: Stretch, at: Instant) {
        if let Err(error) = self.decoder.decode(&packet.payload, &mut self.decoded) {
            log::debug!("a packet of {} bytes cannot be decoded: {error}", packet.payload.len());
            self.stats.discarded += 1;
            return self.conceal(packet.samples);
        }
        if packet.recovered {
            self.stats.red_recovered += 1;
        }
        let emitted = self.to_output(packet.samples);
        let waited = at.saturating_duration_since(packet.arrival);
        self.stats.jitter_buffer_emitted += emitted;
        self.stats.jitter_buffer_delay_s += waited.as_secs_f64() * emitted as f64;
        self.stats.jitter_buffer_target_delay_s += self.buffer.target().as_secs_f64() * emitted as f64;
        self.since_stretch = self.since_stretch.saturating_add(packet.samples);
        if self.continuation.is_going_on() {
            self.lead_over();
        } else if self.since_stretch >= STRETCH_EVERY {
            self.stretch(stretch);
        }
        self.heard(Origin::Decoded);
    }

    fn stretch(&mut self, stretch: Stretch) {
        let channels = self.decoder.channels();
        let scale = |frames: usize| frames as u64 * u64::from(self.out_rate) / u64::from(self.decoder.rate());
        match stretch {
            Stretch::Keep => return,
            Stretch::Shorten => {
                self.stats.removed_samples_for_acceleration += scale(shorten(&mut self.decoded, channels));
            }
            Stretch::Lengthen => {
                self.stats.inserted_samples_for_deceleration += scale(lengthen(&mut self.decoded, channels));
            }
        }
        self.since_stretch = 0;
    }

    /// Real audio is at hand.
    fn heard(&mut self, origin: Origin) {
        self.concealed_run = 0;
        self.origin = origin;
    }

    /// Joins what was decoded to what was made up before it. Comfort noise needs no seam: the decoder goes
    /// over from what it made up last.
    fn lead_over(&mut self) {
        let gain = self.made_up_gain(0);
        let added = self.continuation.lead_over(&mut self.decoded, gain);
        self.stats.concealed_samples +=
            added as u64 * u64::from(self.out_rate) / u64::from(self.decoder.rate());
    }

    /// Makes up audio that goes on from the last, fading out in the long run.
    fn conceal(&mut self, samples: u32) {
        let announced = self.buffer.in_dtx();
        let begins = self.concealed_run == 0;
        let silent = self.concealed_run >= FADE_TO;
        if silent {
            self.silence(samples);
        } else {
            let frames = (samples * self.decoder.rate() / RTP_RATE) as usize;
            if announced {
                self.continuation.stop();
                if self.decoder.conceal(frames, &mut self.decoded).is_err() {
                    self.silence(samples);
                }
            } else {
                self.continuation.go_on(frames, &mut self.decoded);
            }
            self.fade();
        }
        self.concealed_run = self.concealed_run.saturating_add(samples);
        self.origin = if announced { Origin::Comfort } else { Origin::Concealed };
        if !announced {
            let concealed = self.to_output(samples);
            self.stats.concealed_samples += concealed;
            self.stats.silent_concealed_samples += if silent { concealed } else { 0 };
            self.stats.concealment_events += u64::from(begins);
        }
    }

    fn silence(&mut self, samples: u32) {
        let frames = (samples * self.decoder.rate() / RTP_RATE) as usize;
        self.decoded.clear();
        self.decoded.resize(frames * usize::from(self.decoder.channels()), 0);
    }

    /// Fades made-up audio out, each frame according to its place.
    fn fade(&mut self) {
        let channels = usize::from(self.decoder.channels());
        let mut decoded = std::mem::take(&mut self.decoded);
        for (at, frame) in (0..).zip(decoded.chunks_mut(channels)) {
            let gain = self.made_up_gain(at);
            if gain < 1.0 {
                for sample in frame {
                    *sample = (f64::from(*sample) * gain) as i16;
                }
            }
        }
        self.decoded = decoded;
    }

    /// How loud audio is made up so many frames from now, 0 to 1.
    fn made_up_gain(&self, frames: u32) -> f64 {
        let run = self.concealed_run.saturating_add(frames * (RTP_RATE / self.decoder.rate()));
        let left = FADE_TO.saturating_sub(run);
        (f64::from(left) / f64::from(FADE_TO - FADE_FROM)).min(1.0)
    }

    fn to_output(&self, samples: u32) -> u64 {
        u64::from(samples) * u64::from(self.out_rate) / u64::from(RTP_RATE)
    }

    fn account(&mut self, pcm: &[i16], samples_per_channel: usize) {
        let duration = samples_per_channel as f64 / f64::from(self.out_rate);
        self.stats.total_samples += samples_per_channel as u64;
        self.stats.total_duration += duration;
        self.stats.audio_level = rms(pcm);
        self.stats.total_audio_energy += self.stats.audio_level.powi(2) * duration;
    }
}
