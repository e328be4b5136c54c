//! End-to-end encryption is not built yet. Whoever asks for it must not be sent in the clear instead.

use livekit::{
    DataPacket,
    e2ee::{
        E2eeOptions, EncryptionType,
        key_provider::{KeyProvider, KeyProviderOptions},
    },
    options::TrackPublishOptions,
    prelude::*,
    webrtc::{
        audio_source::{AudioSourceOptions, native::NativeAudioSource},
        prelude::AudioFrame,
        stats::RtcStats,
    },
};
use sotto_harness::{
    participant::{Participant, PeerConnections},
    server::{Server, new_room},
};

pub(crate) async fn nothing_leaves_in_the_clear_when_encryption_is_asked_for() {
    let server = Server::shared().await;
    let mut options = PeerConnections::One.options();
    let key_provider = KeyProvider::with_shared_key(KeyProviderOptions::default(), b"secret".to_vec());
    options.encryption = Some(E2eeOptions { encryption_type: EncryptionType::Gcm, key_provider });
    let anna = Participant::join_with(&server, &new_room(), "anna", options).await;

    let packet = DataPacket { payload: b"in the clear?".to_vec(), reliable: true, ..Default::default() };
    let error = anna.room.local_participant().publish_data(packet).await.expect_err("no encryption, no data");
    assert!(error.to_string().contains("end-to-end encryption"), "the error says why: {error}");

    let source = NativeAudioSource::new(AudioSourceOptions::default(), 48_000, 1, 100);
    let track = LocalAudioTrack::create_audio_track("voice", RtcAudioSource::Native(source.clone()));
    let publication = anna.room.local_participant();
    publication
        .publish_track(LocalTrack::Audio(track), TrackPublishOptions::default())
        .await
        .expect("a track");
    let mut frame = AudioFrame::new(48_000, 1, 480);
    frame.data.to_mut().fill(9_000);
    // The queue paces this: two seconds of sound.
    for _ in 0..200 {
        source.capture_frame(&frame).await.expect("a frame");
    }
    let stats = anna.room.get_stats().await.expect("statistics").publisher_stats;
    let sent = stats.iter().filter(|report| matches!(report, RtcStats::OutboundRtp(_))).count();
    assert_eq!(sent, 0, "audio was sent: {stats:?}");
}
