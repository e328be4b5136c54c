//! The answer as LiveKit's own front ends read it: one text stream for each segment, on the topic `lk.transcription`.
//!
//! The stream's header says that the text is not final, its closing attributes say that it is. A stream that cannot be
//! written to any more is given up with the rest of its segment; the envelopes carry the same text.

use livekit::prelude::LocalParticipant;
use livekit::{StreamResult, StreamTextOptions, StreamWriter, TextStreamWriter};
use sotto_core::engine::event::Transcript;
use std::collections::{BTreeMap, HashMap};

const TOPIC: &str = "lk.transcription";
const SEGMENT: &str = "lk.segment_id";
const FINAL: &str = "lk.transcription_final";

/// The segments that are being written.
#[derive(Default)]
pub(super) struct Transcripts {
    open: BTreeMap<String, TextStreamWriter>,
}

impl Transcripts {
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
                self.open.insert(segment, writer);
                Ok(())
            }
            Transcript::Delta { segment, text } => {
                let Some(writer) = self.open.get(&segment) else { return Ok(()) };
                let written = writer.write(&text).await;
                if written.is_err() {
                    self.open.remove(&segment);
                }
                written
            }
            Transcript::End { segment } => {
                let Some(writer) = self.open.remove(&segment) else { return Ok(()) };
                let closing = HashMap::from([(FINAL.to_owned(), "true".to_owned())]);
                writer.close_with_options(None, Some(closing)).await
            }
        }
    }
}
