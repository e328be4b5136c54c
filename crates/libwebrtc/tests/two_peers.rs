//! Two peer connections of this crate on real sockets, driven through the public API alone.

use std::{f64::consts::TAU, sync::Arc, time::Duration};

use libwebrtc::{
    audio_source::native::NativeAudioSource, audio_stream::native::NativeAudioStream,
    peer_connection_factory::native::PeerConnectionFactoryExt, prelude::*, stats::RtcStats,
};
use tokio::sync::mpsc;
use tokio_stream::StreamExt;

const LIMIT: Duration = Duration::from_secs(20);

async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(LIMIT, future).await.unwrap_or_else(|_| panic!("{what} took more than {LIMIT:?}"))
}

/// Candidates go straight to the other side.
fn trickle(from: &PeerConnection) -> mpsc::UnboundedReceiver<IceCandidate> {
    let (sender, receiver) = mpsc::unbounded_channel();
    from.on_ice_candidate(Some(Box::new(move |candidate| drop(sender.send(candidate)))));
    receiver
}

async fn negotiate(offerer: &PeerConnection, answerer: &PeerConnection) {
    let offer = offerer.create_offer(OfferOptions::default()).await.expect("an offer");
    offerer.set_local_description(offer.clone()).await.expect("our own offer");
    answerer.set_remote_description(offer).await.expect("their offer");
    let answer = answerer.create_answer(AnswerOptions::default()).await.expect("an answer");
    answerer.set_local_description(answer.clone()).await.expect("our own answer");
    offerer.set_remote_description(answer).await.expect("their answer");
}

struct Pair {
    a: PeerConnection,
    b: PeerConnection,
}

impl Pair {
    async fn connect(prepare: impl FnOnce(&PeerConnection, &PeerConnection)) -> Self {
        libwebrtc::offer_loopback_addresses(true);
        let factory = PeerConnectionFactory::default();
        let a = factory.create_peer_connection(RtcConfiguration::default()).expect("a connection");
        let b = factory.create_peer_connection(RtcConfiguration::default()).expect("a connection");
        let (mut from_a, mut from_b) = (trickle(&a), trickle(&b));
        let (states, mut reached) = mpsc::unbounded_channel();
        for pc in [&a, &b] {
            let states = states.clone();
            pc.on_connection_state_change(Some(Box::new(move |state| {
                states.send(state).unwrap_or_default();
            })));
        }
        prepare(&a, &b);
        negotiate(&a, &b).await;
        let (to_b, to_a) = (b.clone(), a.clone());
        tokio::spawn(async move {
            while let Some(candidate) = from_a.recv().await {
                to_b.add_ice_candidate(candidate).await.expect("a candidate of a");
            }
        });
        tokio::spawn(async move {
            while let Some(candidate) = from_b.recv().await {
                to_a.add_ice_candidate(candidate).await.expect("a candidate of b");
            }
        });
        let mut connected = 0;
        while connected < 2 {
            let state = within("connecting", reached.recv()).await.expect("the channel is open");
            connected += usize::from(state == PeerConnectionState::Connected);
        }
        Self { a, b }
    }
}

fn tone(rate: u32, channels: u32, frequency: f64, position: &mut u64) -> AudioFrame<'static> {
    let mut frame = AudioFrame::new(rate, channels, rate / 100);
    for samples in frame.data.to_mut().chunks_mut(channels as usize) {
        let value = (*position as f64 / f64::from(rate) * frequency * TAU).sin() * 10_000.0;
        samples.fill(value as i16);
        *position += 1;
    }
    frame
}

