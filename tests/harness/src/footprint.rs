//! What a process takes from the machine: memory, sockets, threads. This one, unless it says otherwise.

use std::{fs, process, time::Duration};

/// Resident memory in kilobytes.
pub fn resident_kb() -> u64 {
    resident_kb_of(process::id())
}

/// Resident memory of a running process in kilobytes.
pub fn resident_kb_of(process: u32) -> u64 {
    from_status(process, "VmRSS:")
}

/// Threads.
pub fn threads() -> u64 {
    from_status(process::id(), "Threads:")
}

/// Open sockets of all kinds.
pub fn sockets() -> usize {
    let entries = fs::read_dir("/proc/self/fd").expect("Linux has /proc");
    let is_socket = |target: &std::path::PathBuf| target.to_string_lossy().starts_with("socket:");
    entries.flatten().filter_map(|entry| fs::read_link(entry.path()).ok()).filter(is_socket).count()
}

/// Processor time that all threads of this process have taken so far.
pub fn processor_time() -> Duration {
    processor_time_of(process::id())
}

/// Processor time that all threads of a running process have taken so far.
pub fn processor_time_of(process: u32) -> Duration {
    /// The unit of the kernel's figures on every Linux that there is.
    const TICK: Duration = Duration::from_millis(10);
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).expect("it runs, and Linux has /proc");
    // The name in brackets may hold anything; user and system time are the 12th and 13th field after it.
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let ticks = after_name.split_whitespace().skip(11).take(2).filter_map(|field| field.parse::<u32>().ok());
    TICK * ticks.sum::<u32>()
}

fn from_status(process: u32, field: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).expect("it runs, and Linux has /proc");
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    let number = line.and_then(|line| line.split_whitespace().next());
    number.and_then(|number| number.parse().ok()).expect("the kernel always gives it")
}
