//! The Opus codec behind two small traits, so that another implementation can take its place.
//!
//! Also reads what a jitter buffer wants to know of a packet without decoding it (duration,
//! in-band redundancy, discontinuous transmission). Keeps no queue and knows nothing of RTP.

use ropus::opus::decoder::opus_packet_has_lbrr;
use ropus::{Application, Bitrate, Channels, DecodeMode, InbandFec};
use thiserror::Error;

/// RTP clock of Opus, whatever rate it is encoded or decoded at (RFC 7587).
pub(crate) const RTP_RATE: u32 = 48_000;

/// The rates at which Opus can be fed and read.
pub(crate) const NATIVE_RATES: [u32; 5] = [8_000, 12_000, 16_000, 24_000, 48_000];

/// The longest audio one packet may hold, in RTP time (120 ms).
pub(crate) const MAX_PACKET_SAMPLES: u32 = 5_760;

/// The largest payload that is looked at: more than any packet that fits a usual network.
pub(crate) const MAX_PAYLOAD_BYTES: usize = 2_000;

/// Largest encoded packet of one 20 ms frame.
const MAX_ENCODED_BYTES: usize = 1_275;

/// Half of the scale: close to the best quality for speech at about two thirds of its cost.
const COMPLEXITY: u8 = 5;

/// What can go wrong with a codec.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
pub(crate) enum CodecError {
    /// Opus has no such rate.
    #[error("Opus cannot work at {0} Hz")]
    UnsupportedRate(u32),
    /// Opus has one or two channels.
    #[error("Opus cannot work with {0} channels")]
    UnsupportedChannels(u16),
    /// The PCM handed in is not exactly one 20 ms frame.
    #[error("a frame has {expected} samples, not {got}")]
    WrongFrameLength {
        /// Samples handed in, over all channels.
        got: usize,
        /// Samples of a 20 ms frame, over all channels.
        expected: usize,
    },
    /// A packet that is no Opus packet.
    #[error("malformed Opus packet")]
    InvalidPacket,
    /// The encoder refused a setting or a frame.
    #[error("encoder: {0}")]
    Encoder(String),
    /// The decoder refused a packet.
    #[error("decoder: {0}")]
    Decoder(String),
}

/// What was negotiated for an outgoing Opus stream; may change while it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OpusParams {
    /// Send (almost) nothing during silence.
    pub(crate) dtx: bool,
    /// Send in-band redundancy; takes effect where `expected_loss_percent` is above zero.
    pub(crate) fec: bool,
    /// The peer accepts two channels.
    pub(crate) stereo: bool,
    /// Upper bound of the bit rate; none means a usual one for the rate and channels.
    pub(crate) max_bitrate: Option<u32>,
    /// Loss to prepare for, 0 to 100.
    pub(crate) expected_loss_percent: u8,
}

impl Default for OpusParams {
    fn default() -> Self {
        Self { dtx: false, fec: true, stereo: false, max_bitrate: None, expected_loss_percent: 10 }
    }
}

/// Makes packets of 20 ms frames.
pub(crate) trait Encoder: Send {
    /// Sample rate of the PCM it takes.
    fn rate(&self) -> u32;
    /// Channels of the PCM it takes.
    fn channels(&self) -> u16;
    /// Encodes exactly 20 ms into `packet`, replacing what was in it.
    fn encode(&mut self, pcm: &[i16], packet: &mut Vec<u8>) -> Result<(), CodecError>;
    /// Applies changed settings without losing the encoder's history. Channels stay as they are.
    fn configure(&mut self, params: &OpusParams) -> Result<(), CodecError>;
}

/// Makes PCM of packets. All lengths are samples per channel at the decoder's rate.
pub(crate) trait Decoder: Send {
    /// Sample rate of the PCM it makes.
    fn rate(&self) -> u32;
    /// Channels of the PCM it makes.
    fn channels(&self) -> u16;
    /// Decodes a packet and appends it to `pcm`; says how many samples per channel.
    fn decode(&mut self, packet: &[u8], pcm: &mut Vec<i16>) -> Result<usize, CodecError>;
    /// Appends `samples` of the audio *before* `packet`, from the redundancy that `packet` carries.
    fn decode_fec(&mut self, packet: &[u8], samples: usize, pcm: &mut Vec<i16>) -> Result<(), CodecError>;
    /// Appends `samples` of made-up audio that goes on from what was decoded last.
    fn conceal(&mut self, samples: usize, pcm: &mut Vec<i16>) -> Result<(), CodecError>;
    /// Forgets everything decoded so far.
    fn reset(&mut self);
}

