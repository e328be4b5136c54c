//! A simulated network in virtual time, and both ends of a track around it.

use super::signal::{tone, voice};
use crate::audio::codec::OpusParams;
use crate::audio::receiver::AudioReceiver;
use crate::audio::sender::AudioSender;
use std::time::{Duration, Instant};

/// Payload type of Opus inside of RED.
pub(crate) const OPUS: u8 = 111;

/// A packet on its way: when it was sent or will arrive, and what it is.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Travelling {
    pub(crate) at: Duration,
    pub(crate) sequence: u64,
    pub(crate) rtp_time: u32,
    pub(crate) payload: Vec<u8>,
    pub(crate) red: bool,
}

/// What the network does to packets.
#[derive(Debug, Clone)]
pub(crate) struct Network {
    pub(crate) loss: f64,
    pub(crate) duplicates: f64,
    pub(crate) jitter: Duration,
    pub(crate) random: u64,
}

impl Network {
    pub(crate) fn perfect() -> Self {
        Self { loss: 0.0, duplicates: 0.0, jitter: Duration::ZERO, random: 0x9e37_79b9_7f4a_7c15 }
    }

    /// A number from 0 to 1.
    pub(crate) fn chance(&mut self) -> f64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Packets in the order of their arrival.
    pub(crate) fn carry(mut self, sent: &[Travelling]) -> Vec<Travelling> {
        let mut arriving = Vec::new();
        for packet in sent {
            let copies = if self.chance() < self.duplicates { 2 } else { 1 };
            for _ in 0..copies {
                let lost = self.chance() < self.loss;
                let delay = Duration::from_millis(20) + self.jitter.mul_f64(self.chance());
                if !lost {
                    arriving.push(Travelling { at: packet.at + delay, ..packet.clone() });
                }
            }
        }
        arriving.sort_by_key(|packet| packet.at);
        arriving
    }
}

/// What is said in a tick.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Say {
    Tone,
    Voice,
    Silence,
    /// The source has nothing.
    Nothing,
}

/// Sends one block per tick of 10 ms from a source of 48 kHz mono.
pub(crate) fn send(ticks: usize, params: OpusParams, say: impl Fn(usize) -> Say) -> Vec<Travelling> {
    let mut sender = AudioSender::new(48_000, 1, params).unwrap();
    let mut sent = Vec::new();
    for tick in 0..ticks {
        let mut packets = Vec::new();
        let from = tick as u64 * 480;
        match say(tick) {
            Say::Tone => sender.push(&tone(440.0, 48_000, from, 480), false, &mut packets),
            Say::Voice => sender.push(&voice(48_000, from, 480), false, &mut packets),
            Say::Silence => sender.push(&[0; 480], false, &mut packets),
            Say::Nothing => sender.idle(&mut packets),
        }
        .unwrap();
        for packet in packets {
            sent.push(Travelling {
                at: Duration::from_millis(tick as u64 * 10),
                sequence: 1_000 + sent.len() as u64,
                // Wraps around soon.
                rtp_time: (packet.rtp_time as u32).wrapping_sub(20_000),
                payload: packet.payload,
                red: false,
            });
        }
    }
    sent
}

/// Adds copies of the packets before to each packet.
pub(crate) fn with_red(sent: &[Travelling], copies: usize) -> Vec<Travelling> {
    let wrap = |(at, packet): (usize, &Travelling)| {
        let older = &sent[at.saturating_sub(copies)..at];
        let mut payload = Vec::new();
        for copy in older {
            let offset = packet.rtp_time.wrapping_sub(copy.rtp_time);
            let header = 1 << 31 | u32::from(OPUS) << 24 | offset << 10 | copy.payload.len() as u32;
            payload.extend(header.to_be_bytes());
        }
        payload.push(OPUS);
        for copy in older {
            payload.extend(&copy.payload);
        }
        payload.extend(&packet.payload);
        Travelling { payload, red: true, ..packet.clone() }
    };
    sent.iter().enumerate().map(wrap).collect()
}

/// The far end: a receiver that is pulled every 10 ms of its own clock.
pub(crate) struct FarEnd {
    pub(crate) receiver: AudioReceiver,
    pub(crate) pcm: Vec<i16>,
    /// How much faster than the sender's clock its own one runs, in parts per million.
    pub(crate) clock_ppm: f64,
    pub(crate) epoch: Instant,
    ticks: u32,
    last_pull: Option<Duration>,
}

impl FarEnd {
    pub(crate) fn new(rate: u32, channels: u16) -> Self {
        let receiver = AudioReceiver::new(rate, channels).unwrap();
        Self { receiver, pcm: Vec::new(), clock_ppm: 0.0, epoch: Instant::now(), ticks: 0, last_pull: None }
    }

    /// Receives until the given moment of the sender's time.
    pub(crate) fn receive_until(&mut self, arriving: &[Travelling], end: Duration) -> &mut Self {
        let mut block = Vec::new();
        let last_pull = self.last_pull;
        let mut coming = arriving.iter().skip_while(|packet| Some(packet.at) <= last_pull).peekable();
        while self.now() < end {
            let now = self.now();
            while let Some(packet) = coming.next_if(|packet| packet.at <= now) {
                self.insert(packet);
            }
            let info = self.receiver.pull_10ms(self.epoch + now, &mut block);
            assert_eq!(block.len() % info.samples_per_channel, 0);
            self.pcm.extend(&block);
            self.last_pull = Some(now);
            self.ticks += 1;
        }
        self
    }

    pub(crate) fn insert(&mut self, packet: &Travelling) {
        let Travelling { at, sequence, rtp_time, payload, red } = packet;
        let arrival = self.epoch + *at;
        if *red {
            self.receiver.insert_red(arrival, *sequence, *rtp_time, payload, OPUS).unwrap();
        } else {
            self.receiver.insert(arrival, *sequence, *rtp_time, payload);
        }
    }

    fn now(&self) -> Duration {
        (Duration::from_millis(10) * self.ticks).div_f64(1.0 + self.clock_ppm / 1e6)
    }

    /// How long packets waited on average since `before`, in milliseconds.
    pub(crate) fn mean_wait_since(&self, before: &crate::audio::receiver::ReceiverStats) -> f64 {
        let stats = self.receiver.stats();
        let waited = stats.jitter_buffer_delay_s - before.jitter_buffer_delay_s;
        waited * 1_000.0 / (stats.jitter_buffer_emitted - before.jitter_buffer_emitted) as f64
    }
}
