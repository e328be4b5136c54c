//! Notices when the machine stands still, so that a test in real time can tell its own faults from those of a
//! processor that was taken away. Only watches: nothing is slowed down or waited for.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// How often the watchdogs want to wake.
const BEAT: Duration = Duration::from_millis(5);
/// Who wakes this late was held up for longer than buffers are sure to last: anything shorter is no excuse.
const LATE: Duration = Duration::from_millis(40);
/// What went wrong in a stall is heard at most this much later: by then it has passed all buffers.
const AFTERMATH: Duration = Duration::from_millis(300);
/// The length of a frame.
const FRAME: Duration = Duration::from_millis(10);

/// A time in which a thread of this process wanted to run and could not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stall {
    /// When it wanted to run.
    pub from: Instant,
    /// When it did.
    pub until: Instant,
}

impl Stall {
    /// How long it took.
    pub fn length(&self) -> Duration {
        self.until - self.from
    }
}

/// Watchdogs, one per core, until dropped.
pub struct StallWatch {
    stalls: Arc<Mutex<Vec<Stall>>>,
    over: Arc<AtomicBool>,
    watchdogs: Vec<JoinHandle<()>>,
}

impl StallWatch {
    /// Watches from now on.
    pub fn start() -> Self {
        let (stalls, over) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
        let watchdog = |_| {
            let (stalls, over) = (stalls.clone(), over.clone());
            thread::spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    let from = Instant::now() + BEAT;
                    thread::sleep(BEAT);
                    let until = Instant::now();
                    if until > from + LATE {
                        lock(&stalls).push(Stall { from, until });
                    }
                }
            })
        };
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let watchdogs = (0..cores).map(watchdog).collect();
        Self { stalls, over, watchdogs }
    }

    /// The stalls since the last time, in order; those that several watchdogs saw are one.
    pub fn take(&self) -> Vec<Stall> {
        merged(std::mem::take(&mut *lock(&self.stalls)))
    }
}

impl Drop for StallWatch {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        for watchdog in self.watchdogs.drain(..) {
            // One that panicked has nothing more to say.
            let _ = watchdog.join();
        }
    }
}

/// How many of the frames heard as bad at these moments the stalls account for: each for as many as it is long,
/// and only for those in its course or shortly after.
pub fn explained(stalls: &[Stall], bad: &[Instant]) -> usize {
    let mut left: Vec<_> =
        stalls.iter().map(|stall| stall.length().div_duration_f64(FRAME).ceil() as usize).collect();
    let is_explained = |heard: &&Instant| {
        let causes = stalls.iter().zip(&mut left);
        let mut causes = causes.filter(|(stall, left)| {
            **left > 0 && stall.from <= **heard && **heard <= stall.until + AFTERMATH
        });
        causes.next().map(|(_, left)| *left -= 1).is_some()
    };
    bad.iter().filter(is_explained).count()
}

/// A watchdog that panicked left a list that is still right.
fn lock(stalls: &Mutex<Vec<Stall>>) -> MutexGuard<'_, Vec<Stall>> {
    stalls.lock().unwrap_or_else(PoisonError::into_inner)
}

fn merged(mut stalls: Vec<Stall>) -> Vec<Stall> {
    stalls.sort_by_key(|stall| stall.from);
    let mut merged: Vec<Stall> = Vec::new();
    for stall in stalls {
        match merged.last_mut() {
            Some(last) if stall.from <= last.until => last.until = last.until.max(stall.until),
            _ => merged.push(stall),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(epoch: Instant, ms: u64) -> Instant {
        epoch + Duration::from_millis(ms)
    }

    fn stall(epoch: Instant, from: u64, until: u64) -> Stall {
        Stall { from: at(epoch, from), until: at(epoch, until) }
    }

    #[test]
    fn a_stall_explains_as_much_as_it_is_long_and_what_follows_it() {
        let epoch = Instant::now();
        let stalls = [stall(epoch, 1_000, 1_030), stall(epoch, 2_000, 2_100)];
        let bad = |moments: &[u64]| moments.iter().map(|ms| at(epoch, *ms)).collect::<Vec<_>>();
        assert_eq!(explained(&stalls, &bad(&[990])), 0, "before it");
        assert_eq!(explained(&stalls, &bad(&[1_000, 1_100, 1_330])), 3);
        assert_eq!(explained(&stalls, &bad(&[1_331])), 0, "too late");
        assert_eq!(
            explained(&stalls, &bad(&[1_040, 1_050, 1_060, 1_070, 2_110])),
            4,
            "one more than it is long"
        );
        assert_eq!(explained(&[], &bad(&[1_000])), 0);
    }

    #[test]
    fn what_several_watchdogs_saw_is_one_stall() {
        let epoch = Instant::now();
        let seen =
            vec![stall(epoch, 50, 90), stall(epoch, 10, 60), stall(epoch, 20, 40), stall(epoch, 95, 99)];
        assert_eq!(merged(seen), [stall(epoch, 10, 90), stall(epoch, 95, 99)]);
    }
}
