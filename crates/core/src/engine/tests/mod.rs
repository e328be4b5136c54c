//! The engine's behaviour, as scripts: what happens at which time, and what must come of it. See `script.rs` for the
//! form; the scripts are in `scenarios/`, one file per subject. And as properties (`properties.rs`): what holds whatever
//! happens in a room (`world.rs`, which the fuzz target `engine` uses too). And as attacks, by a model that obeys whoever
//! writes to it (`injection.rs`). And as whole lives, with crashes, a failing store
//! and several agents (`simulation/`).

#![expect(clippy::disallowed_methods, reason = "a test may read its scripts, and whether to write them")]

mod injection;
mod properties;
mod render;
mod script;
mod shelf;
mod simulation;
mod world;

// As `world.rs` is called from outside, where the fuzz target includes it.
use crate as sotto_core;

use std::fmt::Write;
use std::fs;
use std::path::Path;

/// Runs every scenario of every file. `UPDATE_SCENARIOS=1` writes down what comes out instead of judging it: read the
/// difference before committing it.
#[test]
fn scenarios() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/engine/tests/scenarios");
    let update = std::env::var_os("UPDATE_SCENARIOS").is_some();
    let mut failures = Vec::new();
    let mut count = 0;
    let mut files: Vec<_> = fs::read_dir(&directory).expect("the scenarios are there").flatten().collect();
    files.sort_by_key(fs::DirEntry::path);
    for file in files {
        let text = fs::read_to_string(file.path()).expect("a scenario is readable");
        let name = file.file_name().to_string_lossy().into_owned();
        let mut new = String::new();
        for scenario in script::scenarios(&text) {
            count += 1;
            let outcome = script::run(scenario);
            if outcome.trim_end() != scenario.trim_end() {
                failures.push(format!("--- {name}\n{}", difference(scenario, &outcome)));
            }
            new.push_str(outcome.trim_end());
            new.push_str("\n\n");
        }
        if update {
            fs::write(file.path(), format!("{}\n", new.trim_end())).expect("the scenarios are writable");
        }
    }
    assert!(count >= 60, "scenarios are missing: {count} were found");
    assert!(
        update || failures.is_empty(),
        "{} of {count} scenarios differ:\n{}",
        failures.len(),
        failures.join("\n")
    );
}

fn difference(expected: &str, found: &str) -> String {
    let mut text = expected.lines().next().unwrap_or_default().to_owned();
    let (mut expected, mut found) = (expected.trim_end().lines(), found.trim_end().lines());
    loop {
        match (expected.next(), found.next()) {
            (None, None) => return text,
            (Some(expected), Some(found)) if expected == found => {
                let _ = write!(text, "\n  {expected}");
            }
            (old, new) => {
                let _ = write!(text, "\n- {}\n+ {}", old.unwrap_or(""), new.unwrap_or(""));
                for line in found {
                    let _ = write!(text, "\n+ {line}");
                }
                return text;
            }
        }
    }
}
