//! Audio through two engines: the tone that goes in comes out.

use std::time::{Duration, Instant};

use str0m::media::MediaKind;

use super::network::{A, B, Link, Network};
use crate::{
    audio::{codec::OpusParams, receiver::AudioReceiver, sender::AudioSender},
    engine::{Event, TransceiverKey},
    rtp_transceiver::RtpTransceiverDirection as Direction,
};

const RATE: u32 = 48_000;
const TONE: f64 = 440.0;

struct Call {
    network: Network,
    sender: AudioSender,
    receiver: AudioReceiver,
    from: TransceiverKey,
    origin: Instant,
    phase: u64,
    redundant: u32,
}

impl Call {
    /// A sends a track to B, over a connected link.
    fn new(link: Link) -> Self {
        Self::with_answer(link, |answer| answer)
    }

    /// The same where B would rather have redundancy, as a LiveKit server does.
    fn redundant(link: Link) -> Self {
        Self::with_answer(link, |answer| answer.replace("SAVPF 111 63", "SAVPF 63 111"))
    }

    fn with_answer(link: Link, munge: impl FnOnce(String) -> String) -> Self {
        let mut network = Network::new(link, 11);
        let ids = (Some("stream".to_owned()), Some("track".to_owned()));
        let from =
            network.sides[A].connection.add_transceiver(MediaKind::Audio, Direction::SendOnly, ids.0, ids.1);
        network.negotiate_munged(A, false, munge);
        network.run_until(Duration::from_secs(10), |n| n.sides[A].connection.sending_params(from).is_some());
        let sender = AudioSender::new(RATE, 1, OpusParams::default()).unwrap();
        let receiver = AudioReceiver::new(RATE, 1).unwrap();
        let origin = network.now;
        Self { network, sender, receiver, from, origin, phase: 0, redundant: 0 }
    }

    /// Plays the tone for a while and returns what B heard.
    fn play(&mut self, time: Duration) -> Vec<i16> {
        let mut heard = Vec::new();
        for _ in 0..time.as_millis() / 10 {
            let block: Vec<i16> = (0..RATE / 100)
                .map(|i| {
                    let t = (self.phase + u64::from(i)) as f64 / f64::from(RATE);
                    ((t * TONE * std::f64::consts::TAU).sin() * 10_000.0) as i16
                })
                .collect();
            self.phase += u64::from(RATE / 100);
            let mut packets = Vec::new();
            self.sender.push(&block, false, &mut packets).unwrap();
            let (from, origin) = (self.from, self.origin);
            self.network.call(A, |c| c.send_audio(from, origin, &packets));
            self.network.run_for(Duration::from_millis(10));
            for event in self.network.sides[B].events.drain(..) {
                if let Event::Audio { packet, .. } = event {
                    let (at, sequence, time) = (packet.arrived, packet.sequence, packet.rtp_time);
                    match packet.red_of {
                        Some(opus) => {
                            self.redundant += 1;
                            self.receiver.insert_red(at, sequence, time, &packet.payload, opus).unwrap();
                        }
                        None => self.receiver.insert(at, sequence, time, &packet.payload),
                    }
                }
            }
            let mut frame = Vec::new();
            self.receiver.pull_10ms(self.network.now, &mut frame);
            heard.extend(frame);
        }
        heard
    }
}

/// Share of the power that is at the tone's frequency.
fn purity(pcm: &[i16]) -> f64 {
    let (mut re, mut im, mut power) = (0.0, 0.0, 0.0);
    for (i, sample) in pcm.iter().enumerate() {
        let angle = i as f64 / f64::from(RATE) * TONE * std::f64::consts::TAU;
        let value = f64::from(*sample);
        re += value * angle.cos();
        im += value * angle.sin();
        power += value * value;
    }
    2.0 * (re * re + im * im) / (pcm.len() as f64 * power.max(1.0))
}

#[test]
fn the_tone_arrives_pure_over_a_good_network() {
    let mut call = Call::new(Link::default());
    let heard = call.play(Duration::from_secs(3));
    let settled = &heard[RATE as usize..2 * RATE as usize];
    assert!(purity(settled) > 0.99, "purity {}", purity(settled));
    assert_eq!(call.receiver.stats().concealed_samples, 0);
}

#[test]
fn redundancy_is_sent_where_the_peer_prefers_it_and_heals_loss() {
    let mut call = Call::redundant(Link { loss_percent: 10, ..Link::default() });
    let heard = call.play(Duration::from_secs(5));
    assert!(call.redundant > 200, "{} packets were redundant", call.redundant);
    let loud = heard.chunks(480).skip(100).filter(|f| f.iter().any(|s| s.unsigned_abs() > 5_000)).count();
    assert!(loud >= 400 * 98 / 100, "{loud} of 400 frames are loud");
    let clean = Call::redundant(Link::default()).play(Duration::from_secs(3));
    let settled = &clean[RATE as usize..2 * RATE as usize];
    assert!(purity(settled) > 0.99, "purity {}", purity(settled));
}

#[test]
fn the_tone_survives_loss_and_jitter() {
    let link = Link { loss_percent: 10, jitter: Duration::from_millis(30), ..Link::default() };
    let mut call = Call::new(link);
    let heard = call.play(Duration::from_secs(10));
    let loud = heard.chunks(480).skip(100).filter(|f| f.iter().any(|s| s.unsigned_abs() > 2_000)).count();
    assert!(loud >= 900 * 95 / 100, "{loud} of 900 frames are loud");
}

#[test]
fn the_peer_learns_of_the_track_and_its_stream() {
    let call = Call::new(Link::default());
    let events = &call.network.sides[B].events;
    let key = events.iter().find_map(|e| match e {
        Event::Track(key) => Some(*key),
        _ => None,
    });
    let transceiver = call.network.sides[B].connection.transceiver(key.expect("a track")).unwrap();
    assert_eq!(transceiver.remote_stream_id(), Some("stream"));
}

#[test]
fn a_removed_track_leaves_its_line_and_a_new_one_fires_again() {
    let mut call = Call::new(Link::default());
    call.network.sides[B].events.clear();
    let from = call.from;
    call.network.call(A, |c| c.transceiver_mut(from).unwrap().stop_sending());
    call.network.negotiate(A, false);
    assert!(call.network.sides[A].connection.sending_params(from).is_none());
    call.network.call(A, |c| c.transceiver_mut(from).unwrap().direction = Direction::SendOnly);
    call.network.negotiate(A, false);
    let tracks = call.network.sides[B].events.iter().filter(|e| matches!(e, Event::Track(_))).count();
    assert_eq!(tracks, 1);
    assert!(call.network.sides[A].connection.sending_params(from).is_some());
}

#[test]
fn statistics_tell_of_pair_stream_and_codec() {
    let mut call = Call::new(Link::default());
    // The peer reports every 5 seconds.
    call.play(Duration::from_secs(7));
    let reports = call.network.call(A, |c| c.statistics(1, None, &std::collections::HashMap::new()));
    let text = format!("{reports:?}");
    for expected in ["CandidatePair", "OutboundRtp", "RemoteInboundRtp", "audio/opus", "192.0.2.2", "\"udp\""]
    {
        assert!(text.contains(expected), "{expected} is missing in {text}");
    }
    let rtt = reports.iter().find_map(|r| match r {
        crate::stats::RtcStats::CandidatePair(pair) => Some(pair.candidate_pair.current_round_trip_time),
        _ => None,
    });
    assert!(rtt.is_some_and(|rtt| (0.015..0.05).contains(&rtt)), "round trip {rtt:?}, the link takes 20 ms");
}
