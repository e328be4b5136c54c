//! The sending end of an audio track: 10 ms blocks of PCM in, 20 ms Opus packets out.
//!
//! Owns no clock. Each 10 ms of real time must be told to it exactly once, by one of three calls:
//! [`AudioSender::push`] for a block of audio, [`AudioSender::idle`] where the source had none, and
//! [`AudioSender::advance`] for ticks that were skipped. So RTP time follows real time across every
//! pause, and a receiver hears a pause as long as it was.
//!
//! **Silence.** A muted source is encoded as silence. While a source has nothing, silence is encoded
//! too; but where DTX was negotiated only until Opus says that nothing needs to be sent, and from
//! then on for a moment every 400 ms: what Opus itself would send, without running the encoder 50
//! times a second for every agent that listens. DTX packets are not sent, but for the first of a
//! row, which tells the far end that the silence is meant.

use super::clock::BlockSizes;
use super::codec::{CodecError, Encoder, NATIVE_RATES, OpusEncoder, OpusParams, RTP_RATE, is_dtx};
use super::level::{dbov, rms};
use super::resample::{ResampleError, Resampler, remix};
use thiserror::Error;

/// One tick of 10 ms in RTP time.
const BLOCK_48K: u64 = 480;
/// One packet of 20 ms in RTP time.
const PACKET_48K: u64 = 960;
/// Ticks without audio between signs of life (400 ms), as of Opus itself.
const IDLE_REFRESH: u32 = 40;
/// Quieter than this is silence to everyone.
const AUDIBLE_DBOV: i8 = -65;
/// Louder than this counts as voice.
const VOICE_DBOV: i8 = -55;

/// A sender that cannot exist.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
pub(crate) enum SenderError {
    /// The source cannot be converted to what Opus takes.
    #[error(transparent)]
    Format(#[from] ResampleError),
    /// The encoder cannot be made or set up.
    #[error(transparent)]
    Codec(#[from] CodecError),
}

/// A packet to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EncodedPacket {
    /// The Opus packet.
    pub(crate) payload: Vec<u8>,
    /// RTP time since the sender was made; add a random offset and wrap.
    pub(crate) rtp_time: u64,
    /// The first packet of a talk spurt.
    pub(crate) marker: bool,
    /// Level in dBov, −127 to 0 (RFC 6464).
    pub(crate) audio_level: i8,
    /// Whether there is something to hear.
    pub(crate) voice_activity: bool,
}

/// Sends one track; see the module.
#[expect(clippy::struct_excessive_bools, reason = "independent facts, not one state in disguise")]
pub(crate) struct AudioSender {
    params: OpusParams,
    source_rate: u32,
    source_channels: u16,
    source_blocks: BlockSizes,
    resampler: Resampler,
    encoder: Box<dyn Encoder>,
    /// The block at hand: as it came, and with the encoder's channels.
    block: Vec<i16>,
    remixed: Vec<i16>,
    /// At the encoder's rate and channels, not yet a packet.
    pending: Vec<i16>,
    /// RTP time of real time, and of the first pending sample.
    now: u64,
    packet_time: u64,
    /// Nothing is pending, and the next packet starts at the present time.
    resync: bool,
    /// Ticks without audio in a row, and whether a sign of life is in the making.
    idle_ticks: u32,
    refreshing: bool,
    /// Something was left out since voice was sent last.
    paused: bool,
    in_dtx: bool,
    /// What is being encoded is too quiet to be heard.
    quiet: bool,
    muted: bool,
}

impl AudioSender {
    /// A sender for a source of any rate and channels.
    pub(crate) fn new(
        source_rate: u32,
        source_channels: u16,
        params: OpusParams,
    ) -> Result<Self, SenderError> {
        if source_channels == 0 {
            return Err(ResampleError::UnsupportedChannels(source_channels).into());
        }
        let rate = if NATIVE_RATES.contains(&source_rate) { source_rate } else { RTP_RATE };
        let channels = sent_channels(source_channels, &params);
        Ok(Self {
            source_rate,
            source_channels,
            source_blocks: BlockSizes::new(source_rate),
            resampler: Resampler::new(source_rate, rate, channels)?,
            encoder: Box::new(OpusEncoder::new(rate, channels, &params)?),
            params,
            block: Vec::new(),
            remixed: Vec::new(),
            pending: Vec::new(),
            now: 0,
            packet_time: 0,
            resync: true,
            idle_ticks: 0,
            refreshing: false,
            paused: true,
            in_dtx: false,
            quiet: true,
            muted: false,
        })
    }

    /// What was negotiated.
    pub(crate) fn params(&self) -> &OpusParams {
        &self.params
    }

    /// Applies what was negotiated anew.
    pub(crate) fn set_params(&mut self, params: OpusParams) -> Result<(), SenderError> {
        let channels = sent_channels(self.source_channels, &params);
        if channels == self.encoder.channels() {
            self.encoder.configure(&params)?;
            self.in_dtx &= params.dtx;
        } else {
            let rate = self.encoder.rate();
            let encoder = OpusEncoder::new(rate, channels, &params)?;
            self.resampler = Resampler::new(self.source_rate, rate, channels)?;
            self.encoder = Box::new(encoder);
            self.drop_pending();
        }
        self.params = params;
        self.quiet = true;
        Ok(())
    }

