//! Many measurements of one thing.

use std::time::Duration;

/// At least one measurement, in milliseconds.
pub(crate) struct Samples(Vec<f64>);

impl Samples {
    pub(crate) fn new(times: impl IntoIterator<Item = Duration>) -> Self {
        let mut times: Vec<_> = times.into_iter().map(|time| time.as_secs_f64() * 1e3).collect();
        assert!(!times.is_empty(), "nothing was measured");
        times.sort_unstable_by(f64::total_cmp);
        Self(times)
    }

    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn median(&self) -> f64 {
        self.at(0.5)
    }

    pub(crate) fn p95(&self) -> f64 {
        self.at(0.95)
    }

    fn at(&self, share: f64) -> f64 {
        self.0[((self.0.len() - 1) as f64 * share).round() as usize]
    }
}
