//! `sotto dev`: two participants, alice and bob, meet in a room of a real LiveKit server and talk.
//!
//! They greet each other over data packets, and bob plays a tone that alice names by what she hears. This shows that the
//! way to a room works (signalling, data both ways, audio out and in); it is not the agent, which will take its place.
//! It uses the public API of `livekit` only and keeps nothing.

use anyhow::{Context, anyhow, bail, ensure};
use futures_util::StreamExt;
use livekit::options::TrackPublishOptions;
use livekit::prelude::*;
use livekit::webrtc::audio_source::native::NativeAudioSource;
use livekit::webrtc::audio_stream::native::NativeAudioStream;
use livekit::webrtc::prelude::{AudioFrame, AudioSourceOptions};
use livekit_api::access_token::{AccessToken, VideoGrants};
use sotto_core::ids::{Ids, Kind};
use std::io::Write;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{Sender, UnboundedReceiver, channel};
use tokio::time::{interval, sleep, timeout};

const SAMPLE_RATE: u32 = 48_000;
const TONE_HZ: f64 = 440.0;
/// How far off alice may hear the tone; lost packets shift its phase a little.
const TOLERANCE: f64 = 0.02;
/// Quieter than this is silence, of 32,767.
const SILENCE: u16 = 500;
const BETWEEN_GREETINGS: Duration = Duration::from_secs(2);
/// Joining and the first words are a matter of milliseconds; whoever needs this long will not manage.
const PATIENCE: Duration = Duration::from_secs(20);

/// Show two participants talking in a room of a LiveKit server (`scripts/dev` starts one and runs this).
#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// Where the server is.
    #[arg(long, env = "LIVEKIT_URL", default_value = "ws://127.0.0.1:7880")]
    url: String,
    /// The key to sign tokens with. Its secret is read from `LIVEKIT_API_SECRET` alone: arguments can be seen by all.
    #[arg(long, env = "LIVEKIT_API_KEY")]
    api_key: String,
    /// End after so many seconds instead of at Ctrl-C.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: Option<u64>,
}

/// Lets them talk until the time is up or Ctrl-C; an error if they could not.
pub async fn run(arguments: Arguments) -> anyhow::Result<()> {
    let mut seed = [0; 32];
    getrandom::fill(&mut seed).context("the system has no randomness to give")?;
    let mut ids = Ids::from_seed(seed);
    let room = format!("dev-{}", ids.next(Kind::Message));
    let start = Instant::now();
    let mut alice = Person::join("alice", &arguments, &room, start).await?;
    let mut bob = Person::join("bob", &arguments, &room, start).await?;
    let voice = bob.publish_voice().await?;
    tokio::spawn(play_tone(voice));

    let (heard, mut tones) = channel(1);
    let mut tone_named = false;
    let mut both_there = false;
    let mut greeting_due = interval(BETWEEN_GREETINGS);
    let patience = sleep(PATIENCE);
    let time_up = sleep(arguments.seconds.map_or(Duration::MAX, Duration::from_secs));
    let stop = tokio::signal::ctrl_c();
    tokio::pin!(patience, time_up, stop);
    loop {
        tokio::select! {
            event = alice.events.recv() => match event.context("alice's room ended")? {
                RoomEvent::ParticipantActive(_) => both_there = true,
                RoomEvent::TrackSubscribed { track: RemoteTrack::Audio(track), .. } => {
                    tokio::spawn(listen(track, heard.clone()));
                }
                event => alice.hear(event)?,
            },
            event = bob.events.recv() => bob.hear(event.context("bob's room ended")?)?,
            Some(hertz) = tones.recv() => {
                tone_named |= (hertz / TONE_HZ - 1.0).abs() < TOLERANCE;
                alice.tell(&format!("hears a tone of {hertz:.1} Hz (bob plays {TONE_HZ} Hz)"))?;
            }
            _ = greeting_due.tick(), if both_there => {
                alice.greet(&mut ids).await?;
                bob.greet(&mut ids).await?;
            }
            () = &mut patience, if !(tone_named && alice.heard > 0 && bob.heard > 0) => break,
            () = &mut time_up => break,
            stopped = &mut stop => { stopped.context("cannot wait for Ctrl-C")?; break }
        }
    }
    for person in [&alice, &bob] {
        person.room.close().await.with_context(|| format!("{} could not leave", person.name))?;
        person.tell(&format!("leaves, having heard {} greetings", person.heard))?;
    }
    ensure!(bob.heard > 0, "bob heard no greeting from alice");
    ensure!(alice.heard > 0, "alice heard no greeting from bob");
    ensure!(tone_named, "alice did not hear the tone of {TONE_HZ} Hz that bob played");
    Ok(())
}

/// One of the two, and what they have said and heard so far.
struct Person {
    name: &'static str,
    room: Room,
    events: UnboundedReceiver<RoomEvent>,
    start: Instant,
    sent: u32,
    heard: u32,
}

impl Person {
    async fn join(
        name: &'static str,
        arguments: &Arguments,
        room: &str,
        start: Instant,
    ) -> anyhow::Result<Self> {
        let secret = std::env::var("LIVEKIT_API_SECRET").context("LIVEKIT_API_SECRET is not set")?;
        let token = AccessToken::with_api_key(&arguments.api_key, &secret)
            .with_identity(name)
            .with_grants(VideoGrants { room_join: true, room: room.into(), ..Default::default() })
            .to_jwt()
            .context("cannot sign a token")?;
        let before = Instant::now();
        let (room, events) = timeout(PATIENCE, Room::connect(&arguments.url, &token, RoomOptions::default()))
            .await
            .map_err(anyhow::Error::from)
            // Flattened: livekit's messages already contain their causes.
            .and_then(|connected| connected.map_err(|error| anyhow!("{error}")))
            .with_context(|| format!("{name} cannot join a room at {}", arguments.url))?;
        let person = Self { name, room, events, start, sent: 0, heard: 0 };
        person.tell(&format!("joined room {} in {} ms", person.room.name(), before.elapsed().as_millis()))?;
        Ok(person)
    }

