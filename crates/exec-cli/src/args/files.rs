//! The arguments of the commands that work with files.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::Target;

#[derive(Debug, Subcommand)]
pub(crate) enum FileCommand {
    /// List directories of the executor.
    Ls(LsArgs),
    /// Print files of the executor, byte for byte.
    Cat(CatArgs),
    /// Copy files to the executor, from it, or on it.
    Cp(CpArgs),
    /// Remove files of the executor.
    Rm(RmArgs),
    /// Make directories on the executor.
    Mkdir(MkdirArgs),
    /// Print changes of files on the executor until interrupted.
    Watch(WatchArgs),
    /// Look for lines in files of the executor, as grep does.
    Search(SearchArgs),
}

impl FileCommand {
    /// Which executor.
    pub(crate) fn target(&self) -> &Target {
        match self {
            FileCommand::Ls(args) => &args.target,
            FileCommand::Cat(args) => &args.target,
            FileCommand::Cp(args) => &args.target,
            FileCommand::Rm(args) => &args.target,
            FileCommand::Mkdir(args) => &args.target,
            FileCommand::Watch(args) => &args.target,
            FileCommand::Search(args) => &args.target,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct LsArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Kind, size and time of modification (UTC) too.
    #[arg(long, short = 'l')]
    pub(crate) long: bool,
    /// Names that begin with a dot too.
    #[arg(long, short = 'a')]
    pub(crate) all: bool,
    /// Print JSON: everything that is known.
    #[arg(long)]
    pub(crate) json: bool,
    /// Directories or files on the executor.
    #[arg(value_name = "PATH", default_value = ".")]
    pub(crate) paths: Vec<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct CatArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Begin with this byte of each file.
    #[arg(long, value_name = "BYTE", default_value_t = 0)]
    pub(crate) offset: u64,
    /// Print so many bytes of each file.
    #[arg(long, value_name = "BYTES")]
    pub(crate) length: Option<u64>,
    /// Files on the executor.
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
A path that begins with a colon is on the executor, any other is here; ./:name is a file here whose \
name begins with a colon. A relative path on the executor begins in the directory it was started in.

Examples:
  exec-server cp notes.txt :/srv/notes.txt      to the executor
  exec-server cp -r :/srv/tree ./tree           from the executor
  exec-server cp :/srv/a :/srv/b                on the executor itself
  exec-server cp --resume big.iso :/srv/        go on where an earlier copy stopped

A download has its name when it is complete; until then it is .NAME.part beside it, and a copy that \
was interrupted leaves that for --resume. An upload is written in place. With --resume, what is there \
already is kept if it is not longer than the source and its last 256 KiB are the same.

Modes and times are not copied: the protocol has neither. A link inside a downloaded tree is kept if it \
leads into the tree; every other link is named and not copied, unless -L is given.")]
pub(crate) struct CpArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Copy directories with everything below.
    #[arg(long, short = 'r')]
    pub(crate) recursive: bool,
    /// Go on after what an interrupted copy has left.
    #[arg(long)]
    pub(crate) resume: bool,
    /// Copy what links point to, in their place.
    #[arg(long, short = 'L')]
    pub(crate) follow_links: bool,
    /// No progress, even on a terminal.
    #[arg(long, short = 'q')]
    pub(crate) quiet: bool,
    /// Print a report as JSON.
    #[arg(long)]
    pub(crate) json: bool,
    /// Sources, then the destination; with a colon before those on the executor.
    #[arg(required = true, num_args = 2.., value_name = "[:]PATH")]
    pub(crate) paths: Vec<OsString>,
}

#[derive(Debug, Args)]
pub(crate) struct RmArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Remove directories with everything below.
    #[arg(long, short = 'r')]
    pub(crate) recursive: bool,
    /// Do not mind what is missing.
    #[arg(long, short = 'f')]
    pub(crate) force: bool,
    /// What to remove on the executor. A link is removed itself.
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct MkdirArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Make parents too, and do not mind what exists.
    #[arg(long, short = 'p')]
    pub(crate) parents: bool,
    /// Directories to make on the executor.
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct WatchArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// With everything below.
    #[arg(long, short = 'r')]
    pub(crate) recursive: bool,
    /// Print one JSON object for each change.
    #[arg(long)]
    pub(crate) json: bool,
    /// A file or directory on the executor.
    #[arg(value_name = "PATH")]
    pub(crate) path: PathBuf,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Exit status: 0 if a line was found, 1 if none was, 2 if the search failed."
)]
pub(crate) struct SearchArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Upper and lower case are the same.
    #[arg(long, short = 'i')]
    pub(crate) ignore_case: bool,
    /// The pattern is plain text and no regular expression.
    #[arg(long, short = 'F')]
    pub(crate) fixed_strings: bool,
    /// Lines to show before and after each match.
    #[arg(long, short = 'C', value_name = "LINES", default_value_t = 0)]
    pub(crate) context: u32,
    /// Only files that match; with ! before it, only those that do not. May be repeated.
    #[arg(long, short = 'g', value_name = "GLOB")]
    pub(crate) glob: Vec<String>,
    /// Also files whose name begins with a dot.
    #[arg(long)]
    pub(crate) hidden: bool,
    /// Also what .gitignore and the like leave out.
    #[arg(long)]
    pub(crate) no_ignore: bool,
    /// Matching lines to show (1000 when absent, at most 10000).
    #[arg(long, short = 'm', value_name = "COUNT")]
    pub(crate) max_matches: Option<u32>,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
    /// What to look for.
    #[arg(value_name = "PATTERN")]
    pub(crate) pattern: String,
    /// A directory or file on the executor.
    #[arg(value_name = "PATH", default_value = ".")]
    pub(crate) path: PathBuf,
}
