//! `exec-server ls | cat | cp | rm | mkdir | watch | search`: files of an executor. One module for each
//! command; here is what they share: connecting, errors as sentences, and a reader that left.

mod cat;
mod change;
mod cp;
mod explain;
mod ls;
mod progress;
mod search;
mod watch;

use std::io::{self, Write};

use exec_client::Files;

use crate::args::{FileCommand, Target};
use crate::connect::{Connected, connect};
use crate::exit::{self, Outcome};

/// An executor and its files.
struct Remote {
    connected: Connected,
    files: Files,
}

impl Remote {
    async fn connect(target: &Target) -> anyhow::Result<Self> {
        let connected = connect(target).await.map_err(explain::connecting)?;
        let files = connected.client.files();
        Ok(Self { connected, files })
    }
}

/// Does one of the commands.
pub(crate) async fn perform(command: FileCommand) -> anyhow::Result<Outcome> {
    let remote = Remote::connect(command.target()).await?;
    let outcome = match command {
        FileCommand::Ls(args) => ls::ls(&remote, &args).await,
        FileCommand::Cat(args) => cat::cat(&remote, &args).await,
        FileCommand::Cp(args) => cp::cp(&remote, &args).await,
        FileCommand::Rm(args) => change::rm(&remote, &args).await,
        FileCommand::Mkdir(args) => change::mkdir(&remote, &args).await,
        FileCommand::Watch(args) => watch::watch(&remote, &args).await,
        FileCommand::Search(args) => search::search(&remote, &args).await,
    };
    remote.connected.close().await;
    outcome.or_else(|error| match error.downcast_ref::<io::Error>() {
        // Whoever read our output has seen enough.
        Some(error) if error.kind() == io::ErrorKind::BrokenPipe => {
            Ok(Outcome::Code(exit::BROKEN_PIPE))
        }
        _ => Err(error),
    })
}

/// Says several things that went wrong, each in one line, and gives the status for all of them.
#[derive(Default)]
struct Complaints {
    status: u8,
}

impl Complaints {
    fn add(&mut self, error: &anyhow::Error) {
        eprintln!("Error: {error:#}");
        self.status = self.status.max(exit::status_of(error));
    }

    fn outcome(&self) -> Outcome {
        if self.status == 0 { Outcome::Done } else { Outcome::Code(self.status.into()) }
    }
}

/// A name or path that cannot play tricks on a terminal.
fn printable(text: &str) -> String {
    text.chars().map(|one| if one.is_control() { '?' } else { one }).collect()
}

fn print_json(value: &impl serde::Serialize) -> anyhow::Result<()> {
    let mut stdout = io::stdout().lock();
    let text = serde_json::to_string_pretty(value)?;
    writeln!(stdout, "{text}")?;
    Ok(stdout.flush()?)
}
