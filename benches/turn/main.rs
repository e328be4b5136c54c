//! What a turn costs: how much later than the model itself the agent answers, and what a conversation takes from the
//! machine. `scripts/bench turn` runs it; it is no test, judges nothing by absolute time and never runs in CI.
//!
//! Everything is real but the model: a livekit-server, the agent in a process of its own, clients of LiveKit's Rust SDK
//! in this process, all in a private network; the model is the tests' scripted endpoint. Where figures need one room, the
//! agent is the command `sotto join`. No command holds many rooms in one process yet: where figures need that, the agent's
//! process is this same binary ([`agents`]), which runs the same sessions through the same public API.
//!
//! | module | what it measures |
//! |---|---|
//! | [`answer`] | question → first and last text, as a stock client sees it, beside the endpoint itself |
//! | [`sentence`] | the endpoint completes a sentence → the client has its packet, beside bare packets |
//! | [`store`] | what keeping it adds to that |
//! | [`request`] | the agent's own work between a message and the request to the model |
//! | [`tools`] | the agent's own work in one round of a tool |
//! | [`capacity`] | conversations that one core carries |
//! | [`memory`], [`flat`] | memory of idle conversations, after many turns, over very many messages |
//! | [`cache`] | how much of each prompt the endpoint has seen before |

mod agents;
mod answer;
mod beacon;
mod cache;
mod capacity;
mod crowd;
mod flat;
mod memory;
mod relay;
mod report;
mod request;
mod samples;
mod scene;
mod script;
mod sentence;
mod store;
mod tools;
mod visitor;

use clap::{Parser, Subcommand, ValueEnum};
use report::Report;
use std::process::ExitCode;

/// What a turn costs; one figure after the other, and a table at the end.
#[derive(Parser, Debug)]
#[command(
    name = "scripts/bench turn",
    disable_help_subcommand = true,
    args_conflicts_with_subcommands = true
)]
struct Arguments {
    /// What to measure; everything, unless named
    figures: Vec<Figure>,
    /// How many rooms "many" are, where sentences, tools and processor time are measured
    #[arg(long, default_value_t = 100)]
    rooms: usize,
    /// How many messages the longest conversation has
    #[arg(long, default_value_t = 10_000)]
    messages: usize,
    /// JSON lines instead of the table
    #[arg(long)]
    json: bool,
    /// What cargo adds
    #[arg(long, hide = true)]
    bench: bool,
    #[command(subcommand)]
    part: Option<Part>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Figure {
    /// Question → first and last text, beside the endpoint itself
    Answer,
    /// Sentence complete → packet at the client, beside a bare packet, with 1 room and with many
    Sentence,
    /// The same with SQLite beside the same without a database
    Store,
    /// `UserMessage` → request to the model
    Request,
    /// The model's call → the tool → the next request, with 1 conversation and with many
    Tools,
    /// Conversations that one core carries
    Capacity,
    /// Memory of an idle conversation, and after 50 turns
    Memory,
    /// Memory over very many messages in one room
    Flat,
    /// The cached part of prompts
    Cache,
}

/// What this binary does as a process of its own, started by itself.
#[derive(Subcommand, Debug)]
enum Part {
    /// An agent in every room whose name is written to standard input
    #[command(hide = true)]
    Agents,
    /// Bare packets in a room
    #[command(hide = true)]
    Beacon { room: String, every_ms: u64 },
    /// What an endpoint streams, as bare packets in a room
    #[command(hide = true)]
    Relay { room: String, url: String },
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match arguments.part {
        Some(Part::Agents) => agents::run(),
        Some(Part::Beacon { room, every_ms }) => beacon::run(&room, every_ms),
        Some(Part::Relay { room, url }) => relay::run(&room, &url),
        None => sotto_harness::run_benchmark(measure(arguments)),
    }
}

async fn measure(Arguments { figures, rooms, messages, json, .. }: Arguments) {
    let all = Figure::value_variants();
    let wanted = if figures.is_empty() { all } else { &figures };
    let mut report = Report::default();
    for figure in all.iter().filter(|figure| wanted.contains(figure)) {
        match figure {
            Figure::Answer => answer::measure(&mut report).await,
            Figure::Sentence => sentence::measure(&mut report, rooms).await,
            Figure::Store => store::measure(&mut report).await,
            Figure::Request => request::measure(&mut report).await,
            Figure::Tools => tools::measure(&mut report, rooms).await,
            Figure::Capacity => capacity::measure(&mut report, rooms).await,
            Figure::Memory => memory::measure(&mut report).await,
            Figure::Flat => flat::measure(&mut report, messages).await,
            Figure::Cache => cache::measure(&mut report).await,
        }
    }
    if json { report.print_json() } else { report.print_table() }
}
