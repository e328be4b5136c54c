//! Sound whose content can be checked: publishes a tone, and measures frequency and level of what is heard.

use std::{f64::consts::TAU, fmt, time::Duration};

use futures_util::StreamExt;
use livekit::{
    options::TrackPublishOptions,
    prelude::*,
    webrtc::{
        audio_source::{AudioSourceOptions, RtcAudioSource, native::NativeAudioSource},
        audio_stream::native::NativeAudioStream,
        prelude::AudioFrame,
    },
};
use tokio::{
    sync::watch,
    task::JoinHandle,
    time::{Instant, timeout},
};

use crate::{PATIENCE, participant::Participant};

/// The level of a tone unless a test wants another: a quarter of full scale.
pub const LEVEL: f64 = 0.25;
/// Frames of 10 ms that one measurement takes.
const WINDOW: usize = 50;
const FRAMES_PER_SECOND: u32 = 100;
const QUEUE_MS: u32 = 100;
const HZ_TOLERANCE: f64 = 3.0;
/// About 1.7 dB either way: codec and resamplers may cost a little, never that much.
const LEVEL_TOLERANCE: f64 = 0.2;
/// Below this (-50 dB) a frame counts as silent; comfort noise lies far under it.
const SILENCE: f64 = 0.003;

/// One frequency per channel.
#[derive(Clone, Debug)]
pub struct Tone {
    /// Frequencies, left first.
    pub hz: Vec<f64>,
    /// Peak level, 1 being full scale.
    pub level: f64,
    /// Samples per second given to the SDK.
    pub rate: u32,
}

impl Tone {
    /// A mono tone at 48 kHz.
    pub fn mono(hz: f64) -> Self {
        Self { hz: vec![hz], level: LEVEL, rate: 48_000 }
    }

    /// Another tone in each ear, at 48 kHz.
    pub fn stereo(left: f64, right: f64) -> Self {
        Self { hz: vec![left, right], level: LEVEL, rate: 48_000 }
    }

    /// The same at another sample rate.
    #[must_use]
    pub fn at_rate(self, rate: u32) -> Self {
        Self { rate, ..self }
    }

    fn frame(&self, first_sample: u64, level: f64) -> AudioFrame<'static> {
        let samples = self.rate / FRAMES_PER_SECOND;
        let mut data = Vec::with_capacity(samples as usize * self.hz.len());
        for sample in first_sample..first_sample + u64::from(samples) {
            let time = sample as f64 / f64::from(self.rate);
            data.extend(self.hz.iter().map(|hz| ((TAU * hz * time).sin() * level * 32_767.0) as i16));
        }
        AudioFrame {
            data: data.into(),
            sample_rate: self.rate,
            num_channels: self.hz.len() as u32,
            samples_per_channel: samples,
        }
    }
}

/// A published tone, sung until dropped.
pub struct Voice {
    /// The SDK's own publication.
    pub publication: LocalTrackPublication,
    /// The published track.
    pub track: LocalAudioTrack,
    level: watch::Sender<f64>,
    singing: JoinHandle<()>,
}

impl Voice {
    /// Publishes with the SDK's defaults.
    pub async fn publish(participant: &Participant, name: &str, tone: Tone) -> Self {
        let options =
            TrackPublishOptions { source: TrackSource::Microphone, ..TrackPublishOptions::default() };
        Self::publish_with(participant, name, tone, options).await
    }

    /// Publishes with other options.
    pub async fn publish_with(
        participant: &Participant,
        name: &str,
        tone: Tone,
        options: TrackPublishOptions,
    ) -> Self {
        let channels = tone.hz.len() as u32;
        let source = NativeAudioSource::new(AudioSourceOptions::default(), tone.rate, channels, QUEUE_MS);
        let track = LocalAudioTrack::create_audio_track(name, RtcAudioSource::Native(source.clone()));
        let publishing = participant.room.local_participant();
        let publishing = publishing.publish_track(LocalTrack::Audio(track.clone()), options);
        let publication = timeout(PATIENCE, publishing).await.expect("publishing ends");
        let publication = publication.expect("a microphone may be published");
        let (level, current) = watch::channel(tone.level);
        let singing = tokio::spawn(async move {
            let mut sung = 0;
            loop {
                let frame = tone.frame(sung, *current.borrow());
                sung += u64::from(frame.samples_per_channel);
                // The source's back-pressure is the clock.
                source.capture_frame(&frame).await.expect("the frame has the source's format");
            }
        });
        Self { publication, track, level, singing }
    }

