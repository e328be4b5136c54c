//! `sotto store`: the store itself, rather than what is in it.

use crate::app::App;
use crate::config::Config;
use crate::store::{Archive, MasterKeys, Rekeyed, Report};
use anyhow::{Context, bail};
use clap::Subcommand;
use futures_util::TryStreamExt;
use serde_json::json;
use std::fmt::Write as _;
use std::io::Write;
use std::sync::Arc;

/// Check the store, remove now what is too old, or seal it with other keys.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand, Debug)]
enum What {
    /// Look the whole store over: is it sound, of the right version, how large, what waits for an answer?
    ///
    /// May be run beside agents, and takes its time with a large store. The exit code is 0 if all is well and 1 if something
    /// is wrong.
    Check {
        /// Print one JSON object instead
        #[arg(long)]
        json: bool,
    },
    /// Remove what is too old, as agents do once a minute: stanzas nobody may ask for any more, reasoning and conversations whose
    /// time is over.
    ///
    /// What that is, `replay_count`, `replay_hours`, `retention_days` and `reasoning` of [store] say.
    Tidy,
    /// Print a new key for `store.key` or `store.key_file`. It is kept nowhere: whoever loses it loses what was sealed with it.
    Key,
    /// Seal everything with the newest key, also what was written before there was one.
    ///
    /// Does it in small steps beside agents that are running, which must all know the newest key by then. Afterwards the other keys
    /// are not needed any more. May be run again, also after it was broken off.
    Rekey,
}

impl Arguments {
    /// Does what needs no configuration; whether it was that.
    pub(super) fn run_unconfigured(&self) -> anyhow::Result<bool> {
        if !matches!(self.what, What::Key) {
            return Ok(false);
        }
        let key = MasterKeys::generate().ok().context("the system gives no random numbers")?;
        writeln!(std::io::stdout(), "{key}")?;
        Ok(true)
    }
}

/// Does one of them, and leaves the store as a process should.
pub async fn run(arguments: Arguments, config: Config) -> anyhow::Result<()> {
    let app = App::new(config)?;
    let archive = app.archive().await?;
    let done = match arguments.what {
        What::Check { json } => check(archive, json, &app.namespace()).await,
        What::Tidy => tidy(archive).await,
        What::Rekey => rekey(archive).await,
        // Done before there was a configuration.
        What::Key => Ok(()),
    };
    archive.close().await;
    done
}

async fn tidy(archive: &Arc<dyn Archive>) -> anyhow::Result<()> {
    archive.tidy().await?;
    Ok(writeln!(std::io::stdout(), "what was too old is gone")?)
}

async fn rekey(archive: &Arc<dyn Archive>) -> anyhow::Result<()> {
    let done = archive.rekey().await?;
    write!(std::io::stdout(), "{}", rekeyed(&done))?;
    if !done.left.is_empty() {
        bail!("not all could be sealed with the newest key; keep the others");
    }
    Ok(())
}

fn rekeyed(done: &Rekeyed) -> String {
    let Rekeyed { key, wrapped, sealed, overwritten, left } = done;
    let mut told = format!(
        "the keys of {wrapped} conversations are wrapped by the key {key} now, and {sealed} rows that were in the clear are \
         sealed\n"
    );
    if *sealed > 0 && !overwritten {
        told +=
            "what was in the clear stays in the database's files until it overwrites that (docs/store.md)\n";
    }
    for (why, conversations) in left {
        // A string takes all that is written to it.
        let _ = writeln!(told, "✗ {conversations} conversations stayed as they were: {why}");
    }
    if left.is_empty() {
        told += "all else is wrapped by it already: older keys may go, except for the sake of backups of the keys\n";
    }
    told
}

/// What has not ended, in the conversations that are ours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Open {
    conversations: u64,
    messages: u64,
}