    /// Takes the next 10 ms of the source and appends finished packets to `out`.
    pub(crate) fn push(
        &mut self,
        pcm: &[i16],
        muted: bool,
        out: &mut Vec<EncodedPacket>,
    ) -> Result<(), SenderError> {
        self.idle_ticks = 0;
        self.refreshing = false;
        self.block.clear();
        self.block.extend_from_slice(pcm);
        self.apply_mute(muted);
        self.encode_block(out)
    }

    /// 10 ms passed in which the source had nothing.
    pub(crate) fn idle(&mut self, out: &mut Vec<EncodedPacket>) -> Result<(), SenderError> {
        self.idle_ticks = self.idle_ticks.wrapping_add(1);
        if self.in_dtx && !self.refreshing {
            self.refreshing = self.idle_ticks.is_multiple_of(IDLE_REFRESH);
            self.advance(1);
            return Ok(());
        }
        self.block.clear();
        self.block.resize(self.source_blocks.advance() * usize::from(self.source_channels), 0);
        self.encode_block(out)
    }

    /// The far end knows that silence goes on: until there is sound again nothing need be sent.
    pub(crate) fn is_resting(&self) -> bool {
        self.in_dtx
    }

    /// So many ticks of 10 ms were skipped: nothing is sent for them.
    pub(crate) fn advance(&mut self, ticks: u64) {
        self.now += ticks * BLOCK_48K;
        self.paused |= ticks > 0;
        self.drop_pending();
    }

    fn drop_pending(&mut self) {
        self.pending.clear();
        self.resync = true;
    }

    /// Silences the block, with a slope where the mute has just changed, lest it click.
    fn apply_mute(&mut self, muted: bool) {
        let was_muted = std::mem::replace(&mut self.muted, muted);
        if !muted && !was_muted {
            return;
        }
        let frames = self.block.len() / usize::from(self.source_channels);
        for (at, frame) in self.block.chunks_mut(usize::from(self.source_channels)).enumerate() {
            let progress = at as f64 / frames as f64;
            let gain = match (was_muted, muted) {
                (false, _) => 1.0 - progress,
                (true, true) => 0.0,
                (true, false) => progress,
            };
            for sample in frame {
                *sample = (f64::from(*sample) * gain) as i16;
            }
        }
    }

    fn encode_block(&mut self, out: &mut Vec<EncodedPacket>) -> Result<(), SenderError> {
        if std::mem::take(&mut self.resync) {
            self.packet_time = self.now;
        }
        self.now += BLOCK_48K;
        self.remixed.clear();
        remix(&self.block, self.source_channels, self.encoder.channels(), &mut self.remixed);
        self.resampler.process(&self.remixed, &mut self.pending);
        let packet_samples = self.encoder.rate() as usize / 50 * usize::from(self.encoder.channels());
        while self.pending.len() >= packet_samples {
            let mut payload = Vec::new();
            let audio_level = dbov(rms(&self.pending[..packet_samples]));
            self.allow_dtx(audio_level < AUDIBLE_DBOV)?;
            let encoded = self.encoder.encode(&self.pending[..packet_samples], &mut payload);
            self.pending.drain(..packet_samples);
            let rtp_time = self.packet_time;
            self.packet_time += PACKET_48K;
            encoded?;
            self.finish_packet(payload, rtp_time, audio_level, out);
        }
        Ok(())
    }

    /// Opus takes any steady sound for background noise and would leave it out: music on hold, a tone. It may
    /// only leave out what nobody would hear.
    fn allow_dtx(&mut self, quiet: bool) -> Result<(), SenderError> {
        if self.params.dtx && quiet != self.quiet {
            self.encoder.configure(&OpusParams { dtx: quiet, ..self.params.clone() })?;
            self.quiet = quiet;
        }
        Ok(())
    }

    /// Decides whether a packet is sent, and how it is marked.
    fn finish_packet(
        &mut self,
        payload: Vec<u8>,
        rtp_time: u64,
        audio_level: i8,
        out: &mut Vec<EncodedPacket>,
    ) {
        let dtx = self.params.dtx && is_dtx(&payload);
        let was_dtx = std::mem::replace(&mut self.in_dtx, dtx);
        let refresh = self.refreshing;
        // A sign of life ends with the word that silence goes on.
        self.refreshing &= !dtx;
        if dtx && was_dtx && !refresh {
            self.paused = true;
            return;
        }
        let voice_activity = !dtx && audio_level > VOICE_DBOV;
        let marker = voice_activity && std::mem::take(&mut self.paused);
        out.push(EncodedPacket { payload, rtp_time, marker, audio_level, voice_activity });
    }
}

/// Opus has one channel here unless both the source has more and the peer takes two.
fn sent_channels(source: u16, params: &OpusParams) -> u16 {
    if source >= 2 && params.stereo { 2 } else { 1 }
}
