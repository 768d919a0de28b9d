//! `exec-bench e2e` measures one or two servers from the outside, next to the bare operating
//! system; `exec-bench micro` measures our building blocks from the inside. What the figures mean
//! and what was decided by them is in `docs/performance.md`.
//!
//! Reading order: [`e2e`] (rounds and scenarios), [`client`] and [`wire`] (a client that is not the
//! bottleneck), [`cost`] (what `/proc` tells of a server), [`report`] (medians and ratios).

mod stats;

mod cost;
mod wire;

mod client;

mod bare;

mod report;

mod e2e;
mod launch;
mod micro;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

/// Measures exec-servers and their building blocks.
#[derive(Debug, Parser)]
#[command(name = "exec-bench")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Measure servers end to end, and the bare operating system where it has an equivalent.
    E2e(E2eArgs),
    /// Measure the start of a command, bare, confined by us, and confined by bubblewrap.
    Launch(LaunchArgs),
    /// Measure the building blocks: nanoseconds for each operation.
    Micro(MicroArgs),
}

/// What to measure, and how long.
#[derive(Debug, Args)]
struct E2eArgs {
    /// Starts the server; its first line on stdout is a ws:// URL. Run by `sh -c "exec …"`.
    #[arg(long, value_name = "CMD")]
    server: String,
    /// Starts the server to compare with.
    #[arg(long, value_name = "CMD")]
    against: Option<String>,
    /// The head of the server's column.
    #[arg(long, value_name = "NAME", default_value = "server")]
    server_name: String,
    /// The head of the other server's column.
    #[arg(long, value_name = "NAME", default_value = "against")]
    against_name: String,
    /// How often everything is measured, with the servers in turns.
    #[arg(long, value_name = "COUNT", default_value_t = 5)]
    rounds: u32,
    /// Multiplies the number of samples and bytes; 0.2 is a quick look.
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = parse_scale)]
    scale: f64,
    /// Only these scenarios, separated by commas.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    only: Vec<e2e::Scenario>,
    /// Write the tables there too: between its markers, if the file has some.
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct LaunchArgs {
    /// How often each is started, in turns.
    #[arg(long, value_name = "COUNT", default_value_t = 300)]
    rounds: u32,
    /// Write the table there too: between its markers, if the file has some.
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct MicroArgs {
    /// Write the table there too: between its markers, if the file has some.
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
}

fn parse_scale(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(scale) if scale > 0.0 && scale <= 100.0 => Ok(scale),
        Ok(_) | Err(_) => Err("a number above 0 and up to 100 is expected".to_owned()),
    }
}

fn main() -> anyhow::Result<()> {
    let (name, text, file) = match Cli::parse().command {
        Command::E2e(args) => ("e2e", e2e::run(&args)?, args.markdown),
        Command::Launch(args) => ("launch", launch::run(args.rounds)?, args.markdown),
        Command::Micro(args) => ("micro", micro::run()?, args.markdown),
    };
    print!("{text}");
    match file {
        Some(path) => report::write(&path, name, &text),
        None => Ok(()),
    }
}
