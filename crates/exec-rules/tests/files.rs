//! Rules in real files: reading, amending, following.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::Path;

use exec_rules::amend::{Amended, append_network_rule, append_prefix_rule};
use exec_rules::network::{Access, Protocol};
use exec_rules::set::files_in;
use exec_rules::watch::{Place, Refreshed, Watched};
use exec_rules::{Decision, Error, LoadOptions, Resolve, RiskyRules, RuleSet};

fn load(path: &Path) -> RuleSet {
    RuleSet::load(&[path], &LoadOptions::default()).unwrap()
}

#[test]
fn an_amendment_is_one_line_and_comes_once() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("rules/default.rules");
    let append = |words: &[&str]| {
        append_prefix_rule(&path, words, Decision::Allow, RiskyRules::Refuse).unwrap()
    };
    assert_eq!(append(&["git", "pull"]), Amended::Added);
    assert_eq!(append(&["git", "pull"]), Amended::Present);
    assert_eq!(append(&["touch", "a \"b\"\n\u{8}é"]), Amended::Added);
    assert_eq!(
        fs::read_to_string(&path).unwrap(),
        "prefix_rule(pattern=[\"git\", \"pull\"], decision=\"allow\")\n\
         prefix_rule(pattern=[\"touch\", \"a \\\"b\\\"\\n\\u0008é\"], decision=\"allow\")\n"
    );
    let command = ["touch", "a \"b\"\n\u{8}é", "more"];
    assert_eq!(load(&path).decide(&command, Resolve::Exact).decision, Some(Decision::Allow));
}

#[test]
fn a_missing_line_end_is_added_first() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.rules");
    fs::write(&path, "# mine").unwrap();
    append_network_rule(&path, "A.com:443", Protocol::Https, Access::Allow, Some("asked")).unwrap();
    assert_eq!(
        fs::read_to_string(&path).unwrap(),
        "# mine\nnetwork_rule(host=\"a.com\", protocol=\"https\", decision=\"allow\", \
         justification=\"asked\")\n"
    );
    assert_eq!(load(&path).host_lists().allowed, ["a.com"]);
}

#[test]
fn what_would_let_anything_run_is_not_added() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.rules");
    let append = |risky| append_prefix_rule(&path, &["bash", "-c"], Decision::Allow, risky);
    assert!(matches!(append(RiskyRules::Refuse), Err(Error::Refused(_))));
    assert!(!path.exists());
    assert_eq!(append(RiskyRules::Accept).unwrap(), Amended::Added);
    let nothing: [&str; 0] = [];
    let empty = append_prefix_rule(&path, &nothing, Decision::Allow, RiskyRules::Refuse);
    assert!(empty.unwrap_err().to_string().contains("pattern cannot be empty"));
}

#[test]
fn amendments_at_once_all_arrive_whole() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.rules");
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let path = &path;
            scope.spawn(move || {
                for number in 0..10 {
                    // Half of them are the same for all threads.
                    let word = if number % 2 == 0 {
                        format!("{number}")
                    } else {
                        format!("{thread}-{number}")
                    };
                    let words = ["tool", &word];
                    append_prefix_rule(path, &words, Decision::Prompt, RiskyRules::Refuse).unwrap();
                }
            });
        }
    });
    assert_eq!(load(&path).rules().len(), 5 + 4 * 5);
}

#[test]
fn a_broken_file_keeps_the_last_good_set() {
    let directory = tempfile::tempdir().unwrap();
    let rules = directory.path().join("rules");
    let places = vec![Place::Directory(rules.clone())];
    let mut watched = Watched::new(places, LoadOptions::default()).unwrap();
    assert!(watched.set().rules().is_empty(), "a directory that is not there has no rules");
    fs::create_dir(&rules).unwrap();
    assert!(matches!(watched.refresh(), Refreshed::Same));

    fs::write(rules.join("a.rules"), "prefix_rule(['ls'])\n").unwrap();
    assert!(matches!(watched.refresh(), Refreshed::Reloaded));
    assert!(matches!(watched.refresh(), Refreshed::Same));
    let before = watched.set().clone();

    fs::write(rules.join("b.rules"), "prefix_rule(['ls'], 'never')\n").unwrap();
    let Refreshed::Kept(error) = watched.refresh() else { panic!("it is broken") };
    assert!(error.to_string().contains("invalid decision: never"), "{error}");
    assert!(std::sync::Arc::ptr_eq(&before, watched.set()));
    assert!(matches!(watched.refresh(), Refreshed::Same), "told once");

    fs::write(rules.join("b.rules"), "prefix_rule(['ls'], 'prompt')\n").unwrap();
    assert!(matches!(watched.refresh(), Refreshed::Reloaded));
    let decision = watched.set().decide(&["ls"], Resolve::Exact).decision;
    assert_eq!(decision, Some(Decision::Prompt));
    fs::remove_file(rules.join("b.rules")).unwrap();
    assert!(matches!(watched.refresh(), Refreshed::Reloaded));
    assert_eq!(watched.set().rules().len(), 1);
}

#[test]
fn only_rules_files_are_read_in_the_order_of_their_names() {
    let directory = tempfile::tempdir().unwrap();
    for name in ["b.rules", "B.rules", "a.rules", "a.txt", "10.rules", "9.rules", "x.rules~"] {
        fs::write(directory.path().join(name), "").unwrap();
    }
    fs::create_dir(directory.path().join("c.rules")).unwrap();
    let found = files_in(directory.path()).unwrap();
    let names: Vec<_> =
        found.iter().map(|path| path.file_name().unwrap().to_str().unwrap()).collect();
    assert_eq!(names, ["10.rules", "9.rules", "B.rules", "a.rules", "b.rules"]);
}
