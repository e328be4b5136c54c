//! The jitter buffer: puts packets in order and says, moment by moment, what to play next.
//!
//! It holds payloads and never decodes. The receiver asks [`JitterBuffer::next`] whenever it runs
//! out of samples and is told to play a packet, to recover a lost one from its successor, or to make
//! something up. How it decides:
//!
//! - **Position** is the RTP time that continues what was played last. While audio is made up the
//!   position stays, and *concealed* counts how much was made up since.
//! - A packet at the position is played at once. If it was only delayed, what was made up for it
//!   has become additional delay, and no packet counts as late that could still be played.
//! - A packet beyond the position, with packets missing between, waits until as much has been made
//!   up as was lost. A packet right behind in sequence shows that the sender was silent (DTX) and
//!   nothing is lost.
//! - After silence of either kind the packet waits for the full target delay (or for that much audio
//!   behind it): nothing is being heard, so the delay is set anew for free.
//! - Otherwise the delay is brought back to its target by [`Stretch`]ing a packet now and then,
//!   which also makes up for clocks that run apart; or by a leap where it is far too long.
//!
//! Whatever a peer sends, at most [`MAX_PACKETS`] packets and [`MAX_SPAN`] of audio are held.

use super::codec::{MAX_PAYLOAD_BYTES, RTP_RATE, carries_fec, frame_samples_48k, is_dtx, packet_samples_48k};
use super::delay::DelayTracker;
use super::sequence::{Arrival, SequenceWindow};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Packets held at most.
pub(crate) const MAX_PACKETS: usize = 256;
/// Audio held at most, in RTP time (1 s).
pub(crate) const MAX_SPAN: i64 = RTP_RATE as i64;

/// Made-up audio comes in pieces of 10 ms.
const PIECE: i64 = 480;
/// After this much made-up audio (120 ms) nothing is heard any more.
const SILENT_AFTER: i64 = 5_760;
/// A packet this far from the position does not belong to what is being played (5 s).
const MAX_DISTANCE: i64 = 5 * RTP_RATE as i64;
/// So many misfits in a row are the stream from now on.
const MAX_MISFITS: u32 = 8;
/// The delay may stray this far from its target before it is corrected.
const TOLERANCE_US: i64 = 20_000;
/// A delay longer than the target by this much is cut at once.
const MAX_EXCESS_US: i64 = 400_000;

/// A packet waiting to be played, or taken out to be.
#[derive(Debug, Clone)]
pub(crate) struct Packet {
    /// Extended sequence number; a guess for those recovered from redundancy.
    pub(crate) sequence: u64,
    /// Extended RTP time.
    pub(crate) time: i64,
    /// How much audio it holds, in RTP time.
    pub(crate) samples: u32,
    /// The Opus packet.
    pub(crate) payload: Vec<u8>,
    /// When it came.
    pub(crate) arrival: Instant,
    /// Taken from the redundancy of a later packet.
    pub(crate) recovered: bool,
}

/// How to bring the delay back to its target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stretch {
    /// The delay is about right.
    Keep,
    /// The delay is too long: play this packet in less time.
    Shorten,
    /// The delay is too short: play this packet in more time.
    Lengthen,
}

/// What to play next.
#[derive(Debug)]
pub(crate) enum Next<'a> {
    /// Decode this packet.
    Play(Packet, Stretch),
    /// Recover as much lost audio as one frame of this packet holds, from its redundancy; the
    /// packet itself follows later.
    Recover(&'a Packet),
    /// Make up this much, in RTP time.
    Conceal(u32),
    /// Nothing was ever played (or not since a reset): silence.
    Idle,
}

/// What became of the packets, for statistics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct PacketCounters {
    /// Packets that came, duplicates and all.
    pub(crate) received: u64,
    /// Packets that came again.
    pub(crate) duplicated: u64,
    /// Packets that came after their time had been played.
    pub(crate) late: u64,
    /// Packets thrown away unplayed: unreadable, too many, or not of this stream.
    pub(crate) discarded: u64,
}

/// The buffer; see the module.
#[derive(Debug, Default)]
pub(crate) struct JitterBuffer {
    /// By extended RTP time.
    packets: BTreeMap<i64, Packet>,
    position: Option<i64>,
    concealed: i64,
    /// Sequence number of the packet played last.
    played: Option<u64>,
    /// Whether the packet played last announced silence.
    in_dtx: bool,
    /// RTP time that others are extended by.
    reference: i64,
    misfits: u32,
    delays: DelayTracker,
    sequences: SequenceWindow,
    counters: PacketCounters,
}

