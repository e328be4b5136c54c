//! `sotto conversations list`: which conversations there are.

use crate::cli::terminal::{clean_line, escape_controls};
use crate::store::{Archive, Summary};
use futures_util::TryStreamExt;
use jiff::tz::TimeZone;
use serde_json::json;
use sotto_core::time::Time;
use std::fmt::Write as _;
use std::io::Write;
use std::sync::Arc;

/// List the conversations, the one that was written to last at the end.
///
/// OPEN is how many messages and variations wait for an answer, or for the end of one.
#[derive(clap::Args, Debug)]
pub(super) struct Arguments {
    /// Print one JSON object a line: name, created, updated (in milliseconds since 1970), participants, messages, stanzas, open
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(
    arguments: &Arguments,
    archive: &Arc<dyn Archive>,
    namespace: &str,
) -> anyhow::Result<()> {
    let mut summaries: Vec<Summary> = archive.conversations().try_collect().await?;
    summaries.sort_by(|a, b| (a.updated, &a.name).cmp(&(b.updated, &b.name)));
    let mut out = std::io::stdout().lock();
    if arguments.json {
        for summary in &summaries {
            writeln!(out, "{}", line(summary))?;
        }
    } else if summaries.is_empty() {
        // Not on stdout, where a script would take it for a conversation.
        eprintln!("no conversations of {namespace} here (store.namespace says whose are looked for)");
    } else {
        write!(out, "{}", table(&summaries, &TimeZone::system()))?;
    }
    Ok(())
}

fn line(summary: &Summary) -> String {
    let Summary { name, created, updated, participants, messages, records: _, stanzas, open } = summary;
    let line = json!({
        "name": name, "created": created, "updated": updated, "participants": participants, "messages": messages,
        "stanzas": stanzas, "open": open,
    });
    escape_controls(&line.to_string())
}

fn table(summaries: &[Summary], zone: &TimeZone) -> String {
    let titles = ["NAME", "CREATED", "UPDATED", "MESSAGES", "OPEN"].map(str::to_owned);
    let rows = summaries.iter().map(|summary| {
        let Summary { name, created, updated, messages, open, .. } = summary;
        let (created, updated) = (shown(*created, zone), shown(*updated, zone));
        [clean_line(name), created, updated, messages.to_string(), open.to_string()]
    });
    let rows: Vec<_> = std::iter::once(titles).chain(rows).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths = [0, 1, 2, 3, 4].map(width);
    let mut table = String::new();
    for [name, created, updated, messages, open] in &rows {
        // A string takes all that is written to it.
        let _ = writeln!(
            table,
            "{name:0$}  {created:1$}  {updated:2$}  {messages:>3$}  {open:>4$}",
            widths[0], widths[1], widths[2], widths[3], widths[4]
        );
    }
    table
}

/// A moment, for people.
pub(super) fn shown(time: Time, zone: &TimeZone) -> String {
    match jiff::Timestamp::from_millisecond(time.as_millis()) {
        Ok(moment) => moment.to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M:%S").to_string(),
        // Only a damaged store has such times.
        Err(_) => "(no time)".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(name: &str, updated: u64) -> Summary {
        Summary {
            name: name.to_owned(),
            created: Time(1_794_787_200_000),
            updated: Time(updated),
            participants: 1,
            messages: 12,
            records: 50,
            stanzas: 100,
            open: 0,
        }
    }

    #[test]
    fn columns_stand_under_each_other_and_names_cannot_steer_the_terminal() {
        let summaries = [summary("kitchen", 1_794_787_201_000), summary("\x1b[31mbäd", 1_794_787_260_000)];
        let expected = "\
NAME     CREATED              UPDATED              MESSAGES  OPEN
kitchen  2026-11-16 00:00:00  2026-11-16 00:00:01        12     0
[31mbäd  2026-11-16 00:00:00  2026-11-16 00:01:00        12     0
";
        assert_eq!(table(&summaries, &TimeZone::UTC), expected);
    }

    #[test]
    fn a_script_gets_the_exact_name() {
        let line = line(&summary("\x1b[31mbäd", 5));
        assert!(!line.contains('\x1b'), "{line}");
        let value: serde_json::Value = serde_json::from_str(&line).expect("JSON");
        assert_eq!((&value["name"], &value["updated"]), (&json!("\x1b[31mbäd"), &json!(5)));
    }

    #[test]
    fn a_time_that_is_none_is_said_to_be_none() {
        assert_eq!(shown(Time(u64::MAX), &TimeZone::UTC), "(no time)");
    }
}
