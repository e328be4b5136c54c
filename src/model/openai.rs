//! OpenAI-compatible endpoints: the port [`Model`] over HTTP.
//!
//! The answer to one prompt has two phases. **Before the first token** nothing was heard by anybody, so everything may
//! be tried: an endpoint is asked again after what may pass, then the next endpoint is asked; one that fails again and
//! again is left for the last. **After it** a failure is
//! final. All of it, the queue included, is inside the stream that is handed out: dropping that ends it and closes the
//! connection. Nothing here parses what comes (the core does) and nothing here logs what was said.

use super::breaker::Standing;
use super::endpoint::{Endpoint, SetupError, Target};
use super::exchange::{Body, Exchange};
use super::patience::{Limits, Patience};
use super::probe::{self, Probe};
use super::queue::{Crowded, Place, Queue};
use super::reading::Reading;
use super::trouble::{self, Remedy, Trouble, together};
use crate::ports::Model;
use futures_util::future::join_all;
use futures_util::stream::{self, BoxStream};
use futures_util::{StreamExt, TryStreamExt};
use sotto_core::model::stream::StreamOptions;
use sotto_core::model::{Chunk, Failure, Prompt};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// No wait that we choose ourselves is longer.
const LONGEST_BACK_OFF: Duration = Duration::from_secs(5);

/// One or several endpoints, the first of which is asked as long as it answers.
#[derive(Clone)]
pub struct OpenAi {
    inner: Arc<Inner>,
}

struct Inner {
    exchange: Exchange,
    targets: Vec<Target>,
    limits: Limits,
    queue: Queue,
}

/// An answer of which something was heard.
struct Answer {
    inner: Arc<Inner>,
    target: usize,
    prompt: Arc<Prompt>,
    reading: Reading<Body>,
    ready: VecDeque<Chunk>,
    end: Option<Result<(), Trouble>>,
    _place: Place,
}

impl OpenAi {
    /// Endpoints in the order in which they are asked. Opens no connection yet.
    pub fn new(endpoints: Vec<Endpoint>, limits: Limits) -> Result<Self, SetupError> {
        if endpoints.is_empty() {
            return Err(SetupError::NoEndpoint);
        }
        let targets =
            endpoints.into_iter().enumerate().map(|(number, endpoint)| Target::new(endpoint, number == 0));
        let targets = targets.collect::<Result<_, _>>()?;
        let exchange = Exchange::new(limits.connect).map_err(SetupError::Client)?;
        let queue = Queue::new(limits.max_concurrent, limits.in_queue);
        Ok(Self { inner: Arc::new(Inner { exchange, targets, limits, queue }) })
    }

    /// Finds out by a tiny request or two what each endpoint does, in their order, and remembers it.
    pub async fn probe(&self) -> Vec<Result<Probe, Failure>> {
        let probes = self.inner.targets.iter().map(|target| async {
            let found = self.inner.probe(target, Patience::begin(&self.inner.limits)).await;
            found.copied().map_err(|trouble| trouble.failure_in_detail(target, &probe::question(true)))
        });
        join_all(probes).await
    }
}

impl Model for OpenAi {
    fn answer(&self, prompt: Prompt) -> BoxStream<'static, Result<Chunk, Failure>> {
        let answer = Arc::clone(&self.inner).begin(prompt);
        stream::once(answer).map_ok(Answer::into_stream).try_flatten().boxed()
    }
}

impl Inner {
    /// Everything up to the first token.
    async fn begin(self: Arc<Self>, prompt: Prompt) -> Result<Answer, Failure> {
        let place = self.queue.enter().await.map_err(|Crowded| {
            tracing::warn!("no place in the queue within {:?}", self.limits.in_queue);
            trouble::crowded(self.limits.in_queue)
        })?;
        let prompt = Arc::new(prompt);
        let patience = Patience::begin(&self.limits);
        let mut failures = Vec::new();
        for (number, retries) in self.order() {
            let target = &self.targets[number];
            let trouble = match self.begin_at(target, &prompt, retries, patience.clone()).await {
                Ok((reading, ready, end)) => {
                    if target.breaker().answered() {
                        tracing::info!(endpoint = target.shown_url(), "it answers again");
                    }
                    let inner = Arc::clone(&self);
                    return Ok(Answer { inner, target: number, prompt, reading, ready, end, _place: place });
                }
                Err(trouble) => trouble,
            };
            tracing::warn!(endpoint = target.shown_url(), "no answer: {}", trouble.kind());
            if trouble.is_an_outage() && target.breaker().failed(Instant::now()) && self.targets.len() > 1 {
                tracing::warn!(
                    endpoint = target.shown_url(),
                    "it fails again and again: others are asked first"
                );
            }
            failures.push(trouble.failure(target, &prompt));
            if trouble.remedy(self.limits.longest_wait) == Remedy::Nothing {
                break;
            }
        }
        Err(together(&failures))
    }

    /// Who is asked, in which order, and how often again: those that rest come last.
    fn order(&self) -> Vec<(usize, u32)> {
        let (now, retries) = (Instant::now(), self.limits.retries);
        let (mut first, mut last) = (Vec::new(), Vec::new());
        for (number, target) in self.targets.iter().enumerate() {
            match target.breaker().standing(now) {
                Standing::Good => first.push((number, retries)),
                Standing::OnTrial if self.targets.len() > 1 => first.push((number, 0)),
                Standing::OnTrial | Standing::Resting => last.push((number, retries)),
            }
        }
        first.extend(last);
        first
    }

