//! `sotto conversations`: what the store keeps of people's conversations, for whoever runs it.
//!
//! | module | what it is for |
//! |---|---|
//! | `list` | which conversations there are |
//! | `show` | one of them, to be read |
//! | `export` | all of one, for other programs |
//! | `delete` | the end of one |

mod delete;
mod export;
mod list;
mod show;

use crate::app::App;
use crate::config::Config;
use crate::store::{Archive, Entry};
use anyhow::bail;
use clap::Subcommand;
use futures_util::TryStreamExt;
use futures_util::stream::{self, BoxStream, StreamExt};

/// List, show, export and delete what people said and got.
///
/// Works on the store of the configuration (`store.url`), beside agents that are running. A conversation has the name of
/// its room; names must be given exactly.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  sotto conversations list
  sotto conversations show my-room | less
  sotto conversations export my-room --output my-room.jsonl
  sotto conversations delete my-room")]
pub struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand, Debug)]
enum What {
    List(list::Arguments),
    Show(show::Arguments),
    Export(export::Arguments),
    Delete(delete::Arguments),
}

/// Does one of them, and leaves the store as a process should.
pub async fn run(arguments: Arguments, config: Config) -> anyhow::Result<()> {
    let app = App::new(config)?;
    let archive = app.archive().await?;
    let done = match arguments.what {
        What::List(arguments) => list::run(&arguments, archive, &app.namespace()).await,
        What::Show(arguments) => show::run(&arguments, archive).await,
        What::Export(arguments) => export::run(&arguments, archive).await,
        What::Delete(arguments) => delete::run(&arguments, archive, &app.config().store.url).await,
    };
    archive.close().await;
    done
}

/// All that is kept of a conversation; an error that says what to do if there is none of that name.
async fn entries(
    archive: &dyn Archive,
    name: &str,
) -> anyhow::Result<BoxStream<'static, anyhow::Result<Entry>>> {
    let mut entries = archive.entries(name);
    let first = entries.try_next().await?;
    if first.is_none() && !is_listed(archive, name).await? {
        bail!(
            "there is no conversation named {name:?}; `sotto conversations list` shows which there are, and names must \
             be given exactly"
        );
    }
    Ok(stream::iter(first.map(Ok)).chain(entries.map_err(anyhow::Error::from)).boxed())
}

/// Whether there is one of that name in which nothing was said yet.
async fn is_listed(archive: &dyn Archive, name: &str) -> anyhow::Result<bool> {
    let mut conversations = archive.conversations();
    while let Some(summary) = conversations.try_next().await? {
        if summary.name == name {
            return Ok(true);
        }
    }
    Ok(false)
}