/// [`Encoder`] for Opus.
pub(crate) struct OpusEncoder {
    inner: ropus::Encoder,
    rate: u32,
    channels: u16,
}

impl OpusEncoder {
    /// An encoder for PCM of one of [`NATIVE_RATES`] with one or two channels.
    pub(crate) fn new(rate: u32, channels: u16, params: &OpusParams) -> Result<Self, CodecError> {
        check_rate(rate)?;
        // The one for speech mixes the channels; who sends two of them wants them apart.
        let application = if channels == 1 { Application::Voip } else { Application::Audio };
        let inner = ropus::Encoder::builder(rate, channel_layout(channels)?, application)
            .complexity(COMPLEXITY)
            .build()
            .map_err(|error| CodecError::Encoder(error.to_string()))?;
        let mut encoder = Self { inner, rate, channels };
        encoder.configure(params)?;
        Ok(encoder)
    }

    /// A usual bit rate for speech: enough to be clear, little enough for a bad network.
    fn usual_bitrate(&self) -> u32 {
        let per_channel = match self.rate {
            0..=8_000 => 12_000,
            8_001..=16_000 => 20_000,
            _ => 32_000,
        };
        per_channel * u32::from(self.channels)
    }
}

impl Encoder for OpusEncoder {
    fn rate(&self) -> u32 {
        self.rate
    }

    fn channels(&self) -> u16 {
        self.channels
    }

    fn encode(&mut self, pcm: &[i16], packet: &mut Vec<u8>) -> Result<(), CodecError> {
        let expected = (self.rate / 50) as usize * usize::from(self.channels);
        if pcm.len() != expected {
            return Err(CodecError::WrongFrameLength { got: pcm.len(), expected });
        }
        packet.clear();
        packet.resize(MAX_ENCODED_BYTES, 0);
        let bytes = self.inner.encode(pcm, packet).map_err(|error| CodecError::Encoder(error.to_string()))?;
        packet.truncate(bytes);
        Ok(())
    }

    fn configure(&mut self, params: &OpusParams) -> Result<(), CodecError> {
        let usual = self.usual_bitrate();
        // Opus itself ranges from 6 to 510 kbit/s.
        let bitrate = params.max_bitrate.map_or(usual, |max| usual.min(max)).clamp(6_000, 510_000);
        let fec = if params.fec { InbandFec::Enabled } else { InbandFec::Disabled };
        let encoder = &mut self.inner;
        encoder
            .set_bitrate(Bitrate::Bits(bitrate))
            .and_then(|()| encoder.set_inband_fec(fec))
            .and_then(|()| encoder.set_packet_loss_perc(params.expected_loss_percent.min(100)))
            .and_then(|()| encoder.set_dtx(params.dtx))
            .map_err(|error| CodecError::Encoder(error.to_string()))
    }
}

/// [`Decoder`] for Opus.
pub(crate) struct OpusDecoder {
    inner: ropus::Decoder,
    rate: u32,
    channels: u16,
}

impl OpusDecoder {
    /// A decoder making PCM of one of [`NATIVE_RATES`] with one or two channels, whatever the
    /// sender used.
    pub(crate) fn new(rate: u32, channels: u16) -> Result<Self, CodecError> {
        Ok(Self { inner: new_decoder(rate, channels)?, rate, channels })
    }

    /// Runs the decoder into the end of `pcm`, for `samples` per channel.
    fn run(
        &mut self,
        packet: &[u8],
        samples: usize,
        mode: DecodeMode,
        pcm: &mut Vec<i16>,
    ) -> Result<usize, CodecError> {
        let channels = usize::from(self.channels);
        let start = pcm.len();
        pcm.resize(start + samples * channels, 0);
        match self.inner.decode(packet, &mut pcm[start..], mode) {
            Ok(decoded) => {
                let decoded = decoded.min(samples);
                pcm.truncate(start + decoded * channels);
                Ok(decoded)
            }
            Err(error) => {
                pcm.truncate(start);
                Err(CodecError::Decoder(error.to_string()))
            }
        }
    }