impl JitterBuffer {
    /// An empty buffer.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Takes a packet as it comes from the network.
    pub(crate) fn insert(&mut self, arrival: Instant, sequence: u64, rtp_time: u32, payload: &[u8]) {
        self.counters.received += 1;
        if self.sequences.note(sequence) == Arrival::Duplicate {
            self.counters.duplicated += 1;
            return;
        }
        let Some(samples) = readable(payload) else {
            self.counters.discarded += 1;
            return;
        };
        let time = self.extend(rtp_time);
        if !self.fits(time) {
            self.misfits += 1;
            let nothing_to_lose = self.packets.is_empty() && self.is_far(time);
            if self.misfits < MAX_MISFITS && !nothing_to_lose {
                let counter =
                    if self.is_far(time) { &mut self.counters.discarded } else { &mut self.counters.late };
                *counter += 1;
                return;
            }
            self.begin_anew();
        }
        self.misfits = 0;
        self.reference = time;
        self.delays.observe(arrival, time);
        let packet = Packet { sequence, time, samples, payload: payload.to_vec(), arrival, recovered: false };
        // A packet that stands there already is a recovered copy, or a mistake of the sender.
        self.packets.insert(time, packet);
        self.enforce_limits();
    }

    /// Takes the copy of an earlier packet that came with a later one, if it is of use. The later
    /// packet must have been inserted before.
    pub(crate) fn insert_recovered(
        &mut self,
        arrival: Instant,
        sequence: u64,
        rtp_time: u32,
        payload: &[u8],
    ) {
        let Some(samples) = readable(payload) else { return };
        let time = self.extend(rtp_time);
        // At the start there is no use for anything older than the first packet.
        let oldest = self.position.or_else(|| self.packets.keys().next().copied());
        if self.packets.contains_key(&time) || oldest.is_none_or(|oldest| time < oldest) || self.is_far(time)
        {
            return;
        }
        let packet = Packet { sequence, time, samples, payload: payload.to_vec(), arrival, recovered: true };
        self.packets.insert(time, packet);
        self.enforce_limits();
    }

