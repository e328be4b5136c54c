//! Many rooms in which questions are asked and answered all the time, for a while.

use crate::{
    relay,
    report::progress,
    scene::Scene,
    script::{self, Script, TOKENS_PER_SECOND},
    visitor::{Noticed, Visitor},
};
use sotto_harness::endpoint::Request;
use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{task::JoinSet, time::sleep};

/// How long until all rooms are busy and nothing is new any more.
const WARM_UP: Duration = Duration::from_secs(5);

/// What was seen while all rooms were busy.
pub(crate) struct Busy {
    /// From the endpoint writing what completes a sentence to the client having its packet.
    pub(crate) sentences: Vec<Duration>,
    /// The same for bare packets, in those rooms that have a beacon.
    pub(crate) bare: Vec<Duration>,
    /// From the endpoint writing a piece to the client having it from a relay, in those rooms that have one.
    pub(crate) relayed: Vec<Duration>,
    /// Tokens that the endpoint wrote per second and room.
    pub(crate) tokens_per_second: f64,
    /// Cores in use: by the agent, by the server, by clients and endpoint together.
    pub(crate) cores: [f64; 3],
}

impl Busy {
    /// Whether tokens came as fast as they were meant to. A machine that is too small, or busy with something else, slows
    /// all down together; and an agent that lags joins tokens, which is less work. No figure of it is worth a verdict.
    pub(crate) fn kept_up(&self) -> bool {
        self.tokens_per_second >= 0.95 * TOKENS_PER_SECOND
    }
}

/// A sentence as a client got it.
struct Heard {
    question: String,
    nth: usize,
    at: Instant,
}

/// What a visitor heard in its room while it asked.
struct Ears {
    room: String,
    sentences: Vec<Heard>,
    bare: Vec<(Instant, Duration)>,
    relayed: Vec<(Instant, Arc<Vec<u8>>)>,
}

/// Opens rooms, one after the other.
pub(crate) async fn gather(scene: &mut Scene, count: usize) -> Vec<Visitor> {
    let mut visitors = Vec::new();
    for number in 1..=count {
        visitors.push(scene.open_room().await);
        if number % 50 == 0 {
            progress(&format!("{number} rooms are open"));
        }
    }
    visitors
}

/// Keeps every visitor asking for that long after all are at it.
pub(crate) async fn keep_busy(
    scene: &Scene,
    script: &Script,
    visitors: Vec<Visitor>,
    lasting: Duration,
) -> Busy {
    let rooms = visitors.len();
    let from = Instant::now() + WARM_UP;
    let until = from + lasting;
    let mut asking = JoinSet::new();
    for (number, visitor) in visitors.into_iter().enumerate() {
        // Not all at once: their tokens would come in one heap.
        let first = WARM_UP.mul_f64(0.8 * number as f64 / rooms as f64);
        asking.spawn(async move {
            sleep(first).await;
            ask_all_the_time(visitor, until).await
        });
    }
    sleep(from.saturating_duration_since(Instant::now())).await;
    let before = scene.processor_times();
    let began = Instant::now();
    sleep(until.saturating_duration_since(Instant::now())).await;
    let took = began.elapsed().as_secs_f64();
    let after = scene.processor_times();
    let cores = [0, 1, 2].map(|who| (after[who].saturating_sub(before[who])).as_secs_f64() / took);

    let (mut heard, mut bare, mut relayed) = (Vec::new(), Vec::new(), Vec::new());
    let ears = asking.join_all().await;
    let log = scene.endpoint.log();
    for ears in ears {
        heard.extend(ears.sentences);
        let in_time = |at: &Instant| (began..until).contains(at);
        bare.extend(ears.bare.iter().filter(|(at, _)| in_time(at)).map(|(_, trip)| *trip));
        relayed.extend(ears.relayed.iter().filter(|(at, _)| in_time(at)).filter_map(|(at, payload)| {
            let written = relay::written(&log.requests, &ears.room, payload)?;
            Some(at.saturating_duration_since(written))
        }));
    }
    let questions = log.requests.iter().filter(|request| script::is_question(request));
    let tokens = questions.flat_map(|request| &request.written);
    let tokens = tokens.filter(|at| (began..until).contains(*at)).count();
    let requests: HashMap<&str, &Request> =
        log.requests.iter().map(|request| (script::question(request), request)).collect();
    let pieces = script.completing_pieces();
    let sentences = heard.iter().filter(|heard| (began..until).contains(&heard.at)).map(|heard| {
        let request = requests[heard.question.as_str()];
        heard.at.saturating_duration_since(request.written[pieces[heard.nth]])
    });
    let sentences = sentences.collect();
    Busy { sentences, bare, relayed, tokens_per_second: tokens as f64 / took / rooms as f64, cores }
}

async fn ask_all_the_time(mut visitor: Visitor, until: Instant) -> Ears {
    let mut ears = Ears { room: visitor.room(), sentences: vec![], bare: vec![], relayed: vec![] };
    while Instant::now() < until {
        let (question, _) = visitor.ask().await;
        let mut nth = 0;
        loop {
            let (at, noticed) = visitor.notice().await;
            match noticed {
                Noticed::Sentence { last } => {
                    ears.sentences.push(Heard { question: question.clone(), nth, at });
                    nth += 1;
                    if last {
                        break;
                    }
                }
                Noticed::Bare(trip) => ears.bare.push((at, trip)),
                Noticed::Relayed(payload) => ears.relayed.push((at, payload)),
                other @ Noticed::Transcript(_) => other.close(),
            }
        }
    }
    ears
}
