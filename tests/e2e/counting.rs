//! Packets with consecutive numbers, sent without pause while something happens to the connection.

use std::time::Duration;

use livekit::prelude::*;
use sotto_harness::{PATIENCE, participant::Participant};
use tokio::{
    sync::oneshot,
    task::JoinHandle,
    time::{interval, timeout},
};

const TOPIC: &str = "count";
const PACE: Duration = Duration::from_millis(20);

/// Somebody who counts aloud.
pub(crate) struct Counting {
    stop: oneshot::Sender<()>,
    sending: JoinHandle<Vec<u32>>,
}

impl Counting {
    /// Counts from 0 until stopped.
    pub(crate) fn start(participant: &Participant) -> Self {
        let sender = participant.room.local_participant();
        let (stop, mut stopped) = oneshot::channel();
        let sending = tokio::spawn(async move {
            let mut accepted = Vec::new();
            let mut pace = interval(PACE);
            for number in 0_u32.. {
                tokio::select! {
                    _ = pace.tick() => {}
                    _ = &mut stopped => break,
                }
                // While it reconnects the SDK may refuse a packet: that one was never sent.
                if sender.publish_data(packet(number)).await.is_ok() {
                    accepted.push(number);
                }
            }
            accepted
        });
        Self { stop, sending }
    }

    /// The numbers that the SDK took for sending.
    pub(crate) async fn stop(self) -> Vec<u32> {
        // It only fails when the counting has ended by itself.
        let _ = self.stop.send(());
        timeout(PATIENCE, self.sending).await.expect("publish_data returns").expect("counting does not panic")
    }
}

/// All numbers up to and with `last`, as they arrive.
pub(crate) async fn count_until(listener: &mut Participant, last: u32) -> Vec<u32> {
    let mut numbers = Vec::new();
    while numbers.last() != Some(&last) {
        numbers.push(next_number(listener).await);
    }
    numbers
}

/// The next number that arrives.
pub(crate) async fn next_number(listener: &mut Participant) -> u32 {
    listener
        .event("the next number", |event| match event {
            RoomEvent::DataReceived { payload, topic: Some(topic), .. } if topic == TOPIC => {
                let bytes: [u8; 4] = payload.as_slice().try_into().ok()?;
                Some(u32::from_be_bytes(bytes))
            }
            _ => None,
        })
        .await
}

fn packet(number: u32) -> DataPacket {
    DataPacket {
        payload: number.to_be_bytes().to_vec(),
        topic: Some(TOPIC.to_owned()),
        reliable: true,
        ..DataPacket::default()
    }
}
