//! Does what the session asks for: envelopes, transcript and state, in order, and the farewell.
//!
//! One thing at a time, each awaited: `livekit` lets the next packet wait while too much is under way, so a slow network
//! fills the bounded channel of commands and nothing else. Failures are logged and counted, never fatal. The state goes
//! another way (signalling) and must not delay words, so it has a loop of its own that shows only the latest.

use super::attributes;
use super::counts::Counts;
use super::pace::Pace;
use super::transcript::Transcripts;
use super::{ENVELOPE_TOPIC, STATE_ATTRIBUTE};
use crate::ports::RoomCommand;
use livekit::prelude::{DataPacket, DataPacketKind, ParticipantIdentity};
use livekit::{Room, RoomError, SendByteOptions, StreamResult};
use sotto_core::engine::event::{AgentState, Recipients, Transcript};
use std::collections::{HashMap, VecDeque};
use std::future::pending;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout};

/// Envelopes up to this size go as one packet; other clients may not take larger ones.
const LARGEST_PACKET: usize = 15_000;
/// How far ahead of the transcript an envelope is, which often comes with a piece of it: it is there sooner when the server and the
/// clients need not handle both at once, and nobody sees that the piece comes so much later.
const HEAD_START: Duration = Duration::from_millis(2);
/// So many commands at a time are looked at together, to join pieces of a transcript.
const LOOK_AHEAD: usize = 64;
/// What may be under way to the server at once. Less than the SDK's 2 MiB: what waits here can still be joined.
const UNDER_WAY_BYTES: u64 = 256 * 1024;
/// How long the server may take to acknowledge our last words.
const FLUSH_PATIENCE: Duration = Duration::from_secs(5);
const BETWEEN_STATE_ATTEMPTS: Duration = Duration::from_secs(1);

pub(super) struct Outgoing {
    pub(super) room: Arc<Room>,
    pub(super) commands: mpsc::Receiver<RoomCommand>,
    pub(super) topic: Option<String>,
    pub(super) counts: Arc<Counts>,
    pub(super) pace: Pace,
    /// Changes with each new connection; closed when the room is over.
    pub(super) connection: watch::Receiver<u64>,
}

impl Outgoing {
    /// Works until the session leaves, lets go of its end, or the room is over.
    pub(super) async fn run(mut self) {
        let (show, shown) = watch::channel(AgentState::Initializing);
        let showing = show_states(self.room.clone(), shown, self.connection.clone(), self.counts.clone());
        let mut showing = pin!(showing);
        let mut over = self.connection.clone();
        tokio::select! {
            () = self.work(show) => {}
            () = async { while over.changed().await.is_ok() {} } => return,
            () = &mut showing => return,
        }
        // The last state is answered by the server. Were we gone by then, it would find the line broken, not read our farewell
        // any more, and keep us in the room for many seconds.
        let _ = timeout(FLUSH_PATIENCE, showing).await;
        self.flush().await;
        // An error says that it was over already.
        let _ = self.room.close().await;
    }

    async fn work(&mut self, state: watch::Sender<AgentState>) {
        let mut transcripts = Transcripts::new(self.pace.clone());
        let mut waiting = VecDeque::new();
        let mut connection = self.connection.clone();
        connection.mark_changed();
        loop {
            if waiting.is_empty() {
                tokio::select! {
                    command = self.commands.recv() => match command {
                        Some(command) => add(&mut waiting, command),
                        None => return,
                    },
                    now = at(transcripts.due()) => self.heard(transcripts.write_due(now).await),
                }
                self.look_ahead(&mut waiting);
            }
            if connection.has_changed().unwrap_or(false) {
                connection.mark_unchanged();
                self.limit_under_way(UNDER_WAY_BYTES);
            }
            match waiting.pop_front() {
                Some(RoomCommand::Send { to, bytes }) => {
                    self.send(to, bytes).await;
                    transcripts.give_way(Instant::now() + HEAD_START);
                }
                Some(RoomCommand::State(new)) => drop(state.send(new)),
                Some(RoomCommand::Transcript(piece)) => {
                    self.heard(transcripts.write(&self.room.local_participant(), piece).await);
                }
                Some(RoomCommand::Leave) => return,
                None => {}
            }
        }
    }

    fn heard(&self, written: StreamResult<()>) {
        if let Err(error) = written {
            self.counts.failed_transcripts.add_one();
            tracing::warn!("a part of the transcript could not be sent: {error}");
        }
    }

    /// Takes in what else is waiting and joins pieces of one segment.
    fn look_ahead(&mut self, waiting: &mut VecDeque<RoomCommand>) {
        for _ in 1..LOOK_AHEAD {
            let Ok(next) = self.commands.try_recv() else { return };
            add(waiting, next);
        }
    }

