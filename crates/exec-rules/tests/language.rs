//! What the language means, beyond what the comparison with the reference shows.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use exec_rules::{
    Decision, Error, LoadOptions, Places, Resolve, RiskyRules, RuleSet, Source, fmt, set,
};
use proptest::prelude::*;

fn parse(text: &str) -> Result<RuleSet, Error> {
    RuleSet::parse(&[Source::new("a.rules", text)], &LoadOptions::default())
}

#[test]
fn complaints_have_a_place_and_a_hint() {
    for (text, place, message, hint) in [
        (
            "\n  \nx = 1\nprefix_rule([])\n",
            "4:1",
            "pattern cannot be empty",
            "at least the program",
        ),
        ("x = 'é'; prefix_rule(['a'], 'deny')", "1:10", "invalid decision: deny", "\"forbidden\""),
        ("\nprefix_rule(['a'],\n match=['b'])", "2:1", "unmatched examples", "exactly"),
        ("prefix_rule(['a'], not_match=['a'])", "1:1", "to not match", "narrower"),
        ("def f(x):\n    prefix_rule(x)\nf(1)", "2:5", "expected `list`", "a pattern is a list"),
        ("\nprefix_rule(['bash'])", "2:1", "would let anything run", "rules: force"),
        ("load('x', 'y')", "1:1", "No imports", "stands alone"),
    ] {
        let error = parse(text).unwrap_err();
        let Error::Parse { file, problem } = &error else { panic!("{error}") };
        assert_eq!(file, "a.rules");
        assert_eq!(problem.location.as_ref().unwrap().to_string(), format!("a.rules:{place}"));
        assert!(problem.message.contains(message), "{error}");
        assert!(error.hint().unwrap().contains(hint), "{error}");
    }
}

#[test]
fn a_risky_rule_needs_force() {
    for (text, fine) in [
        ("prefix_rule(['bash'])", false),
        ("prefix_rule(['bash'], 'prompt')", true),
        ("prefix_rule(['bash'])  # rules: force", true),
        ("# rules: force, because I say so\nprefix_rule(['bash'])", true),
        ("# rules: force\n\nprefix_rule(['bash'])", false),
        ("# rules: force\nprefix_rule(['bash'])\nprefix_rule(['sh'])", false),
        ("x = '# rules: force'\nprefix_rule(['bash'])", false),
        ("# enforce\nprefix_rule([['ls', 'env']])", false),
    ] {
        assert_eq!(parse(text).is_ok(), fine, "{text}");
        let options = LoadOptions { risky: RiskyRules::Accept, ..LoadOptions::default() };
        assert!(RuleSet::parse(&[Source::new("a", text)], &options).is_ok(), "{text}");
    }
}

#[test]
fn the_justification_is_of_the_longest_prefix_that_decided() {
    let set = parse(
        "prefix_rule(['git'], 'prompt', justification='short')\n\
         prefix_rule(['git', 'push'], 'prompt', justification='longer')\n\
         prefix_rule(['git', 'push', '-f'], 'allow', justification='longest, but weaker')\n",
    )
    .unwrap();
    let verdict = set.decide(&["git", "push", "-f"], Resolve::Exact);
    assert_eq!(verdict.decision, Some(Decision::Prompt));
    assert_eq!(verdict.justification(), Some("longer"));
    assert_eq!(verdict.winner().unwrap().location.line, 2);
    let both = set.decide(&["ls"], Resolve::Exact).and(verdict);
    assert_eq!(both.decision, Some(Decision::Prompt));
}

#[test]
fn all_failures_are_reported() {
    let text = "prefix_rule(['a'], match=['b', 'a', 'c d'], not_match=['a x'])\n\
                prefix_rule(['sh'], match=['zsh'])\n";
    let report = set::report(&[Source::new("a", text)], &Places::default()).unwrap();
    let failures: Vec<String> = report.failures.iter().map(ToString::to_string).collect();
    assert_eq!(
        failures,
        [
            "a:1:1: a rule of this call matches, but should not: `a x`",
            "a:1:1: no rule of this call matches `b`",
            "a:1:1: no rule of this call matches `c d`",
            "a:2:1: no rule of this call matches `zsh`",
        ]
    );
    assert_eq!((report.rules, report.examples, report.risks.len()), (2, 5, 1));
}