    /// What to play at the moment `at`.
    pub(crate) fn next(&mut self, at: Instant) -> Next<'_> {
        self.leap_if_far_behind(at);
        match self.packets.first_key_value().map(|(_, first)| self.verdict(first, at)) {
            Some(Verdict::Due) => {
                let (_, packet) = self.packets.pop_first().expect("the first packet was just looked at");
                let stretch = self.stretch_for(&packet, at);
                self.position = Some(packet.time + i64::from(packet.samples));
                self.concealed = 0;
                self.played = Some(packet.sequence);
                self.in_dtx = is_dtx(&packet.payload);
                self.forget_overlapped();
                Next::Play(packet, stretch)
            }
            Some(Verdict::Recoverable(samples)) => {
                self.concealed += samples;
                let (_, packet) =
                    self.packets.first_key_value().expect("the first packet was just looked at");
                Next::Recover(packet)
            }
            Some(Verdict::NotYet(samples)) => self.conceal(samples),
            None => self.conceal(PIECE),
        }
    }

    /// Whether the sender announced silence with the packet played last.
    pub(crate) fn in_dtx(&self) -> bool {
        self.in_dtx
    }

    /// How long packets should wait before they are played.
    pub(crate) fn target(&self) -> Duration {
        self.delays.target()
    }

    /// What became of the packets so far.
    pub(crate) fn counters(&self) -> PacketCounters {
        self.counters
    }

    /// Packets that were expected and never came.
    pub(crate) fn lost(&self) -> u64 {
        self.sequences.lost()
    }

    #[cfg(test)]
    /// Packets waiting.
    pub(crate) fn len(&self) -> usize {
        self.packets.len()
    }

    /// Another stream follows (a new SSRC): forgets all but the counters.
    pub(crate) fn reset(&mut self) {
        self.begin_anew();
        self.sequences.restart();
    }

    /// Judges the oldest packet.
    fn verdict(&self, first: &Packet, at: Instant) -> Verdict {
        let age = at.saturating_duration_since(first.arrival);
        let silent = self.concealed >= SILENT_AFTER;
        let follows_in_sequence = self.played.is_some() && self.played == first.sequence.checked_sub(1);
        let talks_again = follows_in_sequence && self.position.is_some_and(|position| first.time > position);
        let position = match self.position {
            Some(position) if !silent && !talks_again => position,
            _ if age >= self.target() || self.waits_behind(first) >= self.target() => return Verdict::Due,
            _ => return Verdict::NotYet(PIECE),
        };
        let missing = first.time - position - self.concealed;
        if missing <= 0 {
            return Verdict::Due;
        }
        let frame = i64::from(frame_samples_48k(&first.payload).unwrap_or(0));
        if missing == frame && carries_fec(&first.payload) {
            return Verdict::Recoverable(frame);
        }
        // Leaves exactly one frame to be recovered.
        let made_up = if missing > frame { missing - frame } else { missing };
        Verdict::NotYet(made_up.min(PIECE))
    }

    /// How much audio has come after a packet.
    fn waits_behind(&self, packet: &Packet) -> Duration {
        let newest = self.packets.last_key_value().map_or(packet.time, |(time, _)| *time);
        Duration::from_micros(((newest - packet.time) * 1_000 / 48) as u64)
    }

    fn conceal(&mut self, samples: i64) -> Next<'_> {
        if self.position.is_none() {
            return Next::Idle;
        }
        self.concealed += samples;
        Next::Conceal(samples as u32)
    }

    fn stretch_for(&self, packet: &Packet, at: Instant) -> Stretch {
        let Some(delay) = self.delays.delay_of(packet.time, at) else { return Stretch::Keep };
        let target = self.target().as_micros() as i64;
        let waiting = self.end().map_or(0, |end| end - packet.time) * 1_000 / 48;
        if delay > target + TOLERANCE_US && waiting > target {
            Stretch::Shorten
        } else if delay < target - TOLERANCE_US {
            Stretch::Lengthen
        } else {
            Stretch::Keep
        }
    }

    /// Gives up what is far too old, as after a network that held everything back for a second.
    fn leap_if_far_behind(&mut self, at: Instant) {
        let (Some(position), Some(end)) = (self.position, self.end()) else { return };
        let target = self.target().as_micros() as i64;
        let delay = self.delays.delay_of(position, at).unwrap_or(0);
        let keep_from = end - target * 48 / 1_000;
        if delay <= target + MAX_EXCESS_US || keep_from <= position {
            return;
        }
        while self.packets.first_key_value().is_some_and(|(time, _)| *time < keep_from) {
            self.discard_first();
        }
    }

    fn enforce_limits(&mut self) {
        while self.packets.len() > MAX_PACKETS
            || self
                .packets
                .first_key_value()
                .zip(self.end())
                .is_some_and(|((first, _), end)| end - first > MAX_SPAN)
        {
            self.discard_first();
        }
    }

    /// Drops the oldest packet; what follows is played next as if it had been in sequence.
    fn discard_first(&mut self) {
        if let Some((time, packet)) = self.packets.pop_first() {
            self.counters.discarded += 1;
            if let Some(position) = &mut self.position {
                *position = (*position).max(time + i64::from(packet.samples));
                self.played = Some(packet.sequence);
            }
        }
    }

    /// A packet may claim more time than its successor leaves to it: what lies inside is over.
    fn forget_overlapped(&mut self) {
        let position = self.position.unwrap_or(i64::MIN);
        while self.packets.first_key_value().is_some_and(|(time, _)| *time < position) {
            self.packets.pop_first();
            self.counters.discarded += 1;
        }
    }

    fn begin_anew(&mut self) {
        self.packets.clear();
        self.position = None;
        self.concealed = 0;
        self.played = None;
        self.in_dtx = false;
        self.misfits = 0;
        self.delays = DelayTracker::default();
    }

    /// Where the newest packet ends.
    fn end(&self) -> Option<i64> {
        self.packets.last_key_value().map(|(time, packet)| time + i64::from(packet.samples))
    }

    fn fits(&self, time: i64) -> bool {
        self.position.is_none_or(|position| time >= position) && !self.is_far(time)
    }

    /// Whether a time can have nothing to do with what is being played. While nothing comes the
    /// sender's clock may have gone on, or stopped: both are near.
    fn is_far(&self, time: i64) -> bool {
        let Some(from) = self.position.or_else(|| self.packets.keys().next().copied()) else { return false };
        time < from - MAX_DISTANCE || time > from + self.concealed + MAX_DISTANCE
    }

    /// Extends a 32-bit RTP time to the one nearest to the last.
    fn extend(&self, rtp_time: u32) -> i64 {
        self.reference + i64::from(rtp_time.wrapping_sub(self.reference as u32) as i32)
    }
}

/// What to do about the oldest packet.
enum Verdict {
    Due,
    /// Not due, but the frame before it can be recovered from it.
    Recoverable(i64),
    /// Not due before this much has been made up.
    NotYet(i64),
}

/// The audio in a payload, in RTP time, unless it is none.
fn readable(payload: &[u8]) -> Option<u32> {
    if payload.len() > MAX_PAYLOAD_BYTES { None } else { packet_samples_48k(payload) }
}
