//! Who this process is, and whether another one is still there.
//!
//! A conversation is held by a process. Processes on one machine can see each other's end at once, through `/proc`;
//! others are told apart by their heartbeat alone.

use std::fs;
use std::io::ErrorKind;

/// A process, as others know it through the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Drawn at random: no other ever has the same.
    pub id: String,
    /// The machine's name, for people.
    pub host: String,
    /// What process ids are unique in: one boot of one machine, and there one namespace of processes, for those in
    /// containers do not see each other. Empty where that cannot be known.
    pub realm: String,
    /// Its process id there.
    pub pid: i64,
    /// When it was started, in the kernel's count: process ids are used again.
    pub started: i64,
}

impl Process {
    /// This process. Asked twice it is two: a process that opens a store twice must not take from itself.
    pub fn this() -> Self {
        let mut random = [0; 16];
        // Without randomness of the system there is still the process id; two alike would need the same of both.
        let _ = getrandom::fill(&mut random);
        let pid = i64::from(std::process::id());
        Self {
            id: format!("{:032x}-{pid}", u128::from_le_bytes(random)),
            host: read("/proc/sys/kernel/hostname").unwrap_or_else(|| "an unnamed host".to_owned()),
            realm: realm().unwrap_or_default(),
            pid,
            started: started(pid).unwrap_or_default(),
        }
    }

    /// Whether it is certain that `other` has ended: it ran where we can see it, and is not there.
    pub fn sees_end_of(&self, other: &Self) -> bool {
        !self.realm.is_empty() && self.realm == other.realm && other.started != 0 && is_over(other)
    }
}

fn realm() -> Option<String> {
    let boot = read("/proc/sys/kernel/random/boot_id")?;
    let namespace = fs::read_link("/proc/self/ns/pid").ok()?;
    Some(format!("{boot} {}", namespace.display()))
}

fn read(path: &str) -> Option<String> {
    let content = fs::read_to_string(path).ok()?;
    Some(content.trim().to_owned()).filter(|content| !content.is_empty())
}

/// Whether there is no such process. One that cannot be looked at, for want of a descriptor perhaps, may well be there.
fn is_over(process: &Process) -> bool {
    match fs::read_to_string(stat(process.pid)) {
        Ok(stat) => start(&stat) != Some(process.started),
        // It may end while it is looked at.
        Err(error) => error.kind() == ErrorKind::NotFound || error.raw_os_error() == Some(NO_SUCH_PROCESS),
    }
}

/// `ESRCH`
const NO_SUCH_PROCESS: i32 = 3;

fn stat(pid: i64) -> String {
    format!("/proc/{pid}/stat")
}

/// When a process was started, if it is there.
fn started(pid: i64) -> Option<i64> {
    start(&fs::read_to_string(stat(pid)).ok()?)
}

fn start(stat: &str) -> Option<i64> {
    // The second field is the program's name in parentheses and may hold anything; the start is the 20th after it.
    stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_ended_is_seen_and_one_that_runs_is_not() {
        let this = Process::this();
        assert!(!this.sees_end_of(&this));
        assert_ne!(this.id, Process::this().id);

        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("there is a sleep");
        let pid = i64::from(child.id());
        let other = Process { pid, started: started(pid).expect("it runs"), ..Process::this() };
        assert!(!this.sees_end_of(&other));
        child.kill().expect("it is ours");
        child.wait().expect("it is ours");
        assert!(this.sees_end_of(&other));
    }

    #[test]
    fn an_end_elsewhere_is_not_seen() {
        let this = Process::this();
        let gone = Process { pid: i64::from(u32::MAX), started: 1, ..Process::this() };
        assert!(this.sees_end_of(&gone));
        assert!(!this.sees_end_of(&Process { realm: "another".to_owned(), ..gone.clone() }));
        let blind = Process { realm: String::new(), ..this };
        assert!(!blind.sees_end_of(&Process { realm: String::new(), ..gone }));
    }
}
