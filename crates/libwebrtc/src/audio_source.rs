//! Where an outgoing track's sound comes from: frames that the caller pushes, sent on at a steady pace.

/// The rate assumed of a device that does not exist here.
pub const DEFAULT_SAMPLE_RATE: u32 = 48_000;
/// Its channels.
pub const DEFAULT_NUM_CHANNELS: u32 = 1;

/// Processing that libwebrtc would do to a microphone's sound. Kept and returned; nothing is processed here.
#[derive(Default, Debug)]
pub struct AudioSourceOptions {
    /// Remove what the loudspeaker plays.
    pub echo_cancellation: bool,
    /// Remove noise.
    pub noise_suppression: bool,
    /// Even out the level.
    pub auto_gain_control: bool,
}

/// A source of sound.
#[non_exhaustive]
#[derive(Debug, Clone)]
pub enum RtcAudioSource {
    /// Frames that the caller pushes.
    Native(native::NativeAudioSource),
    /// A microphone. There is none on a server: a track of it is silent.
    Device,
}

impl RtcAudioSource {
    /// Keeps the options; see [`AudioSourceOptions`].
    pub fn set_audio_options(&self, options: AudioSourceOptions) {
        if let Self::Native(source) = self {
            source.set_audio_options(options);
        }
    }

    /// The options that were set last.
    pub fn audio_options(&self) -> AudioSourceOptions {
        match self {
            Self::Native(source) => source.audio_options(),
            Self::Device => AudioSourceOptions::default(),
        }
    }

    /// Samples per second.
    pub fn sample_rate(&self) -> u32 {
        match self {
            Self::Native(source) => source.sample_rate(),
            Self::Device => DEFAULT_SAMPLE_RATE,
        }
    }

    /// Interleaved channels.
    pub fn num_channels(&self) -> u32 {
        match self {
            Self::Native(source) => source.num_channels(),
            Self::Device => DEFAULT_NUM_CHANNELS,
        }
    }
}

/// What exists only outside browsers.
pub mod native {
    use std::{
        fmt,
        sync::{Arc, Weak},
        time::{Duration, Instant},
    };

    use parking_lot::Mutex;
    use tokio::sync::Notify;

    use super::AudioSourceOptions;
    use crate::{
        RtcError,
        audio::{
            capture_queue::{CaptureQueue, Push, UnsupportedFormat},
            clock::TickClock,
        },
        audio_frame::AudioFrame,
        audio_track::{AudioFeed, Tick},
        driver::{contained, runtime},
    };

    /// So long (in ticks of 10 ms) a source that has nothing is watched closely; then it naps.
    const AWAKE_TICKS: u32 = 100;
    /// How long a nap lasts when nothing is pushed.
    const NAP: Duration = Duration::from_secs(1);

    /// A source that the caller pushes frames into.
    #[derive(Clone)]
    pub struct NativeAudioSource {
        inner: Arc<Inner>,
    }

    struct Inner {
        sample_rate: u32,
        num_channels: u32,
        options: Mutex<AudioSourceOptions>,
        queue: Result<Mutex<CaptureQueue>, UnsupportedFormat>,
        /// Room in the queue, or a reason to look again.
        drained: Notify,
        /// Something was pushed, or the source is gone. On its own, so that waiting for it keeps nothing alive.
        filled: Arc<Notify>,
        feeds: Mutex<Vec<Weak<AudioFeed>>>,
    }

    impl NativeAudioSource {
        /// Makes a source. Frames go out at the pace of real time; with `queue_size_ms` 0 every frame must be
        /// 10 ms long and `capture_frame` never waits. A format that cannot be sent is refused by
        /// `capture_frame`.
        pub fn new(
            options: AudioSourceOptions,
            sample_rate: u32,
            num_channels: u32,
            queue_size_ms: u32,
        ) -> NativeAudioSource {
            let queue = CaptureQueue::new(sample_rate, num_channels, queue_size_ms);
            let inner = Arc::new(Inner {
                sample_rate,
                num_channels,
                options: Mutex::new(options),
                queue: queue.map(Mutex::new),
                drained: Notify::new(),
                filled: Arc::default(),
                feeds: Mutex::default(),
            });
            runtime::spawn(pace(Arc::downgrade(&inner)));
            Self { inner }
        }

        /// Throws away what is queued. Nothing pushed before is sent after this returns.
        pub fn clear_buffer(&self) {
            if let Ok(queue) = &self.inner.queue {
                queue.lock().clear();
            }
            self.inner.drained.notify_waiters();
        }

