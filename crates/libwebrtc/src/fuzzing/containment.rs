//! What the driver does about a panic inside a connection (`Shared::turn`), for fuzzing: it is caught, and the caller
//! abandons the connection.
//!
//! Only panics of dependencies are caught. One of this crate is a finding: it goes to the panic hook that was there
//! before (libFuzzer's ends the process) and on up.

use std::{
    backtrace::Backtrace,
    cell::Cell,
    collections::BTreeMap,
    panic::{AssertUnwindSafe, Location, PanicHookInfo, catch_unwind, resume_unwind, set_hook, take_hook},
    sync::Once,
};

use parking_lot::Mutex;

/// Where panics were contained, and how often.
static CONTAINED: Mutex<BTreeMap<String, u64>> = Mutex::new(BTreeMap::new());

thread_local! {
    /// Whose code runs, while panics are contained.
    static SIDE: Cell<Option<&'static str>> = const { Cell::new(None) };
    /// Whether the panic under way is to be contained.
    static FOREIGN: Cell<bool> = const { Cell::new(false) };
}

/// Panics of dependencies so far: whose call it was, file, line and message, with the number of times.
pub fn contained_panics() -> Vec<(String, u64)> {
    CONTAINED.lock().iter().map(|(place, times)| (place.clone(), *times)).collect()
}

/// Runs `work`; `None` means that a dependency panicked.
pub(super) fn contained<R>(side: &'static str, work: impl FnOnce() -> R) -> Option<R> {
    install_hook();
    SIDE.set(Some(side));
    let result = catch_unwind(AssertUnwindSafe(work));
    SIDE.set(None);
    match result {
        Ok(result) => Some(result),
        Err(_) if FOREIGN.replace(false) => None,
        Err(panic) => resume_unwind(panic),
    }
}

fn install_hook() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let before = take_hook();
        set_hook(Box::new(move |panic| {
            let foreign = SIDE.get().filter(|_| panic.location().is_some_and(is_foreign));
            FOREIGN.set(foreign.is_some());
            match foreign {
                Some(side) => note(side, panic),
                None => before(panic),
            }
        }));
    });
}

fn note(side: &str, panic: &PanicHookInfo<'_>) {
    let payload = panic.payload();
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or_default();
    // Numbers differ from case to case; the place is what counts.
    let message: String = text
        .lines()
        .next()
        .unwrap_or_default()
        .chars()
        .take(80)
        .map(|c| if c.is_ascii_digit() { '#' } else { c })
        .collect();
    let place = panic.location().map(|at| {
        let file = at.file().split_once("/registry/src/").map_or(at.file(), |(_, file)| file);
        let file = file.split_once('/').map_or(file, |(_, file)| file);
        format!("{file}:{}", at.line())
    });
    let place = format!("{side}: {}: {message}", place.unwrap_or_default());
    let mut contained = CONTAINED.lock();
    let times = contained.entry(place.clone()).or_default();
    *times += 1;
    if *times == 1 {
        eprintln!("contained a panic of a dependency, {place}");
    }
}

/// Whether a panic at this place is a dependency's.
fn is_foreign(location: &Location<'_>) -> bool {
    let own_file = file!();
    let sources = own_file.strip_suffix("fuzzing/containment.rs").unwrap_or(own_file);
    let file = location.file();
    if file.contains("/registry/src/") {
        return true;
    }
    // The standard library panics on behalf of whoever called it.
    !file.starts_with(sources) && !first_caller_is_ours(&Backtrace::force_capture().to_string())
}

fn first_caller_is_ours(backtrace: &str) -> bool {
    const STANDARD: [&str; 6] = ["std::", "core::", "alloc::", "<std::", "<core::", "<alloc::"];
    let functions = backtrace.lines().filter_map(|line| {
        let (number, function) = line.trim_start().split_once(": ")?;
        number.parse::<u32>().ok().map(|_| function.trim())
    });
    functions
        .skip_while(|function| !function.contains("panicking::panic"))
        .filter(|function| !function.contains("rust_begin_unwind") && !function.starts_with("__rust"))
        .find(|function| STANDARD.iter().all(|standard| !function.starts_with(standard)))
        .is_none_or(|function| function.contains("libwebrtc::"))
}