/// Share of the power at `frequency`, and the level.
fn listen(pcm: &[i16], rate: u32, frequency: f64) -> (f64, f64) {
    let (mut re, mut im, mut power) = (0.0, 0.0, 0.0);
    for (i, sample) in pcm.iter().enumerate() {
        let (angle, value) = (i as f64 / f64::from(rate) * frequency * TAU, f64::from(*sample));
        re += value * angle.cos();
        im += value * angle.sin();
        power += value * value;
    }
    let n = pcm.len() as f64;
    (2.0 * (re * re + im * im) / (n * power.max(1.0)), (2.0 * power / n).sqrt())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tone_arrives_as_it_was_played() {
    let source = NativeAudioSource::new(AudioSourceOptions::default(), 44_100, 2, 100);
    let (tracks, mut arrived) = mpsc::unbounded_channel();
    let pair = Pair::connect(|a, b| {
        let track = PeerConnectionFactory::default().create_audio_track("voice", source.clone());
        let init = RtpTransceiverInit {
            direction: RtpTransceiverDirection::SendOnly,
            stream_ids: vec!["stream".into()],
            send_encodings: vec![],
        };
        a.add_transceiver(track.into(), init).expect("a transceiver");
        b.on_track(Some(Box::new(move |event| drop(tracks.send(event)))));
    })
    .await;
    let event = within("the track", arrived.recv()).await.expect("a track");
    assert_eq!(event.streams.first().map(MediaStream::id).as_deref(), Some("stream"));
    let MediaStreamTrack::Audio(track) = event.track else { panic!("an audio track") };
    let mut stream = NativeAudioStream::new(track, 16_000, 1);
    let player = tokio::spawn(async move {
        let mut position = 0;
        loop {
            source.capture_frame(&tone(44_100, 2, 440.0, &mut position)).await.expect("a frame");
        }
    });
    let mut heard = Vec::new();
    while heard.len() < 3 * 16_000 {
        let frame = within("a frame", stream.next()).await.expect("sound");
        assert_eq!((frame.sample_rate, frame.num_channels, frame.samples_per_channel), (16_000, 1, 160));
        heard.extend_from_slice(&frame.data);
    }
    player.abort();
    // A machine that takes the processor away makes gaps, and each gap shifts the phase: so it is judged in pieces.
    let pieces: Vec<(f64, f64)> =
        heard[16_000..].chunks_exact(800).map(|p| listen(p, 16_000, 440.0)).collect();
    let right = pieces.iter().filter(|(purity, level)| *purity > 0.95 && (8_000.0..12_000.0).contains(level));
    let stats = pair.b.get_stats().await.expect("statistics");
    assert!(right.count() * 2 > pieces.len(), "purity and level of each 50 ms: {pieces:?}, {stats:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_arrive_and_every_byte_is_reported_once() {
    let mut channel = None;
    let (messages, mut arrived) = mpsc::unbounded_channel();
    let pair = Pair::connect(|a, b| {
        let init = DataChannelInit { negotiated: true, id: 100, ..Default::default() };
        channel = Some(a.create_data_channel("x", init.clone()).expect("a channel"));
        let other = b.create_data_channel("x", init).expect("a channel");
        other.on_message(Some(Box::new(move |message| drop(messages.send(message.data.to_vec())))));
    })
    .await;
    let channel = channel.expect("made above");
    let (sent, mut reports) = mpsc::unbounded_channel();
    channel.on_buffered_amount_change(Some(Box::new(move |bytes| sent.send(bytes).unwrap_or_default())));
    let (open, mut opened) = mpsc::unbounded_channel();
    let state = Arc::new(open);
    channel.on_state_change(Some(Box::new(move |s| state.send(s).unwrap_or_default())));
    if channel.state() != DataChannelState::Open {
        assert_eq!(within("opening", opened.recv()).await, Some(DataChannelState::Open));
    }
    let mut total = 0;
    for i in 1..=200usize {
        channel.send(&vec![i as u8; i * 70], true).expect("room for it");
        total += (i * 70) as u64;
    }
    for i in 1..=200usize {
        assert_eq!(within("a message", arrived.recv()).await, Some(vec![i as u8; i * 70]));
    }
    let mut reported = 0;
    while reported < total {
        reported += within("a report", reports.recv()).await.expect("the channel is open");
    }
    assert_eq!((reported, channel.buffered_amount()), (total, 0));
    drop(pair);
}

#[tokio::test(flavor = "multi_thread")]
async fn statistics_name_a_udp_pair() {
    let pair = Pair::connect(|a, _| drop(a.create_data_channel("x", DataChannelInit::default()))).await;
    let stats = pair.a.get_stats().await.expect("statistics");
    let local = stats.iter().find_map(|report| match report {
        RtcStats::LocalCandidate(candidate) => Some(candidate.local_candidate.protocol.clone()),
        _ => None,
    });
    assert_eq!(local.as_deref(), Some("udp"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_callback_that_panics_harms_nothing_else() {
    let (messages, mut arrived) = mpsc::unbounded_channel();
    let init = DataChannelInit { negotiated: true, id: 7, ..Default::default() };
    let mut sender = None;
    let _bad = Pair::connect(|a, b| {
        for pc in [a, b] {
            pc.on_signaling_state_change(Some(Box::new(|_| panic!("a caller's bug"))));
            pc.create_data_channel("x", init.clone()).expect("a channel");
        }
    })
    .await;
    let _good = Pair::connect(|a, b| {
        sender = Some(a.create_data_channel("x", init.clone()).expect("a channel"));
        let other = b.create_data_channel("x", init.clone()).expect("a channel");
        other.on_message(Some(Box::new(move |message| drop(messages.send(message.data.to_vec())))));
    })
    .await;
    let sender = sender.expect("made above");
    within("opening", async {
        while sender.send(b"hello", true).is_err() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(within("a message", arrived.recv()).await.as_deref(), Some(&b"hello"[..]));
}
