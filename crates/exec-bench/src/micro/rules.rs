//! A decision among ten thousand rules, however they are spread.

use std::fmt::Write as _;
use std::hint::black_box;

use anyhow::{Result, ensure};
use exec_rules::{Decision, LoadOptions, Places, Resolve, RuleSet, Source};

use super::Figure;
use super::clock::nanos;

const RULES: usize = 10_000;

pub(super) fn measure(figures: &mut Vec<Figure>) -> Result<()> {
    let places = Places::default();
    let many_programs = set(|text, number| {
        writeln!(text, "prefix_rule(['tool{number}', ['a', 'b'], 'c'], 'prompt')")
    })?;
    let one_program = set(|text, number| {
        writeln!(text, "prefix_rule(['tool', 'run', 'job{number}'], 'prompt')")
    })?;
    let middle = RULES / 2;
    for (name, set, command) in [
        (
            "rules, 10 000 programs",
            &many_programs,
            [format!("tool{middle}"), "b".into(), "c".into()],
        ),
        ("… by path", &many_programs, [format!("/bin/tool{middle}"), "b".into(), "c".into()]),
        (
            "rules, 10 000 of one program",
            &one_program,
            ["tool".into(), "run".into(), format!("job{middle}")],
        ),
    ] {
        let decide = || set.decide(black_box(&command), Resolve::BaseName(&places)).decision;
        ensure!(decide() == Some(Decision::Prompt), "{name}: one rule matches");
        let time = nanos(|| {
            black_box(decide());
        });
        figures.push(Figure(name, time, None));
    }
    let nothing = ["/usr/bin/unknown", "x"];
    let time = nanos(|| {
        black_box(many_programs.decide(black_box(&nothing), Resolve::BaseName(&places)).decision);
    });
    figures.push(Figure("… nothing matches", time, None));
    Ok(())
}

fn set(write: impl Fn(&mut String, usize) -> std::fmt::Result) -> Result<RuleSet> {
    let mut text = String::new();
    for number in 0..RULES {
        write(&mut text, number)?;
    }
    Ok(RuleSet::parse(&[Source::new("bench.rules", text)], &LoadOptions::default())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_decision_is_measured() {
        let mut figures = Vec::new();
        measure(&mut figures).unwrap();
        assert_eq!(figures.len(), 4);
    }
}
