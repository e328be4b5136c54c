//! What is counted, for Prometheus. Figures only: no identity, no room's name and nothing that people said is a label.

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric, text::encode};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};
use sotto_core::engine::event::{Count, TurnEnd, TurnReport};
use sotto_core::engine::hook::{Hook, Ruled};
use std::fmt;
use std::time::Duration;

/// A label with a word from a short list.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Kind {
    kind: &'static str,
}

/// A hook and what came of asking it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct HookLabels {
    hook: &'static str,
    outcome: &'static str,
}

impl Kind {
    fn of(kind: &'static str) -> Self {
        Self { kind }
    }
}

/// Counters that someone else keeps, asked whenever they are to be shown.
struct Foreign<F> {
    name: &'static str,
    help: &'static str,
    counts: F,
}

impl<F> fmt::Debug for Foreign<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Foreign").field("name", &self.name).finish_non_exhaustive()
    }
}

impl<F, const N: usize> Collector for Foreign<F>
where
    F: Fn() -> [(&'static str, u64); N] + Send + Sync + 'static,
{
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut family = encoder.encode_descriptor(self.name, self.help, None, MetricType::Counter)?;
        for (kind, count) in (self.counts)() {
            ConstCounter::new(count).encode(family.encode_family(&Kind::of(kind))?)?;
        }
        Ok(())
    }
}

/// All that is counted. Cheap to update from anywhere.
pub struct Metrics {
    registry: Registry,
    /// Conversations under way.
    pub conversations: Gauge,
    /// Panics that were caught.
    pub panics: Counter,
    /// What the store did not take.
    pub store_failures: Counter,
    turns: Family<Kind, Counter>,
    events: Family<Kind, Counter>,
    hooks: Family<HookLabels, Counter>,
    tokens: Family<Kind, Counter>,
    steps: Counter,
    sentences: Counter,
    tools: Counter,
    first_token: Histogram,
    first_step: Histogram,
    first_sentence: Histogram,
    turn_seconds: Histogram,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

impl Default for Metrics {
    fn default() -> Self {
        let seconds = || Histogram::new(exponential_buckets(0.01, 2.0, 14));
        let mut metrics = Self {
            registry: Registry::with_prefix("sotto"),
            conversations: Gauge::default(),
            panics: Counter::default(),
            store_failures: Counter::default(),
            turns: Family::default(),
            events: Family::default(),
            hooks: Family::default(),
            tokens: Family::default(),
            steps: Counter::default(),
            sentences: Counter::default(),
            tools: Counter::default(),
            first_token: seconds(),
            first_step: seconds(),
            first_sentence: seconds(),
            turn_seconds: seconds(),
        };
        metrics.register();
        metrics
    }
}

impl Metrics {
    fn register(&mut self) {
        let registry = &mut self.registry;
        registry.register("conversations", "Conversations under way", self.conversations.clone());
        registry.register("panics", "Panics that were caught", self.panics.clone());
        registry.register(
            "store_failures",
            "Batches that the store did not take",
            self.store_failures.clone(),
        );
        registry.register("turns", "Turns, by how they ended", self.turns.clone());
        registry.register("events", "Packets refused, repeated or dropped, by why", self.events.clone());
        registry.register("hooks", "Hooks asked, by what came of it", self.hooks.clone());
        registry.register("model_tokens", "Tokens, by direction", self.tokens.clone());
        registry.register("reasoning_steps", "Reasoning steps sent", self.steps.clone());
        registry.register("sentences", "Sentences sent", self.sentences.clone());
        registry.register("tool_runs", "Tools run", self.tools.clone());
        let times = [
            ("first_token", "From a message to the model's first token", &self.first_token),
            ("first_step", "From a message to its first reasoning step", &self.first_step),
            ("first_sentence", "From a message to the first sentence of its answer", &self.first_sentence),
            ("turn", "From a message to the end of its answer", &self.turn_seconds),
        ];
        for (name, help, histogram) in times {
            registry.register_with_unit(name, help, Unit::Seconds, histogram.clone());
        }
        // There from the start, so that a rate can be computed over the first one too.
        for end in ["answered", "stopped", "superseded", "failed"] {
            drop(self.turns.get_or_create(&Kind::of(end)));
        }
    }

    /// Shows counters that someone else keeps, too: as one family, by kind.
    pub fn also_show<const N: usize>(
        &mut self,
        name: &'static str,
        help: &'static str,
        counts: impl Fn() -> [(&'static str, u64); N] + Send + Sync + 'static,
    ) {
        self.registry.register_collector(Box::new(Foreign { name, help, counts }));
    }

    /// Something worth counting happened.
    pub fn count(&self, what: Count, times: u32) {
        let kind = match what {
            Count::Malformed => "malformed",
            Count::UnknownType => "unknown_type",
            Count::RateLimited => "rate_limited",
            Count::QueueOverflow => "queue_overflow",
            Count::Duplicate => "duplicate",
            Count::Stale => "stale",
            Count::Forged => "forged",
            Count::Hook(hook, how) => return self.hook(hook, how, times),
        };
        self.events.get_or_create(&Kind::of(kind)).inc_by(times.into());
    }

    fn hook(&self, hook: Hook, how: Ruled, times: u32) {
        let outcome = match how {
            Ruled::Allowed => "allowed",
            Ruled::Changed => "changed",
            Ruled::Refused => "refused",
            Ruled::Failed => "failed",
            Ruled::Late => "late",
        };
        self.hooks.get_or_create(&HookLabels { hook: hook.name(), outcome }).inc_by(times.into());
    }

    /// A turn is over.
    pub fn turn(&self, report: &TurnReport) {
        let end = match report.end {
            TurnEnd::Answered => "answered",
            TurnEnd::Stopped => "stopped",
            TurnEnd::Superseded => "superseded",
            TurnEnd::Failed => "failed",
        };
        self.turns.get_or_create(&Kind::of(end)).inc();
        self.tokens.get_or_create(&Kind::of("input")).inc_by(report.usage.input);
        self.tokens.get_or_create(&Kind::of("output")).inc_by(report.usage.output);
        self.tokens.get_or_create(&Kind::of("reasoning")).inc_by(report.usage.reasoning.unwrap_or(0));
        self.tokens.get_or_create(&Kind::of("cached")).inc_by(report.usage.cached.unwrap_or(0));
        self.steps.inc_by(report.steps.into());
        self.sentences.inc_by(report.sentences.into());
        self.tools.inc_by(report.tools.into());
        let observe = |histogram: &Histogram, time: Option<Duration>| {
            time.inspect(|time| histogram.observe(time.as_secs_f64()));
        };
        observe(&self.first_token, report.first_token);
        observe(&self.first_step, report.first_step);
        observe(&self.first_sentence, report.first_sentence);
        observe(&self.turn_seconds, Some(report.total));
    }

    /// All of it, as Prometheus reads it.
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sotto_core::model::Usage;

    #[test]
    fn a_turn_is_counted_and_shown() {
        let metrics = Metrics::default();
        metrics.turn(&TurnReport {
            message: "m1".to_owned(),
            answer: None,
            end: TurnEnd::Failed,
            first_token: Some(Duration::from_millis(20)),
            first_step: None,
            first_sentence: None,
            total: Duration::from_secs(2),
            steps: 3,
            sentences: 0,
            tools: 1,
            usage: Usage { input: 100, output: 20, ..Usage::default() },
        });
        metrics.count(Count::Malformed, 1);
        metrics.count(Count::Hook(Hook::BeforeSay, Ruled::Late), 1);
        let text = metrics.text();
        for line in [
            "sotto_turns_total{kind=\"failed\"} 1",
            "sotto_turns_total{kind=\"answered\"} 0",
            "sotto_events_total{kind=\"malformed\"} 1",
            "sotto_hooks_total{hook=\"before_say\",outcome=\"late\"} 1",
            "sotto_model_tokens_total{kind=\"input\"} 100",
            "sotto_reasoning_steps_total 3",
            "sotto_turn_seconds_sum 2.0",
            "sotto_first_sentence_seconds_count 0",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is missing in:\n{text}");
        }
    }

    #[test]
    fn what_others_count_is_shown_as_it_is_when_asked() {
        use std::sync::Arc;
        use std::sync::atomic::{AtomicU64, Ordering};
        let kept = Arc::new(AtomicU64::new(0));
        let mut metrics = Metrics::default();
        let counts = Arc::clone(&kept);
        metrics.also_show("room_events", "Help", move || {
            [("overflowed", counts.load(Ordering::Relaxed)), ("refused_stream", 7)]
        });
        kept.store(3, Ordering::Relaxed);
        let text = metrics.text();
        for line in [
            "# TYPE sotto_room_events counter",
            "sotto_room_events_total{kind=\"overflowed\"} 3",
            "sotto_room_events_total{kind=\"refused_stream\"} 7",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is missing in:\n{text}");
        }
    }
}
