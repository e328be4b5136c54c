//! What strangers could send to the core, in the fast suite: every file of the fuzzing corpus again. The functions are
//! those of the fuzz targets in `fuzz/`, which include these files.

#![expect(clippy::disallowed_methods, reason = "the corpus is in files; what is tested reads none")]

mod engine;
mod envelope;
mod model_stream;

use std::path::Path;

fn replay(target: &str, check: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let mut files: Vec<_> = std::fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("no corpus in {}: {error}", folder.display()))
        .map(|entry| entry.expect("the folder can be read").path())
        .collect();
    files.sort();
    assert!(!files.is_empty(), "the corpus of {target} is empty");
    for file in files {
        let bytes = std::fs::read(&file).expect("the file can be read");
        // A finding is a panic: say where.
        println!("{}", file.display());
        check(&bytes);
    }
}

#[test]
fn envelopes_are_read_and_written_the_same() {
    replay("envelope", envelope::check);
}

#[test]
fn streams_end_the_same_however_they_are_cut() {
    replay("model_stream", model_stream::check);
}

#[test]
fn the_rules_of_a_conversation_hold() {
    replay("engine", engine::check);
}