    /// Sings on at another level.
    pub fn set_level(&self, level: f64) {
        self.level.send_replace(level);
    }

    /// Takes the track back.
    pub async fn unpublish(self, participant: &Participant) {
        let unpublished = participant.room.local_participant();
        let unpublished = timeout(PATIENCE, unpublished.unpublish_track(&self.publication.sid())).await;
        unpublished.expect("unpublishing ends").expect("what was published can be taken back");
    }
}

impl Drop for Voice {
    fn drop(&mut self) {
        self.singing.abort();
    }
}

/// Listens to one remote track.
pub struct Ear {
    stream: NativeAudioStream,
    rate: u32,
    channels: usize,
}

impl Ear {
    /// Listens at that sample rate with that many channels.
    pub fn new(track: &RemoteAudioTrack, rate: u32, channels: usize) -> Self {
        let stream = NativeAudioStream::new(track.rtc_track(), rate as i32, channels as i32);
        Self { stream, rate, channels }
    }

    /// What the next frames hold.
    pub async fn hear(&mut self, frames: usize) -> Sound {
        let channels = vec![Channel::default(); self.channels];
        let mut sound = Sound { rate: self.rate, channels, heard_at: Vec::with_capacity(frames) };
        for _ in 0..frames {
            let frame = timeout(PATIENCE, self.stream.next()).await;
            let frame = frame.expect("a subscribed track gives frames").expect("the track still lives");
            sound.heard_at.push(std::time::Instant::now());
            assert_eq!((frame.sample_rate, frame.num_channels as usize), (self.rate, self.channels));
            for (index, channel) in sound.channels.iter_mut().enumerate() {
                let samples = frame.data.iter().skip(index).step_by(self.channels);
                let samples: Vec<f64> = samples.map(|sample| f64::from(*sample) / 32_768.0).collect();
                channel.frame_levels.push(level(&samples));
                channel.samples.extend(samples);
            }
        }
        sound
    }

    /// Waits until exactly these frequencies are heard, without gaps, at that level.
    pub async fn expect_tone(&mut self, hz: &[f64], level: f64) {
        self.expect(&format!("{hz:?} Hz at {level}"), |sound| sound.is_tone(hz, level)).await;
    }

    /// Waits until each channel holds its own frequency, at least that loud, whatever else it holds.
    pub async fn expect_in_channels(&mut self, hz: &[f64], least: f64) {
        let is_it = |sound: &Sound| {
            sound.channels.len() == hz.len()
                && sound
                    .channels
                    .iter()
                    .zip(hz)
                    .all(|(channel, hz)| amplitude(&channel.samples, *hz, sound.rate) >= least)
        };
        self.expect(&format!("{hz:?} Hz, at least at {least}"), is_it).await;
    }

    /// Waits until nothing is heard.
    pub async fn expect_silence(&mut self) {
        self.expect("silence", Sound::is_silent).await;
    }

    async fn expect(&mut self, what: &str, is_it: impl Fn(&Sound) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let sound = self.hear(WINDOW).await;
            if is_it(&sound) {
                return;
            }
            assert!(Instant::now() < deadline, "listened for {what} and heard {sound}");
        }
    }
}

/// Some time of sound, one channel beside the other.
#[derive(Clone)]
pub struct Sound {
    rate: u32,
    channels: Vec<Channel>,
    /// When each frame was heard.
    heard_at: Vec<std::time::Instant>,
}

#[derive(Clone, Default)]
struct Channel {
    samples: Vec<f64>,
    frame_levels: Vec<f64>,
}

