//! What this process takes from the machine: memory, sockets, threads.

use std::fs;

/// Resident memory in kilobytes.
pub fn resident_kb() -> u64 {
    from_status("VmRSS:")
}

/// Threads.
pub fn threads() -> u64 {
    from_status("Threads:")
}

/// Open sockets of all kinds.
pub fn sockets() -> usize {
    let entries = fs::read_dir("/proc/self/fd").expect("Linux has /proc");
    let is_socket = |target: &std::path::PathBuf| target.to_string_lossy().starts_with("socket:");
    entries.flatten().filter_map(|entry| fs::read_link(entry.path()).ok()).filter(is_socket).count()
}

fn from_status(field: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("Linux has /proc");
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    let number = line.and_then(|line| line.split_whitespace().next());
    number.and_then(|number| number.parse().ok()).expect("the kernel always gives it")
}
