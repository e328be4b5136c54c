//! The sound of a remote track as a stream of frames.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Waker},
    time::Instant,
};

use parking_lot::Mutex;

use crate::{
    audio::{
        clock::TickClock,
        receiver::{AudioReceiver, ReceiverStats},
    },
    audio_frame::AudioFrame,
    audio_track::RtcAudioTrack,
    driver::{contained, runtime},
    engine::AudioPacket,
};

const DEFAULT_QUEUE_FRAMES: usize = 10;

/// One listener of a track: decodes at its own rate and hands out a frame every 10 ms.
pub(crate) struct Listener {
    rate: u32,
    channels: u32,
    /// Oldest frames go first when the reader is slower than the sound; `None` keeps all.
    max_frames: Option<usize>,
    receiver: Mutex<Option<Receiving>>,
    /// The clock runs from the first packet on.
    started: AtomicBool,
    frames: Mutex<Frames>,
}

struct Receiving {
    receiver: AudioReceiver,
    /// Another stream of the peer begins its numbers anew.
    ssrc: Option<u32>,
}

#[derive(Default)]
struct Frames {
    queue: VecDeque<AudioFrame<'static>>,
    waker: Option<Waker>,
    ended: bool,
}

impl Listener {
    /// A listener for any format that can be made; for others it has ended before it begins.
    fn new(rate: u32, channels: u32, max_frames: Option<usize>) -> Arc<Self> {
        let receiver = AudioReceiver::new(rate, channels as u16);
        if let Err(error) = &receiver {
            log::error!("cannot listen with {rate} Hz and {channels} channels: {error}");
        }
        Arc::new(Self {
            rate,
            channels,
            max_frames,
            frames: Mutex::new(Frames { ended: receiver.is_err(), ..Frames::default() }),
            receiver: Mutex::new(receiver.ok().map(|receiver| Receiving { receiver, ssrc: None })),
            started: AtomicBool::new(false),
        })
    }

    pub(crate) fn receive(self: &Arc<Self>, packet: &AudioPacket) {
        {
            let mut receiving = self.receiver.lock();
            let Some(receiving) = receiving.as_mut() else { return };
            if receiving.ssrc.replace(packet.ssrc).is_some_and(|before| before != packet.ssrc) {
                receiving.receiver.reset();
            }
            let receiver = &mut receiving.receiver;
            let (arrived, sequence, time) = (packet.arrived, packet.sequence, packet.rtp_time);
            if let Some(opus) = packet.red_of {
                if let Err(error) = receiver.insert_red(arrived, sequence, time, &packet.payload, opus) {
                    log::debug!("dropped an audio packet: {error}");
                }
            } else {
                receiver.insert(arrived, sequence, time, &packet.payload);
            }
        }
        if !self.started.swap(true, Ordering::Relaxed) {
            runtime::spawn(pull(Arc::downgrade(self)));
        }
    }

    pub(crate) fn stats(&self) -> ReceiverStats {
        self.receiver.lock().as_ref().map(|receiving| receiving.receiver.stats()).unwrap_or_default()
    }

    /// No more frames will come; those that are queued are still read.
    pub(crate) fn end(&self) {
        let mut frames = self.frames.lock();
        frames.ended = true;
        if let Some(waker) = frames.waker.take() {
            waker.wake();
        }
    }

    fn is_ended(&self) -> bool {
        self.frames.lock().ended
    }

    fn pull_frame(&self, now: Instant) {
        let mut data = Vec::with_capacity((self.rate / 100 * self.channels) as usize);
        if let Some(receiving) = self.receiver.lock().as_mut() {
            receiving.receiver.pull_10ms(now, &mut data);
        }
        let samples_per_channel = data.len() as u32 / self.channels;
        let frame = AudioFrame {
            data: data.into(),
            sample_rate: self.rate,
            num_channels: self.channels,
            samples_per_channel,
        };
        let mut frames = self.frames.lock();
        if self.max_frames.is_some_and(|max| frames.queue.len() >= max) {
            frames.queue.pop_front();
        }
        frames.queue.push_back(frame);
        if let Some(waker) = frames.waker.take() {
            waker.wake();
        }
    }

    fn poll(&self, cx: &Context<'_>) -> Poll<Option<AudioFrame<'static>>> {
        let mut frames = self.frames.lock();
        if let Some(frame) = frames.queue.pop_front() {
            return Poll::Ready(Some(frame));
        }
        if frames.ended {
            return Poll::Ready(None);
        }
        frames.waker = Some(cx.waker().clone());
        Poll::Pending
    }
}

/// The steady clock of one listener. Ends with it.
async fn pull(listener: Weak<Listener>) {
    let mut clock = TickClock::new(Instant::now());
    loop {
        tokio::time::sleep_until(clock.next().into()).await;
        let Some(listener) = listener.upgrade().filter(|listener| !listener.is_ended()) else { return };
        let now = Instant::now();
        for _ in 0..clock.due(now).run {
            if contained("a listener", || listener.pull_frame(now)).is_none() {
                listener.end();
                return;
            }
        }
    }
}

/// What exists only outside browsers.
pub mod native {
    use std::{fmt, pin::Pin};

    use tokio_stream::Stream;

    use super::{Arc, AudioFrame, Context, DEFAULT_QUEUE_FRAMES, Listener, Poll, RtcAudioTrack};

    /// How a stream buffers.
    #[derive(Clone, Debug, Default)]
    pub struct NativeAudioStreamOptions {
        /// Frames (of 10 ms) kept for a slow reader; then the oldest are dropped. `None` is 10, `Some(0)` keeps
        /// everything.
        pub queue_size_frames: Option<usize>,
    }

    /// A track's sound, 10 ms at a time: silence and concealment included, so that time never stops. Ends when
    /// it or the connection is closed.
    pub struct NativeAudioStream {
        track: RtcAudioTrack,
        listener: Arc<Listener>,
    }

    impl NativeAudioStream {
        /// Listens to `audio_track`. Rates outside 8,000 to 192,000 and channel counts outside 1 to 8 are moved
        /// to the nearest that is possible.
        pub fn new(audio_track: RtcAudioTrack, sample_rate: i32, num_channels: i32) -> Self {
            let options = NativeAudioStreamOptions::default();
            Self::with_options(audio_track, sample_rate, num_channels, options)
        }

        /// The same with a queue of another size.
        pub fn with_options(
            audio_track: RtcAudioTrack,
            sample_rate: i32,
            num_channels: i32,
            options: NativeAudioStreamOptions,
        ) -> Self {
            let max_frames = match options.queue_size_frames {
                None => Some(DEFAULT_QUEUE_FRAMES),
                Some(0) => None,
                Some(frames) => Some(frames),
            };
            let rate = sample_rate.clamp(8_000, 192_000) as u32;
            let channels = num_channels.clamp(1, 8) as u32;
            let listener = Listener::new(rate, channels, max_frames);
            audio_track.listen(&listener);
            Self { track: audio_track, listener }
        }

        /// The track.
        pub fn track(&self) -> RtcAudioTrack {
            self.track.clone()
        }

        /// Stops listening.
        pub fn close(&mut self) {
            self.listener.end();
        }
    }

    impl Stream for NativeAudioStream {
        type Item = AudioFrame<'static>;

        fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
            self.listener.poll(cx).map(|frame| {
                frame.map(|mut frame| {
                    if !self.track.enabled() {
                        frame.data.to_mut().fill(0);
                    }
                    frame
                })
            })
        }
    }

    impl fmt::Debug for NativeAudioStream {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.debug_struct("NativeAudioStream").field("track", &self.track).finish_non_exhaustive()
        }
    }
}