#[test]
fn every_example_of_the_document_loads() {
    let document = include_str!("../../../docs/rules.md");
    let mut blocks = 0;
    for block in document.split("```python\n").skip(1) {
        let text = block.split("```").next().unwrap();
        parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        assert_eq!(fmt::format("a", text).unwrap(), text, "the document shows the layout");
        blocks += 1;
    }
    assert!(blocks >= 4, "only {blocks} examples");
}

/// A rule as text, from a small vocabulary so that many match.
fn rule() -> impl Strategy<Value = String> {
    let word = || prop::sample::select(vec!["tool", "ls", "a", "b", "-x", "é \\\" #"]);
    let quoted = || word().prop_map(|word| format!("\"{word}\""));
    let token = prop_oneof![
        3 => quoted(),
        1 => prop::collection::vec(quoted(), 1..4).prop_map(|words| format!("[{}]", words.join(","))),
    ];
    let decision = prop::sample::select(vec!["allow", "prompt", "forbidden"]);
    let layout = prop::sample::select(vec!["", " ", "\n    ", "  # why\n  "]);
    (prop::collection::vec(token, 1..4), decision, layout).prop_map(|(tokens, decision, gap)| {
        let pattern = tokens.join(&format!(",{gap}"));
        let end = if gap.contains('#') { "\n" } else { "" };
        format!("prefix_rule([{gap}{pattern}],{gap}decision={gap}\"{decision}\"{end})\n")
    })
}

fn command() -> impl Strategy<Value = Vec<String>> {
    let word = prop::sample::select(vec!["tool", "ls", "a", "b", "-x", "é \" #", "/bin/tool"]);
    prop::collection::vec(word.prop_map(str::to_owned), 0..5)
}

/// Rules compared one by one, as the definition says.
fn naive(set: &RuleSet, command: &[String]) -> Vec<usize> {
    let matches = |rule: &exec_rules::PrefixRule| {
        command.len() >= rule.len()
            && *rule.first == *command[0]
            && rule
                .rest
                .iter()
                .zip(&command[1..])
                .all(|(token, word)| token.words().iter().any(|accepted| **accepted == **word))
    };
    let found = set.rules().iter().enumerate().filter(|(_, rule)| matches(rule));
    found.map(|(position, _)| position).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..Default::default() })]

    #[test]
    fn the_index_finds_what_one_by_one_finds(
        rules in prop::collection::vec(rule(), 1..60),
        commands in prop::collection::vec(command(), 20),
    ) {
        let set = parse(&rules.concat()).unwrap();
        for command in &commands {
            let verdict = set.decide(command, Resolve::Exact);
            let found: Vec<usize> = verdict.matched_rules.iter().map(|exec_rules::Match::Prefix { rule, .. }| {
                set.rules().iter().position(|it| std::ptr::eq(it, *rule)).unwrap()
            }).collect();
            prop_assert_eq!(&found, &naive(&set, command));
            let strictest = found.iter().map(|at| set.rules()[*at].decision).max();
            prop_assert_eq!(verdict.decision, strictest);
        }
    }

    #[test]
    fn more_files_in_any_order_never_weaken(
        files in prop::collection::vec(prop::collection::vec(rule(), 1..6), 1..5),
        commands in prop::collection::vec(command(), 10),
        rotation in 0..5_usize,
    ) {
        let sources: Vec<Source> =
            files.iter().map(|rules| Source::new("a", rules.concat())).collect();
        let options = LoadOptions::default();
        let mut turned = sources.clone();
        turned.rotate_left(rotation % sources.len());
        let all = RuleSet::parse(&sources, &options).unwrap();
        let other = RuleSet::parse(&turned, &options).unwrap();
        for command in &commands {
            let decision = all.decide(command, Resolve::Exact).decision;
            prop_assert_eq!(decision, other.decide(command, Resolve::Exact).decision);
            for source in &sources {
                let alone = RuleSet::parse(std::slice::from_ref(source), &options).unwrap();
                prop_assert!(decision >= alone.decide(command, Resolve::Exact).decision);
            }
        }
    }

    #[test]
    fn the_layout_changes_no_rule(rules in prop::collection::vec(rule(), 1..10)) {
        let text = rules.join("\n\n\n");
        let formatted = fmt::format("a", &text).unwrap();
        prop_assert_eq!(&fmt::format("a", &formatted).unwrap(), &formatted);
        let shown = |text: &str| -> Vec<String> {
            let rules = parse(text).unwrap();
            rules.rules().iter().map(|rule| format!("{rule} {}", rule.decision)).collect()
        };
        prop_assert_eq!(shown(&text), shown(&formatted));
    }
}
