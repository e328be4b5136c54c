//! The command `sotto`: reads the arguments, runs the command, turns the outcome into an exit code.
//!
//! 0 means that it did what was asked, 1 that it could not (the reason is on stderr), 2 that the arguments or the
//! configuration are wrong.

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    match sotto::cli::Arguments::parse().run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("sotto: {error:#}");
            sotto::cli::exit_code(&error)
        }
    }
}
