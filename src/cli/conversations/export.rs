//! `sotto conversations export`: all that is kept of a conversation, for other programs and for those who ask for it.

use crate::cli::exported;
use crate::store::{Archive, Entry};
use anyhow::{Context, bail};
use futures_util::TryStreamExt;
use futures_util::stream::BoxStream;
use std::fs::OpenOptions;
use std::io::{BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::Arc;

/// Write all that is kept of a conversation, as JSON Lines.
///
/// The first line is a header: format, version, conversation, exported (milliseconds since 1970). Each line after it is one
/// record in the order in which it happened: at, and one of joined, message, variation, begun, reasoning, `tool_begun`,
/// `tool_ended`, `broken_off`, answer, stanza. A stanza is what was sent to clients: number, audience, the decoded envelope, and as bytes
/// (base64) exactly what was sent.
#[derive(clap::Args, Debug)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Examples:
  sotto conversations export my-room > my-room.jsonl
  sotto conversations export my-room | jq -r '.message.text // empty'
  sotto conversations export my-room --output my-room.jsonl && sotto replay my-room.jsonl"
)]
pub(super) struct Arguments {
    /// The conversation: the room's name
    name: String,
    /// Write to this file, which must not be there yet and which nobody else can read; else to the standard output
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(super) async fn run(arguments: &Arguments, archive: &Arc<dyn Archive>) -> anyhow::Result<()> {
    let entries = super::entries(&**archive, &arguments.name).await?;
    let Some(path) = &arguments.output else {
        return write(std::io::stdout(), &arguments.name, entries).await;
    };
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    let file = file.with_context(|| format!("cannot make the file {}", path.display()))?;
    let written = write(file, &arguments.name, entries).await;
    if written.is_err() {
        // Half an export looks like a whole one.
        let _ = std::fs::remove_file(path);
    }
    written
}

async fn write(
    out: impl Write,
    name: &str,
    mut entries: BoxStream<'static, anyhow::Result<Entry>>,
) -> anyhow::Result<()> {
    let mut out = BufWriter::new(out);
    writeln!(out, "{}", exported::header(name))?;
    while let Some(entry) = entries.try_next().await? {
        if let Some(reason) = &entry.sealed {
            bail!("{name:?} is not exported: {reason}");
        }
        writeln!(out, "{}", exported::line(&entry))?;
    }
    Ok(out.flush()?)
}