    /// Asks one endpoint as often as it makes sense.
    async fn begin_at(
        &self,
        target: &Target,
        prompt: &Prompt,
        retries: u32,
        patience: Patience,
    ) -> Result<Begun, Trouble> {
        let mut attempt = 0;
        loop {
            let trouble = match self.attempt(target, prompt, patience.clone()).await {
                Ok(begun) => return Ok(begun),
                Err(trouble) => trouble,
            };
            match trouble.remedy(self.limits.longest_wait) {
                Remedy::Again(at_least) if attempt < retries => {
                    let wait = at_least.saturating_add(jittered(back_off(self.limits.back_off, attempt)));
                    tracing::debug!(
                        endpoint = target.shown_url(),
                        "asking again in {wait:?}: {}",
                        trouble.kind()
                    );
                    patience.sleep(wait).await?;
                    attempt += 1;
                }
                _ => return Err(trouble),
            }
        }
    }

    /// Asks once and waits for the first word.
    async fn attempt(
        &self,
        target: &Target,
        prompt: &Prompt,
        mut patience: Patience,
    ) -> Result<Begun, Trouble> {
        let thinking = prompt.thinking && target.endpoint.thinks;
        patience.ask();
        let starts_inside = self.starts_inside(target, thinking, &patience).await?;
        patience.ask();
        let prompt = &Prompt { thinking, ..prompt.clone() };
        let body = self.exchange.ask(target, prompt, &target.request_options(), &patience).await?;
        let options =
            StreamOptions { starts_inside, tools: prompt.tools.clone(), ..StreamOptions::default() };
        let mut reading = Reading::new(body, options, patience);
        let mut ready = VecDeque::new();
        loop {
            let batch = reading.next().await;
            if let Some(Err(trouble)) = batch.end {
                return Err(trouble);
            }
            let begun = batch.says_anything() || batch.end.is_some();
            ready.extend(batch.chunks);
            if begun {
                return Ok((reading, ready, batch.end));
            }
        }
    }

    /// Whether the answer will begin inside the thinking: nobody may hear a word before that is known.
    async fn starts_inside(
        &self,
        target: &Target,
        thinking: bool,
        patience: &Patience,
    ) -> Result<bool, Trouble> {
        if let Some(known) = target.starts_inside(thinking) {
            return Ok(known);
        }
        let found = patience.wait_for(self.probe(target, patience.clone())).await?;
        match found {
            Ok(probe) => Ok(probe.starts_inside(thinking)),
            // It does not like to be probed, but may like to be asked; the name has to do.
            Err(Trouble::Status { status: 400 | 422, .. }) => Ok(target.starts_inside_by_name(thinking)),
            Err(trouble) => Err(trouble),
        }
    }

    async fn probe<'a>(&self, target: &'a Target, patience: Patience) -> Result<&'a Probe, Trouble> {
        target.probe.get_or_try_init(|| probe::find_out(&self.exchange, target, patience)).await
    }
}

impl Answer {
    fn into_stream(self) -> BoxStream<'static, Result<Chunk, Failure>> {
        stream::unfold(Some(self), |answer| async move {
            let mut answer = answer?;
            match answer.next().await? {
                // The next one need not wait until somebody asks for what comes after the end.
                Ok(chunk @ Chunk::Finish(_)) => Some((Ok(chunk), None)),
                Ok(chunk) => Some((Ok(chunk), Some(answer))),
                Err(failure) => Some((Err(failure), None)),
            }
        })
        .boxed()
    }

    async fn next(&mut self) -> Option<Result<Chunk, Failure>> {
        loop {
            if let Some(chunk) = self.ready.pop_front() {
                return Some(Ok(chunk));
            }
            match self.end.take() {
                Some(Ok(())) => return None,
                Some(Err(trouble)) => {
                    let target = &self.inner.targets[self.target];
                    tracing::warn!(endpoint = target.shown_url(), "the answer broke off: {}", trouble.kind());
                    return Some(Err(trouble.failure(target, &self.prompt)));
                }
                None => {
                    let batch = self.reading.next().await;
                    self.ready.extend(batch.chunks);
                    self.end = batch.end;
                }
            }
        }
    }
}

/// Where an endpoint begun to answer: what is to be read, what has come, and the end if that came too.
type Begun = (Reading<Body>, VecDeque<Chunk>, Option<Result<(), Trouble>>);

fn back_off(first: Duration, retries: u32) -> Duration {
    first.saturating_mul(2_u32.saturating_pow(retries)).min(LONGEST_BACK_OFF)
}

/// Between half of it and all of it, so that those who failed together do not come back together.
fn jittered(wait: Duration) -> Duration {
    // Without chance there is no jitter, which does no harm.
    let chance = getrandom::u32().map_or(1.0, |random| f64::from(random) / f64::from(u32::MAX));
    wait.mul_f64(0.5 + chance / 2.0)
}

#[cfg(test)]
mod tests;
