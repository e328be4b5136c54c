//! Hostile input in the fast suite: every file of the fuzzing corpus again, and seeded mutations of them.
//!
//! What the functions check and how panics are judged is said in `src/fuzzing/mod.rs`; how to fuzz for real in
//! `fuzz/README.md`.

use std::{fs, path::Path};

use libwebrtc::fuzzing::{FLOODS, TARGETS, Target, contained_panics};

/// Floods that are known to need more and more memory, and why that stands: `fuzz/README.md`, "Known".
const KNOWN_FLOODS: &[&str] = &["messages with a gap before them"];

/// Mutations per target and run, the same in each run. `LIBWEBRTC_MUTATIONS` asks for another number.
const MUTATIONS: usize = 300;

fn corpus(target: &str) -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let mut files: Vec<_> = fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.expect("the folder can be read").path())
        .collect();
    files.sort();
    let read = |path: &std::path::PathBuf| {
        (path.display().to_string(), fs::read(path).expect("the file can be read"))
    };
    files.iter().map(read).collect()
}

/// xorshift64*: enough to choose mutations.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16) as usize % limit.max(1)
    }

    /// Changes, removes, repeats or splices a few bytes.
    fn mutate(&mut self, corpus: &[(String, Vec<u8>)]) -> Vec<u8> {
        let mut bytes = corpus[self.below(corpus.len())].1.clone();
        for _ in 0..=self.below(4) {
            let at = self.below(bytes.len());
            let length = self.below(32).min(bytes.len() - at);
            match self.below(5) {
                0 => bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1 << self.below(8)),
                1 => drop(bytes.drain(at..at + length)),
                2 => {
                    let repeated = bytes[at..at + length].to_vec();
                    bytes.splice(at..at, repeated);
                }
                3 => {
                    let other = &corpus[self.below(corpus.len())].1;
                    let from = self.below(other.len());
                    bytes.splice(at..at, other.iter().skip(from).take(64).copied());
                }
                _ => bytes.insert(at, [0, 1, 0x7f, 0x80, 0xff][self.below(5)]),
            }
        }
        bytes
    }
}

fn replay(name: &str, target: Target) {
    let corpus = corpus(name);
    assert!(!corpus.is_empty(), "the corpus of {name} is empty");
    for (file, bytes) in &corpus {
        assert!(std::panic::catch_unwind(|| target(bytes)).is_ok(), "{name} fails with {file}");
    }
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let wanted = std::env::var("LIBWEBRTC_MUTATIONS").ok().and_then(|number| number.parse().ok());
    for number in 0..wanted.unwrap_or(MUTATIONS) {
        let bytes = random.mutate(&corpus);
        if std::panic::catch_unwind(|| target(&bytes)).is_err() {
            let kept = std::env::temp_dir().join(format!("libwebrtc-{name}-{number}"));
            fs::write(&kept, &bytes).expect("the temporary folder can be written");
            panic!("{name} fails with a mutation, kept in {}", kept.display());
        }
    }
}

#[test]
fn the_corpus_and_mutations_of_it_do_no_harm() {
    // Side by side: each target is one thread's work.
    std::thread::scope(|scope| {
        for (name, target) in TARGETS {
            scope.spawn(move || {
                let start = std::time::Instant::now();
                replay(name, *target);
                println!("{name}: {:?}", start.elapsed());
            });
        }
    });
    for (place, times) in contained_panics() {
        println!("contained {times} times: {place}");
    }
}

#[test]
fn floods_leave_memory_flat() {
    // In a process of its own: what others need meanwhile must not count.
    const CHILD: &str = "LIBWEBRTC_FLOOD";
    if let Ok(wanted) = std::env::var(CHILD) {
        let (_, flood) = FLOODS.iter().find(|(name, _)| *name == wanted).expect("a flood of this name");
        return flood();
    }
    let mut harmful = Vec::new();
    for (name, _) in FLOODS {
        let start = std::time::Instant::now();
        let child = std::process::Command::new(std::env::current_exe().expect("this test's own file"))
            .args(["--exact", "floods_leave_memory_flat", "--nocapture", "--quiet"])
            .env(CHILD, name)
            .output()
            .expect("the test can be started again");
        let said = String::from_utf8_lossy(&child.stdout);
        let measured = said.lines().find(|line| line.contains("rounds")).unwrap_or("nothing measured");
        println!("{name}: {}, {:?}", measured.trim(), start.elapsed());
        if !child.status.success() {
            let why = String::from_utf8_lossy(&child.stderr);
            assert!(why.contains("the second half took"), "{name}: {why}");
            harmful.push(*name);
        }
    }
    // Also the other way round: what no longer does harm must leave the list.
    assert_eq!(harmful, KNOWN_FLOODS, "these floods do harm, those are known");
}
