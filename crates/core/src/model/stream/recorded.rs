//! Streams that llama.cpp's server really sent (tests/fixtures/llama, byte for byte) and, in `recorded.txt`, what has to
//! come of each. Each is read whole, byte by byte (so that it is cut at every border there is), and in pieces of many
//! sizes (so that the cuts meet it in many ways). Cutting these in two at every byte would take minutes; `streams/`
//! has smaller ones for that.
//!
//! Ids of calls are made up by the server and differ in every recording: they are shown as `#1`, `#2`.

#![expect(clippy::disallowed_methods, reason = "a test may read its recordings")]

use super::tests::{read, show};
use super::{Chunks, StreamOptions};
use crate::model::Chunk;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

const RECORDED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/llama");
const EXPECTED: &str = include_str!("recorded.txt");

/// What is expected of each file: under `==== NAME`, a line for each chunk; `starts_inside` where that must be known.
fn expected() -> BTreeMap<&'static str, (bool, &'static str)> {
    let files = EXPECTED.split("==== ").skip(1).map(|section| {
        let (head, chunks) = section.split_once('\n').expect("a section has a head");
        let (name, options) = head.split_once(' ').unwrap_or((head, ""));
        (name, (options == "starts_inside", chunks.trim()))
    });
    files.collect()
}

fn named_calls(mut chunks: Chunks) -> Chunks {
    let mut ids = BTreeSet::new();
    let calls = chunks.iter_mut().filter_map(|chunk| match chunk {
        Ok(Chunk::ToolCall(call)) => Some(call),
        _ => None,
    });
    for (number, call) in calls.enumerate() {
        let id = std::mem::replace(&mut call.id, format!("#{}", number + 1));
        assert!(ids.insert(id), "two calls have one id");
    }
    chunks
}

#[test]
fn every_recorded_stream_is_understood_wherever_it_is_cut() {
    let mut seen = BTreeSet::new();
    let expected = expected();
    for file in fs::read_dir(RECORDED).expect("the recordings are part of the project") {
        let name = file.expect("the folder can be read").file_name().to_string_lossy().into_owned();
        if name == "README.md" {
            continue;
        }
        let body = fs::read(format!("{RECORDED}/{name}")).expect("a recording can be read");
        let &(starts_inside, chunks) =
            expected.get(name.as_str()).unwrap_or_else(|| panic!("recorded.txt does not say what {name} is"));
        for size in [body.len()].into_iter().chain(1..=19) {
            let options = StreamOptions { starts_inside, ..StreamOptions::default() };
            let read = show(&named_calls(read(options, body.chunks(size))));
            assert_eq!(read.trim(), chunks, "{name} in pieces of {size} bytes");
        }
        seen.insert(name);
    }
    let described: BTreeSet<String> = expected.keys().map(|&name| name.to_owned()).collect();
    assert_eq!(described, seen, "recorded.txt describes what is there");
}