    async fn send(&self, to: Recipients, bytes: Vec<u8>) {
        let to: Vec<ParticipantIdentity> = match to {
            Recipients::Everyone => Vec::new(),
            // To LiveKit nobody in particular is everybody.
            Recipients::Only(identities) if identities.is_empty() => return,
            Recipients::Only(identities) => identities.into_iter().map(ParticipantIdentity::from).collect(),
        };
        let participant = self.room.local_participant();
        let sent = if bytes.len() <= LARGEST_PACKET {
            let packet = DataPacket {
                payload: bytes,
                topic: self.topic.clone(),
                reliable: true,
                destination_identities: to,
            };
            participant.publish_data(packet).await.map_err(|error| error.to_string())
        } else {
            // Whether all can read compressed streams is not known of those who have only just come.
            let options = SendByteOptions::new_with_topic(ENVELOPE_TOPIC)
                .with_destination_identities(to)
                .with_compress(false);
            participant.send_bytes(bytes, options).await.map(drop).map_err(|error| error.to_string())
        };
        if let Err(error) = sent {
            self.counts.failed_sends.add_one();
            tracing::warn!("an envelope could not be sent: {error}");
        }
    }

    /// Waits until the server has all that was sent: the SDK takes the next packet only when no more than the limit is
    /// under way, and counts what the server has acknowledged.
    async fn flush(&self) {
        self.limit_under_way(0);
        let participant = self.room.local_participant();
        let last = DataPacket {
            payload: vec![0],
            reliable: true,
            // Nobody gets what is addressed to its own sender.
            destination_identities: vec![participant.identity()],
            ..DataPacket::default()
        };
        match timeout(FLUSH_PATIENCE, participant.publish_data(last)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!("left without knowing that all was sent: {error}"),
            Err(_) => tracing::warn!("left before the server had acknowledged all that was sent"),
        }
    }

    fn limit_under_way(&self, bytes: u64) {
        let participant = self.room.local_participant();
        // It cannot fail; the SDK only says that it could.
        let _ = participant.set_data_channel_buffered_amount_low_threshold(bytes, DataPacketKind::Reliable);
    }
}

/// That moment, when it comes; never, if there is none.
async fn at(moment: Option<Instant>) -> Instant {
    let Some(moment) = moment else { return pending().await };
    sleep_until(moment).await;
    moment
}

/// Puts a command behind those that wait, or into the last of them.
fn add(waiting: &mut VecDeque<RoomCommand>, next: RoomCommand) {
    let apart = match waiting.back_mut() {
        Some(last) => join(last, next),
        None => Some(next),
    };
    waiting.extend(apart);
}

/// Joins a piece of a transcript to the one before it; gives it back if they are not neighbours.
fn join(last: &mut RoomCommand, next: RoomCommand) -> Option<RoomCommand> {
    match (last, next) {
        (
            RoomCommand::Transcript(Transcript::Delta { segment, text }),
            RoomCommand::Transcript(Transcript::Delta { segment: next_segment, text: more }),
        ) if *segment == next_segment => {
            text.push_str(&more);
            None
        }
        (_, next) => Some(next),
    }
}

/// Shows the latest state, again after each reconnect: a new session starts with the token's attributes.
async fn show_states(
    room: Arc<Room>,
    mut states: watch::Receiver<AgentState>,
    mut connection: watch::Receiver<u64>,
    counts: Arc<Counts>,
) {
    let mut shown = Some(AgentState::Initializing);
    loop {
        tokio::select! {
            changed = states.changed() => if changed.is_err() { return },
            changed = connection.changed() => match changed {
                Ok(()) => shown = None,
                Err(_) => return,
            },
        }
        loop {
            let state = *states.borrow_and_update();
            if shown == Some(state) {
                break;
            }
            match show(&room, state).await {
                Ok(()) => shown = Some(state),
                Err(error) => {
                    shown = None;
                    counts.failed_states.add_one();
                    tracing::warn!("the state {} could not be shown: {error}", state.as_str());
                    if matches!(error, RoomError::Request { .. }) {
                        // The server does not want it, now or later.
                        break;
                    }
                    sleep(BETWEEN_STATE_ATTEMPTS).await;
                }
            }
        }
    }
}

async fn show(room: &Room, state: AgentState) -> Result<(), RoomError> {
    let attributes = HashMap::from([(STATE_ATTRIBUTE.to_owned(), state.as_str().to_owned())]);
    attributes::set(room, attributes).await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delta(segment: &str, text: &str) -> RoomCommand {
        RoomCommand::Transcript(Transcript::Delta { segment: segment.to_owned(), text: text.to_owned() })
    }

    #[test]
    fn neighbouring_pieces_of_one_segment_become_one() {
        let mut last = delta("a", "Hel");
        assert_eq!(join(&mut last, delta("a", "lo")), None);
        assert_eq!(last, delta("a", "Hello"));
    }

    #[test]
    fn whatever_comes_is_kept_in_order() {
        let mut waiting = VecDeque::new();
        for next in
            [RoomCommand::Leave, delta("a", "Hel"), delta("a", "lo"), delta("b", "!"), RoomCommand::Leave]
        {
            add(&mut waiting, next);
        }
        assert_eq!(waiting, [RoomCommand::Leave, delta("a", "Hello"), delta("b", "!"), RoomCommand::Leave]);
    }

    #[test]
    fn nothing_else_is_joined() {
        let end = RoomCommand::Transcript(Transcript::End { segment: "a".to_owned() });
        let mut last = delta("a", "Hello");
        assert_eq!(join(&mut last, delta("b", "!")), Some(delta("b", "!")));
        assert_eq!(join(&mut last, RoomCommand::Leave), Some(RoomCommand::Leave));
        assert!(join(&mut last, end).is_some());
        assert_eq!(last, delta("a", "Hello"));
    }
}
