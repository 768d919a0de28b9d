//! `rules check`: the reference's `execpolicy check`, with its output, its words and its exit codes. On
//! top of its complaints come the place and a hint, where it gives none.

use anyhow::{Context as _, anyhow};
use exec_rules::{Error, LoadOptions, Resolve, RiskyRules, RuleSet};

use super::{CheckArgs, places};
use crate::exit::Outcome;

pub(super) fn check(args: &CheckArgs) -> anyhow::Result<Outcome> {
    let places = places();
    // The reference takes risky rules as well; `rules test` is there to find them.
    let options = LoadOptions { risky: RiskyRules::Accept, places: places.clone() };
    let set = match RuleSet::load(&args.rules, &options) {
        Ok(set) => set,
        Err(error) => {
            complain(error);
            return Ok(Outcome::Code(1));
        }
    };
    let resolve = match args.resolve_host_executables {
        true => Resolve::BaseName(&places),
        false => Resolve::Exact,
    };
    let verdict = set.decide(&args.command, resolve);
    let json = match args.pretty {
        true => serde_json::to_string_pretty(&verdict)?,
        false => serde_json::to_string(&verdict)?,
    };
    println!("{json}");
    Ok(Outcome::Done)
}

/// What the reference says, then what we know besides.
fn complain(error: Error) {
    let hint = error.hint().map(str::to_owned);
    let (error, place) = match error {
        Error::Parse { file, problem } => {
            let outcome: anyhow::Result<()> = Err(anyhow!(problem.message.clone()));
            let error = outcome.with_context(|| format!("failed to parse policy at {file}"));
            // Starlark's own complaints show the place themselves.
            let place = problem.location.filter(|_| !problem.message.starts_with("starlark error"));
            (error.err(), place)
        }
        Error::Read { path, source } => {
            let outcome: anyhow::Result<()> = Err(source.into());
            let file = path.display();
            (outcome.with_context(|| format!("failed to read policy at {file}")).err(), None)
        }
        other @ (Error::TooManyFiles | Error::Amend { .. } | Error::Refused(_)) => {
            (Some(other.into()), None)
        }
    };
    if let Some(error) = error {
        eprintln!("Error: {error:?}");
    }
    if let Some(place) = place {
        eprintln!("at {place}");
    }
    if let Some(hint) = hint {
        eprintln!("hint: {hint}");
    }
}