    /// A line of the transcript. An error (nobody reads it any more) ends the conversation rather than the process.
    fn tell(&self, what: &str) -> std::io::Result<()> {
        writeln!(std::io::stdout(), "{:8.3} s  {:5}  {what}", self.start.elapsed().as_secs_f64(), self.name)
    }

    async fn greet(&mut self, ids: &mut Ids) -> anyhow::Result<()> {
        self.sent += 1;
        let payload =
            format!("{} {} hello from {}", ids.next(Kind::Message), self.sent, self.name).into_bytes();
        let packet = DataPacket { payload, reliable: true, ..Default::default() };
        Ok(self.room.local_participant().publish_data(packet).await?)
    }

    /// Takes note of a greeting, which must be the next in number; an end of the room is an error.
    fn hear(&mut self, event: RoomEvent) -> anyhow::Result<()> {
        match event {
            RoomEvent::DataReceived { payload, participant: Some(from), .. } => {
                let text = String::from_utf8_lossy(&payload);
                let number: u32 =
                    text.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or_default();
                ensure!(
                    number == self.heard + 1,
                    "{} heard greeting {number} after {}",
                    self.name,
                    self.heard
                );
                self.heard = number;
                self.tell(&format!("hears {}: {text}", from.identity()))?;
            }
            RoomEvent::Reconnecting => self.tell("lost the connection, reconnecting")?,
            RoomEvent::Reconnected => self.tell("is back")?,
            RoomEvent::Disconnected { reason } => bail!("{} was disconnected: {reason:?}", self.name),
            _ => {}
        }
        Ok(())
    }

    async fn publish_voice(&self) -> anyhow::Result<NativeAudioSource> {
        let source = NativeAudioSource::new(AudioSourceOptions::default(), SAMPLE_RATE, 1, 200);
        let track = LocalAudioTrack::create_audio_track("voice", RtcAudioSource::Native(source.clone()));
        let options = TrackPublishOptions { source: TrackSource::Microphone, ..Default::default() };
        self.room.local_participant().publish_track(LocalTrack::Audio(track), options).await?;
        self.tell(&format!("plays a tone of {TONE_HZ} Hz"))?;
        Ok(source)
    }
}

/// Plays the tone for as long as somebody takes it; the source's queue sets the pace.
async fn play_tone(source: NativeAudioSource) {
    let mut frame = AudioFrame::new(SAMPLE_RATE, 1, SAMPLE_RATE / 100);
    for first_sample in (0_u64..).step_by(frame.samples_per_channel as usize) {
        for (sample, number) in frame.data.to_mut().iter_mut().zip(first_sample..) {
            // Whole seconds are whole periods, so the phase stays exact however long it plays.
            let seconds = (number % u64::from(SAMPLE_RATE)) as f64 / f64::from(SAMPLE_RATE);
            *sample = ((std::f64::consts::TAU * TONE_HZ * seconds).sin() * 9_000.0) as i16;
        }
        if source.capture_frame(&frame).await.is_err() {
            return;
        }
    }
}

/// Measures, greeting by greeting, the frequency of what a track carries.
async fn listen(track: RemoteAudioTrack, heard: Sender<f64>) {
    let mut stream = NativeAudioStream::new(track.rtc_track(), SAMPLE_RATE as i32, 1);
    let mut samples = Vec::new();
    while let Some(frame) = stream.next().await {
        samples.extend_from_slice(&frame.data);
        if samples.len() < BETWEEN_GREETINGS.as_secs() as usize * SAMPLE_RATE as usize {
            continue;
        }
        if let Some(hertz) = frequency(&samples)
            && heard.send(hertz).await.is_err()
        {
            return;
        }
        samples.clear();
    }
}

/// The frequency of a tone: its upward zero crossings over the time between the first and the last of them.
fn frequency(samples: &[i16]) -> Option<f64> {
    if samples.iter().all(|sample| sample.unsigned_abs() < SILENCE) {
        return None;
    }
    let mut crossings = samples.windows(2).enumerate().filter(|(_, pair)| pair[0] < 0 && pair[1] >= 0);
    let (first, _) = crossings.next()?;
    let (periods, (last, _)) = crossings.enumerate().last()?;
    Some((periods + 1) as f64 * f64::from(SAMPLE_RATE) / (last - first) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tone_is_measured_by_its_frequency() {
        for hertz in [100.0, 440.0, 3_000.0] {
            let tone = |i: u32| (std::f64::consts::TAU * hertz * f64::from(i) / f64::from(SAMPLE_RATE)).sin();
            let samples: Vec<i16> = (0..SAMPLE_RATE).map(|i| (tone(i) * 9_000.0) as i16).collect();
            let measured = frequency(&samples).expect("a tone");
            assert!((measured / hertz - 1.0).abs() < 0.001, "{hertz} Hz measured as {measured}");
        }
    }

    #[test]
    fn silence_has_no_frequency() {
        let hiss: Vec<i16> = (0..SAMPLE_RATE).map(|i| if i % 2 == 0 { 3 } else { -3 }).collect();
        assert_eq!(frequency(&hiss), None);
        assert_eq!(frequency(&[]), None);
    }
}