async fn check(archive: &Arc<dyn Archive>, json: bool, namespace: &str) -> anyhow::Result<()> {
    let report = archive.check().await?;
    let mut open = Open::default();
    let mut conversations = archive.conversations();
    while let Some(summary) = conversations.try_next().await? {
        open.conversations += u64::from(summary.open > 0);
        open.messages += summary.open;
    }
    let found = if json { for_scripts(&report, open) } else { for_people(&report, open, namespace) };
    writeln!(std::io::stdout(), "{found}")?;
    if !report.problems.is_empty() {
        bail!("the store is not as it should be; docs/store.md says how to restore a backup");
    }
    Ok(())
}

fn for_scripts(report: &Report, open: Open) -> String {
    let Report { place, schema: (schema, expected), conversations, sealed, bytes, problems } = report;
    json!({
        "ok": problems.is_empty(), "place": place, "schema": schema, "expected_schema": expected,
        "conversations": conversations, "sealed": sealed, "open_conversations": open.conversations, "open": open.messages,
        "bytes": bytes, "problems": problems,
    })
    .to_string()
}

fn for_people(report: &Report, open: Open, namespace: &str) -> String {
    let Report { place, schema: (schema, expected), conversations, sealed, bytes, problems } = report;
    let mark = |good| if good { "✓" } else { "✗" };
    let mut lines = vec![
        format!("{} {place}: {} kB, {conversations} conversations", mark(problems.is_empty()), bytes / 1_000),
        format!("{} tables of version {schema}, expected {expected}", mark(schema >= expected)),
        format!(
            "  of {namespace}: {} conversations in which {} messages are not answered yet",
            open.conversations, open.messages
        ),
    ];
    if *sealed > 0 {
        lines.insert(2, format!("  {sealed} conversations are sealed"));
    }
    lines.extend(problems.iter().map(|problem| format!("✗ {problem}")));
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(problems: &[&str]) -> Report {
        Report {
            place: "a.db".to_owned(),
            schema: (1, 1),
            conversations: 3,
            sealed: 0,
            bytes: 4_096,
            problems: problems.iter().map(|&problem| problem.to_owned()).collect(),
        }
    }

    #[test]
    fn a_sound_store_is_told_in_a_few_lines() {
        let open = Open { conversations: 1, messages: 2 };
        assert_eq!(
            for_people(&report(&[]), open, "livekit.example"),
            "✓ a.db: 4 kB, 3 conversations\n✓ tables of version 1, expected 1\n  of livekit.example: 1 conversations in \
             which 2 messages are not answered yet"
        );
    }

    #[test]
    fn how_many_are_sealed_is_told_where_any_are() {
        let report = Report { sealed: 2, ..report(&[]) };
        let told = for_people(&report, Open::default(), "x");
        assert!(told.contains("\n  2 conversations are sealed\n"), "{told}");
        assert!(for_scripts(&report, Open::default()).contains("\"sealed\":2"));
    }

    #[test]
    fn old_keys_may_go_only_when_nothing_needs_them() {
        let done = Rekeyed { key: "ab12".to_owned(), wrapped: 3, sealed: 40, ..Rekeyed::default() };
        assert!(
            rekeyed(&done)
                .starts_with("the keys of 3 conversations are wrapped by the key ab12 now, and 40 rows")
        );
        assert!(
            rekeyed(&done).contains("older keys may go") && rekeyed(&done).contains("until it overwrites")
        );
        let done = Rekeyed { overwritten: true, ..done };
        assert!(!rekeyed(&done).contains("until it overwrites"));
        let left = Rekeyed { left: [("its key is missing".to_owned(), 1)].into(), ..done };
        let told = rekeyed(&left);
        assert!(told.ends_with("✗ 1 conversations stayed as they were: its key is missing\n"), "{told}");
    }

    #[test]
    fn what_is_wrong_is_told_to_people_and_scripts() {
        let bad = report(&["row 5 is missing"]);
        assert!(for_people(&bad, Open::default(), "x").ends_with("\n✗ row 5 is missing"));
        let json: serde_json::Value =
            serde_json::from_str(&for_scripts(&bad, Open::default())).expect("JSON");
        assert_eq!((&json["ok"], &json["problems"][0]), (&json!(false), &json!("row 5 is missing")));
    }
}