    /// Opus conceals in units of 2.5 ms and 120 ms at most: rounds up, then cuts.
    fn run_without_packet(
        &mut self,
        fec: Option<&[u8]>,
        samples: usize,
        pcm: &mut Vec<i16>,
    ) -> Result<(), CodecError> {
        let unit = (self.rate / 400) as usize;
        let longest = unit * 48;
        let start = pcm.len();
        let mut missing = samples;
        while missing > 0 {
            let piece = missing.next_multiple_of(unit).min(longest);
            let (packet, mode) = fec.map_or((&[][..], DecodeMode::Normal), |p| (p, DecodeMode::Fec));
            if self.run(packet, piece, mode, pcm)? == 0 {
                return Err(CodecError::InvalidPacket);
            }
            missing = missing.saturating_sub(piece);
        }
        pcm.truncate(start + samples * usize::from(self.channels));
        Ok(())
    }
}

impl Decoder for OpusDecoder {
    fn rate(&self) -> u32 {
        self.rate
    }

    fn channels(&self) -> u16 {
        self.channels
    }

    fn decode(&mut self, packet: &[u8], pcm: &mut Vec<i16>) -> Result<usize, CodecError> {
        let duration = packet_samples_48k(packet).ok_or(CodecError::InvalidPacket)?;
        let samples = (duration / (RTP_RATE / self.rate)) as usize;
        self.run(packet, samples, DecodeMode::Normal, pcm)
    }

    fn decode_fec(&mut self, packet: &[u8], samples: usize, pcm: &mut Vec<i16>) -> Result<(), CodecError> {
        if packet_samples_48k(packet).is_none() || samples > (self.rate / 400 * 48) as usize {
            return Err(CodecError::InvalidPacket);
        }
        self.run_without_packet(Some(packet), samples, pcm)
    }

    fn conceal(&mut self, samples: usize, pcm: &mut Vec<i16>) -> Result<(), CodecError> {
        self.run_without_packet(None, samples, pcm)
    }

    fn reset(&mut self) {
        self.inner =
            new_decoder(self.rate, self.channels).expect("a decoder of the same rate and channels was made");
    }
}

/// The native rate to use for PCM of `rate`: itself, or else the next one above, or 48 kHz.
pub(crate) fn native_rate_for(rate: u32) -> u32 {
    NATIVE_RATES.into_iter().find(|native| *native >= rate).unwrap_or(RTP_RATE)
}

/// How much audio a packet holds, in RTP time; none where it is no Opus packet.
pub(crate) fn packet_samples_48k(packet: &[u8]) -> Option<u32> {
    let frames = match packet.first()? & 0b11 {
        0 => 1,
        1 | 2 => 2,
        _ => u32::from(packet.get(1)? & 0b11_1111),
    };
    let samples = frames * frame_samples_48k(packet)?;
    (1..=MAX_PACKET_SAMPLES).contains(&samples).then_some(samples)
}

/// How long each of a packet's frames is, in RTP time (RFC 6716, section 3.1).
pub(crate) fn frame_samples_48k(packet: &[u8]) -> Option<u32> {
    let configuration = packet.first()? >> 3;
    let size = configuration & 0b11;
    Some(match configuration {
        // SILK: 10, 20, 40, 60 ms.
        0..=11 => [480, 960, 1_920, 2_880][usize::from(size)],
        // Hybrid: 10, 20 ms.
        12..=15 => [480, 960][usize::from(size & 1)],
        // CELT: 2.5, 5, 10, 20 ms.
        _ => 120 << size,
    })
}

/// Whether a packet carries redundancy of the frame before it.
pub(crate) fn carries_fec(packet: &[u8]) -> bool {
    packet_samples_48k(packet).is_some() && opus_packet_has_lbrr(packet, packet.len() as i32).unwrap_or(false)
}

/// Whether a packet says that its sender falls silent: nothing but a header.
pub(crate) fn is_dtx(packet: &[u8]) -> bool {
    packet.len() <= 2
}

fn new_decoder(rate: u32, channels: u16) -> Result<ropus::Decoder, CodecError> {
    check_rate(rate)?;
    ropus::Decoder::new(rate, channel_layout(channels)?)
        .map_err(|error| CodecError::Decoder(error.to_string()))
}

fn check_rate(rate: u32) -> Result<(), CodecError> {
    if NATIVE_RATES.contains(&rate) { Ok(()) } else { Err(CodecError::UnsupportedRate(rate)) }
}

fn channel_layout(channels: u16) -> Result<Channels, CodecError> {
    match channels {
        1 => Ok(Channels::Mono),
        2 => Ok(Channels::Stereo),
        other => Err(CodecError::UnsupportedChannels(other)),
    }
}
