//! `exec-server rules`, for people: what it prints and returns.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn rules(directory: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_exec-server"));
    command.current_dir(directory).arg("rules").args(args).env("RUST_BACKTRACE", "0");
    command.output().unwrap()
}

fn check(directory: &Path, args: &[&str], status: i32, expected: &str) {
    let output = rules(directory, args);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{args:?}: {error}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected, "{args:?}");
}

const RULES: &str = r#"prefix_rule(["git"], decision="prompt", justification="look first")
prefix_rule(["git", ["status", "log"]])
prefix_rule(["git", "push", "--force"], decision="forbidden", justification="never")
host_executable("git", ["/usr/bin/git"])
"#;

#[test]
fn explain_names_the_rule_that_decides() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    fs::write(here.join("a.rules"), RULES).unwrap();
    let explain = |command: &[&str], expected: &str| {
        check(here, &[&["explain", "--rules", "a.rules"], command].concat(), 0, expected);
    };
    explain(
        &["git", "status"],
        "git status: prompt\n  decided by a.rules:1:1 [\"git\"]\n  because: look first\n  \
         also matched (less strict): a.rules:2:1 allow [\"git\", [\"status\", \"log\"]]\n",
    );
    explain(
        &["/usr/bin/git", "push", "--force"],
        "/usr/bin/git push --force: forbidden\n  \
         decided by a.rules:3:1 [\"git\", \"push\", \"--force\"]\n  because: never\n  \
         also matched (less strict): a.rules:1:1 prompt [\"git\"]\n  \
         /usr/bin/git counts as git\n",
    );
    explain(&["ls", "a b"], "ls 'a b': no rule matches\n");
    explain(
        &["/opt/git"],
        "/opt/git: no rule matches\n  git counts only at: [/usr/bin/git]\n  \
         does not match: a.rules:1:1 prompt [\"git\"]\n  \
         does not match: a.rules:2:1 allow [\"git\", [\"status\", \"log\"]]\n  \
         does not match: a.rules:3:1 forbidden [\"git\", \"push\", \"--force\"]\n",
    );
}

#[test]
fn test_reports_every_failure() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    fs::write(here.join("good.rules"), RULES).unwrap();
    fs::write(here.join("risky.rules"), "prefix_rule([\"sh\"])\n").unwrap();
    fs::write(
        here.join("bad.rules"),
        "prefix_rule([\"a\"], match=[\"b\", \"c\"], not_match=[\"a\"])\n",
    )
    .unwrap();
    let summary = |rules, examples, failed, risky| {
        format!(
            "{rules} rules, {examples} examples: {failed} do not hold, \
             {risky} rules would let anything run\n"
        )
    };
    check(here, &["test", "good.rules"], 0, &summary(3, 0, 0, 0));
    let risk = "risky.rules:1:1: allowing [\"sh\"]: sh runs any script\n";
    check(here, &["test", "risky.rules"], 1, &format!("{risk}{}", summary(1, 0, 0, 1)));
    check(here, &["test", "--force", "risky.rules"], 0, &summary(1, 0, 0, 0));
    let failures = "bad.rules:1:1: a rule of this call matches, but should not: `a`\n\
                    bad.rules:1:1: no rule of this call matches `b`\n\
                    bad.rules:1:1: no rule of this call matches `c`\n";
    check(here, &["test", "bad.rules"], 1, &format!("{failures}{}", summary(1, 3, 3, 0)));
}

#[test]
fn fmt_changes_a_file_once_and_check_changes_none() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    let file = here.join("a.rules");
    let untidy = "# mine\nprefix_rule( [\"ls\" ] ,)   # why\n";
    fs::write(&file, untidy).unwrap();
    check(here, &["fmt", "--check", "a.rules"], 1, "a.rules\n");
    assert_eq!(fs::read_to_string(&file).unwrap(), untidy);
    check(here, &["fmt", "a.rules"], 0, "");
    let tidy = "# mine\nprefix_rule([\"ls\"])  # why\n";
    assert_eq!(fs::read_to_string(&file).unwrap(), tidy);
    check(here, &["fmt", "--check", "a.rules"], 0, "");
    fs::write(&file, "prefix_rule([\"ls\")\n").unwrap();
    let output = rules(here, &["fmt", "a.rules"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("a.rules:1:1: brackets do not match"));
    assert_eq!(fs::read_dir(here).unwrap().count(), 1, "nothing is left behind");
}

#[test]
fn check_adds_a_place_and_a_hint() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("a.rules"), "\nprefix_rule([\"a\"], match=[\"b\"])\n").unwrap();
    let output = rules(directory.path(), &["check", "-r", "a.rules", "a"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty());
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(
        error.starts_with("Error: failed to parse policy at a.rules\n\nCaused by:\n"),
        "{error}"
    );
    assert!(
        error.ends_with(
            "at a.rules:2:1\nhint: words are compared exactly, one by one, from the program on\n"
        ),
        "{error}"
    );
}