        /// Takes one frame. Waits while the queue is full, so that the caller runs at the pace of real time.
        pub async fn capture_frame(&self, frame: &AudioFrame<'_>) -> Result<(), RtcError> {
            let inner = &self.inner;
            if frame.sample_rate != inner.sample_rate || frame.num_channels != inner.num_channels {
                return Err(RtcError::invalid_state(format!(
                    "the source takes {} Hz and {} channel(s), the frame has {} Hz and {}",
                    inner.sample_rate, inner.num_channels, frame.sample_rate, frame.num_channels
                )));
            }
            let mut taken = false;
            loop {
                // Registered before the look, so that no change is missed.
                let drained = inner.drained.notified();
                {
                    let mut queue = inner.queue()?.lock();
                    if !taken {
                        let push =
                            queue.push(&frame.data).map_err(|e| RtcError::invalid_state(e.to_string()))?;
                        taken = push != Push::Full;
                        inner.filled.notify_one();
                    }
                    if taken && queue.has_room() {
                        return Ok(());
                    }
                }
                drained.await;
            }
        }

        /// Keeps the options; see [`AudioSourceOptions`].
        pub fn set_audio_options(&self, options: AudioSourceOptions) {
            *self.inner.options.lock() = options;
        }

        /// The options that were set last.
        pub fn audio_options(&self) -> AudioSourceOptions {
            let options = self.inner.options.lock();
            AudioSourceOptions {
                echo_cancellation: options.echo_cancellation,
                noise_suppression: options.noise_suppression,
                auto_gain_control: options.auto_gain_control,
            }
        }

        /// Samples per second.
        pub fn sample_rate(&self) -> u32 {
            self.inner.sample_rate
        }

        /// Interleaved channels.
        pub fn num_channels(&self) -> u32 {
            self.inner.num_channels
        }

        /// Sends to one more connection, until the feed is dropped.
        pub(crate) fn feed(&self, feed: &Arc<AudioFeed>) {
            self.inner.feeds.lock().push(Arc::downgrade(feed));
        }
    }

    impl Inner {
        fn queue(&self) -> Result<&Mutex<CaptureQueue>, RtcError> {
            self.queue.as_ref().map_err(|e| RtcError::invalid_state(e.to_string()))
        }

        /// Connections that the source feeds now.
        fn live_feeds(&self) -> Vec<Arc<AudioFeed>> {
            let mut feeds = self.feeds.lock();
            feeds.retain(|feed| feed.strong_count() > 0);
            feeds.iter().filter_map(Weak::upgrade).collect()
        }
    }

    impl Drop for Inner {
        fn drop(&mut self) {
            self.filled.notify_one();
        }
    }

    /// Sends the queue on, 10 ms at a time. A source that has been silent for a while, and whose silence need not
    /// be sent, is only looked at now and then until something is pushed.
    async fn pace(source: Weak<Inner>) {
        let mut clock = TickClock::new(Instant::now());
        let mut block = Vec::new();
        let mut idle_ticks = 0;
        loop {
            let next = clock.next();
            let napping = idle_ticks >= AWAKE_TICKS
                && source
                    .upgrade()
                    .is_none_or(|source| source.live_feeds().iter().all(|feed| feed.is_resting()));
            if napping {
                let Some(filled) = source.upgrade().map(|source| source.filled.clone()) else { return };
                tokio::select! {
                    () = filled.notified() => {}
                    () = tokio::time::sleep_until((next + NAP).into()) => {}
                }
            } else {
                tokio::time::sleep_until(next.into()).await;
            }
            let Some(source) = source.upgrade() else { return };
            let Ok(queue) = &source.queue else { return };
            let feeds = source.live_feeds();
            let now = Instant::now();
            // What was slept through is over: sound that came in the meantime leaves at its own pace.
            let due = if napping { clock.due_without_arrears(now) } else { clock.due(now) };
            for feed in feeds.iter().filter(|_| due.skipped > 0) {
                feed.skip(due.skipped);
            }
            for _ in 0..due.run {
                let pulled = queue.lock().pull_10ms(&mut block);
                idle_ticks = if pulled { 0 } else { idle_ticks.saturating_add(1) };
                let tick = if pulled { Tick::Block(&block) } else { Tick::Idle };
                for feed in &feeds {
                    contained("sending a track", || feed.tick(tick));
                }
                source.drained.notify_waiters();
            }
        }
    }

    impl fmt::Debug for NativeAudioSource {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.debug_struct("NativeAudioSource")
                .field("sample_rate", &self.inner.sample_rate)
                .field("num_channels", &self.inner.num_channels)
                .finish_non_exhaustive()
        }
    }
}