impl Sound {
    /// Whether each channel holds its tone, without gaps.
    pub fn is_tone(&self, hz: &[f64], level: f64) -> bool {
        self.loud_share(level) >= 0.95 && self.holds_tone(hz, level)
    }

    /// Whether each channel holds its tone, gaps or not.
    pub fn holds_tone(&self, hz: &[f64], level: f64) -> bool {
        self.channels.len() == hz.len()
            && self.channels.iter().zip(hz).all(|(channel, hz)| {
                (strongest_hz(&channel.samples, self.rate) - hz).abs() < HZ_TOLERANCE
                    && (self::level(&channel.samples) / level - 1.0).abs() < LEVEL_TOLERANCE
            })
    }

    /// Whether nothing can be heard.
    pub fn is_silent(&self) -> bool {
        self.channels.iter().flat_map(|channel| &channel.frame_levels).all(|level| *level < SILENCE)
    }

    /// The share of 10 ms frames with at least half of that level.
    pub fn loud_share(&self, level: f64) -> f64 {
        let levels: Vec<_> = self.channels.iter().flat_map(|channel| &channel.frame_levels).collect();
        levels.iter().filter(|frame| ***frame > level / 2.0).count() as f64 / levels.len() as f64
    }

    /// When frames were heard that are not loud in every channel, in the sense of [`Self::loud_share`].
    pub fn quiet_moments(&self, level: f64) -> Vec<std::time::Instant> {
        let is_quiet =
            |frame: usize| self.channels.iter().any(|channel| channel.frame_levels[frame] <= level / 2.0);
        let moments = self.heard_at.iter().enumerate();
        moments.filter(|(frame, _)| is_quiet(*frame)).map(|(_, moment)| *moment).collect()
    }

    /// How long it lasted.
    pub fn duration(&self) -> Duration {
        let frames = self.channels.first().map_or(0, |channel| channel.frame_levels.len());
        Duration::from_millis(10) * frames as u32
    }
}

impl fmt::Display for Sound {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for channel in &self.channels {
            let hz = strongest_hz(&channel.samples, self.rate);
            let quiet = channel.frame_levels.iter().filter(|level| **level < SILENCE).count();
            let level = level(&channel.samples);
            write!(
                out,
                "[{hz:.0} Hz at {level:.3}, {quiet} of {} frames silent]",
                channel.frame_levels.len()
            )?;
        }
        Ok(())
    }
}

/// The peak a sine of the same power would have.
fn level(samples: &[f64]) -> f64 {
    (2.0 * samples.iter().map(|sample| sample * sample).sum::<f64>() / samples.len() as f64).sqrt()
}

/// The strongest frequency between 100 and 4,000 Hz, to 1 Hz.
fn strongest_hz(samples: &[f64], rate: u32) -> f64 {
    let short = &samples[..samples.len().min(rate as usize / 10)];
    let coarse = strongest_of((10..400).map(|tens| f64::from(tens) * 10.0), short, rate);
    strongest_of((-12..=12).map(|offset| coarse + f64::from(offset)), samples, rate)
}

fn strongest_of(candidates: impl Iterator<Item = f64>, samples: &[f64], rate: u32) -> f64 {
    let strength = |hz: f64| (hz, goertzel_power(samples, hz, rate));
    let strongest = candidates.map(strength).max_by(|left, right| left.1.total_cmp(&right.1));
    strongest.map_or(0.0, |(hz, _)| hz)
}

/// The peak of the sine of that frequency within the sound.
fn amplitude(samples: &[f64], hz: f64, rate: u32) -> f64 {
    2.0 * goertzel_power(samples, hz, rate).max(0.0).sqrt() / samples.len() as f64
}

/// The power at one frequency, by Goertzel's recurrence.
fn goertzel_power(samples: &[f64], hz: f64, rate: u32) -> f64 {
    let coefficient = 2.0 * (TAU * hz / f64::from(rate)).cos();
    let (mut last, mut before) = (0.0, 0.0);
    for sample in samples {
        (last, before) = (sample + coefficient * last - before, last);
    }
    last * last + before * before - coefficient * last * before
}
