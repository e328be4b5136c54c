//! Incoming streams: puts chunks together to envelopes and chat messages, within limits.
//!
//! It works on the raw packets rather than on the SDK's readers. The SDK matches chunks by stream id alone, so that
//! anyone could write into another's stream, and it queues without bound; here a stream belongs to its sender, and
//! every byte is checked and reserved *before* it is stored. Pure state: the time is an argument, nothing is sent, and
//! whose streams are heard at all is decided by the caller.

use super::budget::{ByteBudget, Reservation};
use super::{CHAT_TOPIC, ENVELOPE_TOPIC, LEGACY_CHAT_TOPIC, StreamLimits};
use flate2::{Decompress, FlushDecompress, Status};
use livekit_protocol::data_stream::header::ContentHeader;
use livekit_protocol::data_stream::{Chunk, CompressionType, Header, OperationType, Trailer};
use std::collections::BTreeMap;
use tokio::time::Instant;

/// Ids become message ids; a longer one is no id.
const MAX_ID_BYTES: usize = 256;
/// Streams of one sender whose turn has not come (see [`Streams::opened`]). They hold no content.
const MOST_ANNOUNCED: usize = 256;
/// Compressed content grows by at most this much between two looks at the limits.
const INFLATE_STEP: usize = 16 * 1024;

/// What a complete stream was.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Content {
    Envelope(Vec<u8>),
    Chat { id: String, text: String },
}

/// What a packet of a stream led to.
#[derive(Debug)]
pub(crate) enum Progress {
    /// Nothing to tell, or nothing of ours.
    Pending,
    /// The stream is complete; the reservation is for its bytes.
    Complete(Content, Reservation),
    /// The stream is forgotten.
    Refused(Refusal),
}

/// Why a stream was not taken in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// In words for its sender.
    pub(crate) reason: String,
    /// The same may be taken another time: no rule was broken.
    pub(crate) for_now: bool,
}

impl Refusal {
    fn for_good(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), for_now: false }
    }

    fn for_now(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), for_now: true }
    }
}

/// The open streams of one room, by sender and stream id.
#[derive(Debug)]
pub(crate) struct Streams {
    limits: StreamLimits,
    budget: ByteBudget,
    open: BTreeMap<String, BTreeMap<String, Open>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Envelope,
    Chat,
}

#[derive(Debug)]
struct Open {
    kind: Kind,
    /// Its turn has come: everything that was sent before it has been seen, so that it counts.
    counts: bool,
    declared: Option<u64>,
    compressed: bool,
    /// Made for the first chunk: it is large.
    inflater: Option<Decompress>,
    next_chunk: u64,
    bytes: Vec<u8>,
    reserved: Reservation,
    last_heard: Instant,
}

impl Streams {
    pub(crate) fn new(limits: StreamLimits, budget: ByteBudget) -> Self {
        Self { limits, budget, open: BTreeMap::new() }
    }

    /// Whether a stream that begins so is for us.
    pub(super) fn is_ours(header: &Header) -> bool {
        kind(header).is_some()
    }

    /// A stream begins; a short one is complete with that.
    pub(crate) fn header(&mut self, from: &str, header: Header, now: Instant) -> Progress {
        let Some(kind) = kind(&header) else { return Progress::Pending };
        match self.begin(from, kind, header, now) {
            Ok(progress) => progress,
            Err(refusal) => Progress::Refused(refusal),
        }
    }

    /// The SDK tells of a stream's beginning before it tells of the parts of earlier ones, and once more, by its reader,
    /// in step with the parts. Only then, or with its first part, does a stream count as open: those that were finished
    /// before it was begun are finished here too.
    pub(crate) fn opened(&mut self, from: &str, id: &str) -> Progress {
        match self.count_in(from, id) {
            Ok(()) => Progress::Pending,
            Err(refusal) => Progress::Refused(refusal),
        }
    }

