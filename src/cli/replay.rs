//! `sotto replay`: an exported conversation, run through the engine once more.
//!
//! | module | what it is for |
//! |---|---|
//! | `script` | what was recorded, in the order in which it happened, and what of it can be compared |
//! | `rerun` | a fresh engine, to which all of that happens again |
//! | `compare` | the first difference between what was sent then and now |

mod compare;
mod rerun;
mod script;
#[cfg(test)]
mod tests;

use super::{UsageError, exported};
use crate::config::Config;
use anyhow::{Context, bail};
use compare::{Outcome, compare};
use rerun::rerun;
use script::Script;
use std::fs::File;
use std::io::{BufReader, Write};
use std::path::{Path, PathBuf};

/// Run an exported conversation through the engine again, and show the first difference.
///
/// People join, write, ask for variations and interrupt as recorded, in the recorded order and at the recorded times. The
/// model says what was recorded: the same thoughts, calls of tools, text, and end; tools give what they gave. Where the agent
/// was killed, the engine is begun anew from what was recorded until then. Nothing is asked of any server, and nothing is
/// stored.
///
/// Compared are all recorded stanzas in their order: type, audience and every field, with ids by what they name.
///
/// Not compared are stanza numbers, times, tokens and durations, and what no store keeps: acknowledgements, errors,
/// configurations and live pieces of thoughts. Stanzas of types 3 and 65, which only some clients ask for, count where they
/// were recorded. What the model was asked and how its words were cut into pieces is not recorded, and so not tested. Messages
/// whose stanzas are no longer kept (`store.replay_hours`) are passed over and counted.
///
/// Stops are known by what they ended, and pauses of the model that nobody was shown not at all: where several things came
/// together at the same moment, a difference may be one of order alone.
///
/// `reasoning.step_chars` of the configuration should be what it was then.
#[derive(clap::Args, Debug)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Examples:
  sotto conversations export my-room --output my-room.jsonl
  sotto replay my-room.jsonl
  sotto conversations export my-room | sotto replay -

Exit codes:
  0  the same
  1  different: the first difference is shown
  2  the file is no export: its first bad line is named"
)]
pub struct Arguments {
    /// What `sotto conversations export` wrote; - is the standard input
    file: PathBuf,
}

/// Reads, runs, compares.
pub fn run(arguments: &Arguments, config: &Config) -> anyhow::Result<()> {
    let path = &arguments.file;
    let read = if path == Path::new("-") {
        exported::read(std::io::stdin().lock())
    } else {
        let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
        exported::read(BufReader::new(file))
    };
    let exported =
        read.map_err(|fault| UsageError(format!("{} is no exported conversation: {fault}", path.display())))?;
    let script = Script::of(exported);
    let found = rerun(&script, config.reasoning.step_chars);
    let mut out = std::io::stdout();
    match compare(&script, found) {
        Outcome::Same { stanzas, not_kept: 0 } => writeln!(out, "the same: {stanzas} stanzas")?,
        Outcome::Same { stanzas, not_kept } => writeln!(
            out,
            "the same: {stanzas} stanzas; {not_kept} messages were not compared, as their stanzas are no longer kept"
        )?,
        Outcome::Different(difference) => {
            writeln!(out, "{difference}")?;
            bail!("the conversation would not be the same again");
        }
    }
    Ok(())
}
