//! Notices when the machine stands still, so that a test in real time can tell its own faults from those of a
//! processor that was taken away. Only watches: nothing is slowed down or waited for.
//!
//! Two kinds of watchdogs, since each is blind to what the other sees. One sleeps on every core and notes when it
//! wakes late: so it finds time that the host took. The other reads from the kernel how long each thread of this
//! process and of its children (the server) was ready to run and got no processor: under load those that work
//! wait far longer than one that only sleeps.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// How often those that sleep want to wake.
const BEAT: Duration = Duration::from_millis(5);
/// How often the kernel is asked.
const ASKED_EVERY: Duration = Duration::from_millis(50);
/// Who waits this long was held up for longer than buffers are sure to last: anything shorter is no excuse.
const LATE: Duration = Duration::from_millis(40);
/// What went wrong in a stall is heard at most this much later: by then it has passed all buffers.
const AFTERMATH: Duration = Duration::from_millis(300);
/// The length of a frame.
const FRAME: Duration = Duration::from_millis(10);

/// A time in which a thread of this process or of a child wanted to run and could not.
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

/// Watchdogs, until dropped.
pub struct StallWatch {
    stalls: Arc<Mutex<Vec<Stall>>>,
    over: Arc<AtomicBool>,
    watchdogs: Vec<JoinHandle<()>>,
}

impl StallWatch {
    /// Watches from now on.
    pub fn start() -> Self {
        let (stalls, over) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
        let watchdog = |watch: fn(&Mutex<Vec<Stall>>, &AtomicBool)| {
            let (stalls, over) = (stalls.clone(), over.clone());
            thread::spawn(move || watch(&stalls, &over))
        };
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let mut watchdogs: Vec<_> = (0..cores).map(|_| watchdog(sleep_lightly)).collect();
        watchdogs.push(watchdog(ask_the_kernel));
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

/// Notes every time it wakes late.
fn sleep_lightly(stalls: &Mutex<Vec<Stall>>, over: &AtomicBool) {
    while !over.load(Ordering::Relaxed) {
        let from = Instant::now() + BEAT;
        thread::sleep(BEAT);
        let until = Instant::now();
        if until > from + LATE {
            lock(stalls).push(Stall { from, until });
        }
    }
}

/// Notes every thread that waited for a processor.
fn ask_the_kernel(stalls: &Mutex<Vec<Stall>>, over: &AtomicBool) {
    let mut before = waits();
    while !over.load(Ordering::Relaxed) {
        thread::sleep(ASKED_EVERY);
        let (until, now) = (Instant::now(), waits());
        for (thread, waited) in &now {
            let longer = waited.saturating_sub(before.get(thread).copied().unwrap_or(*waited));
            // The wait is known only once it is over, which may have been right after the last question.
            if longer > LATE
                && let Some(from) = until.checked_sub(longer + ASKED_EVERY)
            {
                lock(stalls).push(Stall { from, until: from + longer });
            }
        }
        before = now;
    }
}

/// How long each thread of this process and of its children has waited for a processor since it began.
fn waits() -> BTreeMap<PathBuf, Duration> {
    let mut waits = waits_in(Path::new("/proc/self/task"));
    let own: Vec<_> = waits.keys().cloned().collect();
    for thread in own {
        let children = fs::read_to_string(thread.join("children")).unwrap_or_default();
        for child in children.split_whitespace() {
            waits.extend(waits_in(&Path::new("/proc").join(child).join("task")));
        }
    }
    waits
}

/// The same for one process. A thread that ends meanwhile is left out.
fn waits_in(tasks: &Path) -> BTreeMap<PathBuf, Duration> {
    let threads = fs::read_dir(tasks).into_iter().flatten().flatten().map(|entry| entry.path());
    let wait = |thread: PathBuf| {
        let figures = fs::read_to_string(thread.join("schedstat")).ok()?;
        let nanoseconds = figures.split_whitespace().nth(1)?.parse().ok()?;
        Some((thread, Duration::from_nanos(nanoseconds)))
    };
    threads.filter_map(wait).collect()
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
