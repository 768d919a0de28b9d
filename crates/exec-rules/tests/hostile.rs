//! Files that would take for ever, or all memory, or all stack: each is an error, soon.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::{Duration, Instant};

use exec_rules::{Error, LoadOptions, RuleSet, Source, limits};

/// Far above what any of them takes, also without optimisation beside other builds; without limits they
/// take for ever.
const SOON: Duration = Duration::from_secs(300);

fn refused(name: &str, text: &str, message: &str) {
    let begin = Instant::now();
    let error = RuleSet::parse(&[Source::new(name, text)], &LoadOptions::default()).unwrap_err();
    assert!(begin.elapsed() < SOON, "{name} took {:?}", begin.elapsed());
    assert!(error.to_string().contains(message), "{name}: {error}");
}

#[test]
fn loops_end() {
    refused(
        "ticks",
        "for i in range(1000):\n  for j in range(1000):\n    for k in range(1000): pass",
        "tick",
    );
    refused(
        "function",
        "def f():\n  for i in range(1000000):\n    pass\n[f() for i in range(100)]",
        "",
    );
    refused("range", "x = list(range(2000000000))", "a range is longer");
    refused("backwards", "x = list(range(2000000000, -2000000000, -1))", "a range is longer");
}

#[test]
fn recursion_ends() {
    refused("direct", "def f(x):\n  return f(x)\nf(1)", "stack overflow");
    refused("mutual", "def f(x):\n  return g(x)\ndef g(x):\n  return f(x)\nf(1)", "stack overflow");
    refused("lambda", "f = lambda g: g(g)\nf(f)", "stack overflow");
}

#[test]
fn memory_is_bounded() {
    refused("doubling", "s = 'abcdefgh'\nfor i in range(60):\n  s = s + s", "bytes");
    refused("doubling lists", "s = [1]\nfor i in range(60):\n  s = s + s", "bytes");
    refused("growing", "x = []\nfor i in range(900000):\n  x.append('x' * 1000 + str(i))", "");
}

#[test]
fn values_nested_without_end_do_not_overflow_the_stack() {
    let nested = "x = []\ny = []\nfor i in range(10000):\n  x = [x]\n  y = [y]\n";
    for use_ in ["z = str(x)", "z = x == y", "prefix_rule(x)", "prefix_rule(['a'], match=x)"] {
        let text = format!("{nested}{use_}\n");
        // Some of them are refused by Starlark, some are merely slow; none may end the process.
        RuleSet::parse(&[Source::new("nested", text)], &LoadOptions::default()).ok();
    }
}

#[test]
fn sources_nested_without_end_do_not_overflow_the_stack() {
    for (open, close) in [("[", "]"), ("(", ")"), ("-", ""), ("not ", ""), ("lambda: ", "")] {
        for depth in [90, 1000, 100_000] {
            let text = format!("x = {}1{}\n", open.repeat(depth), close.repeat(depth));
            let outcome = RuleSet::parse(&[Source::new("deep", text)], &LoadOptions::default());
            assert_eq!(outcome.is_err(), depth > 90, "{open} {depth}: {outcome:?}");
        }
    }
}

#[test]
fn size_is_bounded() {
    refused("large", &"#".repeat(10 << 20), "larger than");
    let rule = format!("prefix_rule([[{}]])\n", "'a',".repeat(1000));
    refused("many", &rule.repeat(limits::RULES_MAX / 1000 + 1), "more than 50000 rules");
    refused("wide", &format!("prefix_rule([{}])", "'a',".repeat(1001)), "more than 1000 elements");
    refused("long", "prefix_rule(['a' * 70000])", "longer than");
    let sources: Vec<Source> = (0..257).map(|n| Source::new(format!("{n}"), "")).collect();
    let outcome = RuleSet::parse(&sources, &LoadOptions::default());
    assert!(matches!(outcome, Err(Error::TooManyFiles)));
}

#[test]
fn a_large_file_is_not_read_to_its_end() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("large.rules");
    // Sparse: reading it all would take a terabyte.
    std::fs::File::create(&path).unwrap().set_len(1 << 40).unwrap();
    let error = RuleSet::load(&[path], &LoadOptions::default()).unwrap_err();
    assert!(error.to_string().contains("larger than"), "{error}");
}