    /// A stream goes on. Chunks of unknown streams are ignored, and those in another's name are unknown.
    pub(crate) fn chunk(&mut self, from: &str, chunk: &Chunk, now: Instant) -> Progress {
        if let Err(refusal) = self.count_in(from, &chunk.stream_id) {
            return Progress::Refused(refusal);
        }
        let limit = self.limits.bytes;
        let Some(stream) = self.open.get_mut(from).and_then(|streams| streams.get_mut(&chunk.stream_id))
        else {
            return Progress::Pending;
        };
        if chunk.chunk_index < stream.next_chunk {
            // Sent again after a reconnect.
            return Progress::Pending;
        }
        let added = if chunk.chunk_index == stream.next_chunk {
            stream.next_chunk += 1;
            stream.last_heard = now;
            stream.add(&chunk.content, limit)
        } else {
            Err(Refusal::for_good("a part of the stream is missing; send it again"))
        };
        match added {
            Ok(()) => Progress::Pending,
            Err(refusal) => {
                self.remove(from, &chunk.stream_id);
                Progress::Refused(refusal)
            }
        }
    }

    /// A stream ends.
    pub(crate) fn trailer(&mut self, from: &str, trailer: &Trailer) -> Progress {
        let Some(stream) = self.remove(from, &trailer.stream_id) else { return Progress::Pending };
        if !trailer.reason.is_empty() {
            // Its sender gave it up, and knows.
            return Progress::Pending;
        }
        match stream.complete(trailer.stream_id.clone()) {
            Ok((content, reserved)) => Progress::Complete(content, reserved),
            Err(refusal) => Progress::Refused(refusal),
        }
    }

    /// Forgets what someone who left had begun.
    pub(crate) fn forget(&mut self, from: &str) {
        self.open.remove(from);
    }

    /// When to call [`Self::expire`].
    pub(crate) fn next_expiry(&self) -> Option<Instant> {
        let oldest = self.open.values().flat_map(BTreeMap::values).map(|stream| stream.last_heard).min();
        oldest.map(|heard| heard + self.limits.idle)
    }

    /// Forgets streams that stopped in the middle: whose they were, which, and why.
    pub(crate) fn expire(&mut self, now: Instant) -> Vec<(String, String, Refusal)> {
        let idle = self.limits.idle;
        let mut expired = Vec::new();
        for (from, streams) in &mut self.open {
            streams.retain(|id, stream| {
                let alive = now < stream.last_heard + idle;
                if !alive {
                    let reason = format!("a stream was silent for {} s; send it again", idle.as_secs());
                    expired.push((from.clone(), id.clone(), Refusal::for_now(reason)));
                }
                alive
            });
        }
        self.open.retain(|_, streams| !streams.is_empty());
        expired
    }

    fn begin(&mut self, from: &str, kind: Kind, header: Header, now: Instant) -> Result<Progress, Refusal> {
        let limit = self.limits.bytes;
        let id = header.stream_id;
        if id.is_empty() || id.len() > MAX_ID_BYTES {
            return Err(Refusal::for_good(format!("a stream's id has 1 to {MAX_ID_BYTES} bytes")));
        }
        if header.total_length.is_some_and(|total| total > limit as u64) {
            return Err(too_large(limit));
        }
        let streams = self.open.get(from);
        if streams.is_some_and(|streams| streams.contains_key(&id)) {
            return Err(Refusal::for_good("a stream of this id is already open; use a new id"));
        }
        let announced = streams.map_or(0, |streams| streams.values().filter(|stream| !stream.counts).count());
        if header.inline_content.is_none() && announced >= MOST_ANNOUNCED {
            return Err(Refusal::for_now("too many streams were begun at once; finish them first"));
        }
        let compressed = match CompressionType::try_from(header.compression) {
            Ok(CompressionType::None) => false,
            Ok(CompressionType::DeflateRaw) => true,
            Err(_) => {
                return Err(Refusal::for_good("this compression is not known; send the stream without"));
            }
        };
        let mut stream = Open {
            kind,
            counts: false,
            declared: header.total_length,
            compressed,
            inflater: None,
            next_chunk: 0,
            bytes: Vec::new(),
            reserved: self.budget.reservation(),
            last_heard: now,
        };
        if let Some(content) = header.inline_content {
            stream.add(&content, limit)?;
            let (content, reserved) = stream.complete(id)?;
            return Ok(Progress::Complete(content, reserved));
        }
        self.open.entry(from.to_owned()).or_default().insert(id, stream);
        Ok(Progress::Pending)
    }

