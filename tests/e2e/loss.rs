//! A network that loses packets, for real: data stays complete and in order, sound stays sound.

use sotto_harness::{
    network::Fault,
    participant::Participant,
    server::{Server, new_room},
    tone::{Ear, LEVEL, Tone, Voice},
};

const ECHOES: u32 = 50;
/// Frames of 10 ms in which sound is judged.
const LISTENED: usize = 500;

pub(crate) async fn ten_percent_data_and_audio() {
    // On two ways together 19 % are lost; redundancy heals most of it.
    data_and_audio(10, 0.95).await;
}

/// `percent` is lost on each of the four ways: between anna and the server, and between the server and boris.
pub(crate) async fn data_and_audio(percent: u32, loud_share: f64) {
    let server = Server::start().await;
    let room = new_room();
    let mut anna = Participant::join(&server, &room, "anna").await;
    let mut boris = Participant::join(&server, &room, "boris").await;
    anna.meets("boris").await;
    boris.meets("anna").await;
    let _voice = Voice::publish(&anna, "voice", Tone::mono(440.0)).await;
    let mut ear = Ear::new(&boris.audio_of("anna").await, 48_000, 1);
    ear.expect_tone(&[440.0], LEVEL).await;

    let _fault = Fault::lose(&server, percent);
    let packet = |number: u32| number.to_be_bytes().repeat(250);
    let asking = async {
        for number in 0..ECHOES {
            anna.send(packet(number), "", true).await;
        }
        for number in 0..ECHOES {
            assert!(*anna.data().await.payload == packet(number), "echo {number} is lost or out of order");
        }
    };
    let echoing = async {
        for _ in 0..ECHOES {
            let payload = boris.data().await.payload;
            boris.send(payload.to_vec(), "", true).await;
        }
    };
    let (sound, (), ()) = tokio::join!(ear.hear(LISTENED), asking, echoing);
    let loud = sound.loud_share(LEVEL);
    println!("{percent} % lost each way: {:.1} % of the frames are loud", loud * 100.0);
    assert!(loud >= loud_share, "only {:.1} % of the frames are loud: {sound}", loud * 100.0);
}
