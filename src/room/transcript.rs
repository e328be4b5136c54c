//! The answer as LiveKit's own front ends read it: one text stream for each segment, on the topic `lk.transcription`.
//!
//! Under load several pieces go as one ([`Pace`]); the first of a segment never waits. The stream's header says that the text is not final, its closing attributes say that it is. A stream that cannot be
//! written to any more is given up with the rest of its segment; the envelopes carry the same text.

use super::pace::{Pace, Share};
use livekit::prelude::LocalParticipant;
use livekit::{StreamResult, StreamTextOptions, StreamWriter, TextStreamWriter};
use sotto_core::engine::event::Transcript;
use std::collections::{BTreeMap, HashMap};
use tokio::time::Instant;

const TOPIC: &str = "lk.transcription";
const SEGMENT: &str = "lk.segment_id";
const FINAL: &str = "lk.transcription_final";

/// The segments that are being written.
pub(super) struct Transcripts {
    pace: Pace,
    open: BTreeMap<String, Segment>,
}

struct Segment {
    writer: TextStreamWriter,
    share: Share,
    /// What was not sent yet.
    pending: String,
    /// When the next piece may be sent.
    next: Instant,
}

impl Segment {
    async fn write(&mut self, now: Instant) -> StreamResult<()> {
        self.next = now + self.share.gap();
        let piece = std::mem::take(&mut self.pending);
        if piece.is_empty() { Ok(()) } else { self.writer.write(&piece).await }
    }
}

impl Transcripts {
    pub(super) fn new(pace: Pace) -> Self {
        Self { pace, open: BTreeMap::new() }
    }

    /// Goes on with a segment. After an error its later pieces are passed over in silence.
    pub(super) async fn write(
        &mut self,
        participant: &LocalParticipant,
        piece: Transcript,
    ) -> StreamResult<()> {
        match piece {
            Transcript::Begin { segment } => {
                let options = StreamTextOptions::new_with_topic(TOPIC)
                    .with_attribute(SEGMENT, segment.as_str())
                    .with_attribute(FINAL, "false");
                let writer = participant.stream_text(options).await?;
                let (share, next) = (self.pace.join(), Instant::now());
                self.open.insert(segment, Segment { writer, share, pending: String::new(), next });
                Ok(())
            }
            Transcript::Delta { segment, text } => {
                if let Some(open) = self.open.get_mut(&segment) {
                    open.pending.push_str(&text);
                }
                self.write_due(Instant::now()).await
            }
            Transcript::End { segment } => {
                let Some(mut open) = self.open.remove(&segment) else { return Ok(()) };
                open.write(Instant::now()).await?;
                let closing = HashMap::from([(FINAL.to_owned(), "true".to_owned())]);
                open.writer.close_with_options(None, Some(closing)).await
            }
        }
    }

    /// Sends no more pieces before this moment.
    pub(super) fn give_way(&mut self, until: Instant) {
        for open in self.open.values_mut() {
            open.next = open.next.max(until);
        }
    }

    /// When something that waits may be sent.
    pub(super) fn due(&self) -> Option<Instant> {
        self.open.values().filter(|open| !open.pending.is_empty()).map(|open| open.next).min()
    }

    /// Sends what may be sent now.
    pub(super) async fn write_due(&mut self, now: Instant) -> StreamResult<()> {
        let is_due = |open: &Segment| !open.pending.is_empty() && open.next <= now;
        let due: Vec<String> =
            self.open.iter().filter(|(_, open)| is_due(open)).map(|(segment, _)| segment.clone()).collect();
        for segment in due {
            let Some(open) = self.open.get_mut(&segment) else { continue };
            if let Err(error) = open.write(now).await {
                self.open.remove(&segment);
                return Err(error);
            }
        }
        Ok(())
    }
}