    /// Lets a stream count as open, if it is there and does not yet; refuses it where too many do.
    fn count_in(&mut self, from: &str, id: &str) -> Result<(), Refusal> {
        let most = self.limits.open_per_participant;
        let Some(streams) = self.open.get_mut(from) else { return Ok(()) };
        let counting = streams.values().filter(|stream| stream.counts).count();
        match streams.get_mut(id) {
            Some(stream) if !stream.counts && counting >= most => {
                self.remove(from, id);
                Err(Refusal::for_good(format!(
                    "at most {most} streams may be open at once; finish one first"
                )))
            }
            Some(stream) => {
                stream.counts = true;
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn remove(&mut self, from: &str, id: &str) -> Option<Open> {
        let streams = self.open.get_mut(from)?;
        let stream = streams.remove(id);
        if streams.is_empty() {
            self.open.remove(from);
        }
        stream
    }
}

impl Open {
    fn add(&mut self, content: &[u8], limit: usize) -> Result<(), Refusal> {
        if !self.compressed {
            return self.store(content, limit);
        }
        let mut inflater = self.inflater.take().unwrap_or_else(|| Decompress::new(false));
        let added = self.inflate(&mut inflater, content, limit);
        self.inflater = Some(inflater);
        added
    }

    fn inflate(
        &mut self,
        inflater: &mut Decompress,
        mut content: &[u8],
        limit: usize,
    ) -> Result<(), Refusal> {
        let mut step = [0; INFLATE_STEP];
        loop {
            let (taken, given) = (inflater.total_in(), inflater.total_out());
            let status = inflater
                .decompress(content, &mut step, FlushDecompress::None)
                .map_err(|_| Refusal::for_good("the compressed stream is damaged; send it again"))?;
            content = &content[(inflater.total_in() - taken) as usize..];
            let given = (inflater.total_out() - given) as usize;
            self.store(&step[..given], limit)?;
            // A full step may not have been all; an empty one was.
            if status == Status::StreamEnd || (content.is_empty() && given < INFLATE_STEP) || given == 0 {
                return Ok(());
            }
        }
    }

    fn store(&mut self, content: &[u8], limit: usize) -> Result<(), Refusal> {
        let total = self.bytes.len() + content.len();
        if total > limit {
            return Err(too_large(limit));
        }
        if self.declared.is_some_and(|declared| total as u64 > declared) {
            return Err(Refusal::for_good("the stream is longer than its header said"));
        }
        if !self.reserved.grow(content.len()) {
            return Err(Refusal::for_now("too much is being received at once; send it again later"));
        }
        self.bytes.extend_from_slice(content);
        Ok(())
    }

    fn complete(self, id: String) -> Result<(Content, Reservation), Refusal> {
        if self.declared.is_some_and(|declared| (self.bytes.len() as u64) < declared) {
            return Err(Refusal::for_good("the stream is shorter than its header said; send it again"));
        }
        let content = match self.kind {
            Kind::Envelope => Content::Envelope(self.bytes),
            Kind::Chat => {
                let text =
                    String::from_utf8(self.bytes).map_err(|_| Refusal::for_good("the text is not UTF-8"))?;
                Content::Chat { id, text }
            }
        };
        Ok((content, self.reserved))
    }
}

/// Whether a stream is for us, and as what.
fn kind(header: &Header) -> Option<Kind> {
    match (header.content_header.as_ref()?, header.topic.as_str()) {
        (ContentHeader::ByteHeader(_), ENVELOPE_TOPIC) => Some(Kind::Envelope),
        // From an agent, which may name anyone as the sender of such a text: the server vouches for nobody here.
        (ContentHeader::TextHeader(text), _) if text.generated => None,
        // Deletions and reactions say nothing to answer.
        (ContentHeader::TextHeader(text), CHAT_TOPIC | LEGACY_CHAT_TOPIC) => {
            let says_something =
                matches!(text.operation_type(), OperationType::Create | OperationType::Update);
            says_something.then_some(Kind::Chat)
        }
        _ => None,
    }
}

fn too_large(limit: usize) -> Refusal {
    Refusal::for_good(format!("a stream may have at most {limit} bytes"))
}

#[cfg(test)]
mod tests;
