//! The body of an endpoint's reply becomes chunks, read with patience.
//!
//! Knows bytes and time, and nothing of HTTP or of who is asked. What came is passed on before an error is.

use super::patience::Patience;
use super::trouble::Trouble;
use futures_util::{FutureExt, Stream, StreamExt};
use sotto_core::model::Chunk;
use sotto_core::model::stream::{self, Chunks, StreamOptions};
use std::time::Duration;

/// How long a finished reply may take to end, so that its connection can serve again.
const LINGER: Duration = Duration::from_secs(1);

/// Reads one body.
pub(super) struct Reading<Body> {
    body: Option<Body>,
    parser: stream::Stream,
    patience: Patience,
}

/// What came at once.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) chunks: Vec<Chunk>,
    /// Present when nothing follows: how it ended.
    pub(super) end: Option<Result<(), Trouble>>,
}

impl Batch {
    /// Whether there is a word of the model in it; what the endpoint has counted is none.
    pub(super) fn says_anything(&self) -> bool {
        self.chunks.iter().any(|chunk| !matches!(chunk, Chunk::Usage(_)))
    }

    fn of(chunks: Chunks) -> Self {
        let mut batch = Self::default();
        for chunk in chunks {
            match chunk {
                Ok(chunk) => {
                    let finished = matches!(chunk, Chunk::Finish(_));
                    batch.chunks.push(chunk);
                    if finished {
                        batch.end = Some(Ok(()));
                    }
                }
                Err(error) => batch.end = Some(Err(Trouble::Stream(error))),
            }
        }
        batch
    }
}

impl<Body, Bytes, Error> Reading<Body>
where
    Body: Stream<Item = Result<Bytes, Error>> + Send + Unpin + 'static,
    Bytes: AsRef<[u8]> + Send,
    Error: Into<Trouble> + Send,
{
    pub(super) fn new(body: Body, options: StreamOptions, patience: Patience) -> Self {
        Self { body: Some(body), parser: stream::Stream::new(options), patience }
    }

    /// The next chunks. After an end there is no next.
    pub(super) async fn next(&mut self) -> Batch {
        loop {
            let Some(body) = &mut self.body else {
                return Batch { end: Some(Ok(())), ..Batch::default() };
            };
            let batch = match self.patience.wait_for(body.next()).await {
                Ok(Some(Ok(bytes))) => {
                    let heard = self.parser.heard();
                    let batch = Batch::of(self.parser.push(bytes.as_ref()));
                    // Fragments of a call are progress before they are a chunk; comments are not.
                    if self.parser.heard() > heard {
                        self.patience.hear();
                    }
                    batch
                }
                Ok(None) => {
                    // Nothing is left to let go of.
                    self.body = None;
                    Batch::of(self.parser.finish())
                }
                Ok(Some(Err(error))) => self.cut(error.into()),
                Err(trouble) => self.cut(trouble),
            };
            match &batch.end {
                Some(Ok(())) => self.let_go(),
                // Closes the connection.
                Some(Err(_)) => self.body = None,
                None if batch.chunks.is_empty() => continue,
                None => {}
            }
            return batch;
        }
    }

    /// The body ended badly. An answer that was complete but for its last formality is good nevertheless.
    fn cut(&mut self, trouble: Trouble) -> Batch {
        let mut batch = Batch::of(self.parser.finish());
        if !matches!(batch.end, Some(Ok(()))) {
            batch.end = Some(Err(trouble));
        }
        // Nobody will bring this body to its end.
        self.body = None;
        batch
    }

    /// A connection serves again only if the reply was read to its end, which has mostly arrived by now. Nobody has to
    /// wait for it.
    fn let_go(&mut self) {
        let Some(mut body) = self.body.take() else { return };
        while let Some(next) = body.next().now_or_never() {
            if !matches!(next, Some(Ok(_))) {
                return;
            }
        }
        tokio::spawn(async move {
            let rest = async { while let Some(Ok(_)) = body.next().await {} };
            let _ = tokio::time::timeout(LINGER, rest).await;
        });
    }
}

#[cfg(test)]
mod tests;
