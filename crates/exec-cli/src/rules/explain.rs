//! `rules explain`: which rule decides, and why.

use std::fmt::Write as _;

use exec_rules::example::joined;
use exec_rules::{LoadOptions, Match, Resolve, RiskyRules, RuleSet, Verdict};

use super::{ExplainArgs, places};
use crate::exit::Outcome;

pub(super) fn explain(args: &ExplainArgs) -> anyhow::Result<Outcome> {
    let places = places();
    let options = LoadOptions { risky: RiskyRules::Accept, places: places.clone() };
    let set = RuleSet::load(&args.rules, &options)?;
    let verdict = set.decide(&args.command, Resolve::BaseName(&places));
    print!("{}", text(&args.command, &verdict, &set));
    Ok(Outcome::Done)
}

fn text(command: &[String], verdict: &Verdict<'_>, set: &RuleSet) -> String {
    let mut out = String::new();
    let command_line = joined(command);
    let (Some(decision), Some(winner)) = (verdict.decision, verdict.winner()) else {
        writeln!(out, "{command_line}: no rule matches").ok(); // A String never fails.
        near_misses(&mut out, command, set);
        return out;
    };
    writeln!(out, "{command_line}: {decision}").ok();
    writeln!(out, "  decided by {} {winner}", winner.location).ok();
    if let Some(why) = &winner.justification {
        writeln!(out, "  because: {why}").ok();
    }
    for Match::Prefix { resolved_program, rule, .. } in &verdict.matched_rules {
        if let Some(path) = resolved_program
            && std::ptr::eq(*rule, winner)
        {
            writeln!(out, "  {} counts as {}", path.display(), rule.first).ok();
        }
        if !std::ptr::eq(*rule, winner) {
            let note = if rule.decision < decision { "less strict" } else { "as strict" };
            writeln!(out, "  also matched ({note}): {} {} {rule}", rule.location, rule.decision)
                .ok();
        }
    }
    out
}

/// Rules for the program that would have needed other arguments, or another path.
fn near_misses(out: &mut String, command: &[String], set: &RuleSet) {
    const SHOWN: usize = 5;
    let Some(first) = command.first() else { return };
    let name = first.rsplit('/').next().unwrap_or_default();
    if let Some(paths) = set.host_executables().paths(name)
        && first.contains('/')
    {
        let paths: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
        writeln!(out, "  {name} counts only at: [{}]", paths.join(", ")).ok();
    }
    let near = set.rules().iter().filter(|rule| *rule.first == **first || *rule.first == *name);
    for rule in near.take(SHOWN) {
        writeln!(out, "  does not match: {} {} {rule}", rule.location, rule.decision).ok();
    }
}
