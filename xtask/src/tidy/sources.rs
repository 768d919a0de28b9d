//! Rules about one file, given its path and its text.

use super::Finding;

/// A file longer than this has to be split.
const LINES_MAX: usize = 600;
/// A file longer than this should be looked at for a second idea.
const LINES_WARN: usize = 400;

/// The files that say what is forbidden, and so say the forbidden words.
const RULES: &str = "xtask/src/tidy/";

/// Never in a source file, with the reason.
const FORBIDDEN: &[(&str, &str)] = &[
    ("todo!", "what is not implemented is not in the code"),
    ("unimplemented!", "what is not implemented is not in the code"),
    ("dbg!", "left over from debugging"),
    ("FIXME", "fix it, or open an issue"),
    ("unbounded_channel", "every queue has a bound"),
];

/// Files that never ask for the time: it is an argument.
const PURE: &[&str] = &[
    "crates/exec-protocol/",
    "crates/exec-relay/src/executor",
    "crates/exec-relay/src/harness.rs",
    "crates/exec-relay/src/recv_window.rs",
    "crates/exec-relay/src/reliable.rs",
    "crates/exec-relay/src/send_window.rs",
    "crates/exec-relay/src/stream.rs",
    "crates/exec-process/src/log.rs",
    "crates/exec-process/src/head_tail.rs",
    "crates/exec-process/src/env.rs",
    "crates/exec-process/src/spec.rs",
    "crates/exec-process/src/stdin.rs",
];
const CLOCKS: &[&str] = &["Instant::now", "SystemTime::now"];

/// Directories of somebody's machine. In two parts, or this file would mention them.
const MACHINE_PATHS: &[&str] =
    &[concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/ho", "me/"), concat!("/Us", "ers/")];
/// The one home that may be named: what `HOME` is for a server that runs as root.
const ROOT_URI: &str = "file:///root";

/// Everything that is wrong with one file.
pub(super) fn check(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    machine_paths(path, text, &mut findings);
    if !path.ends_with(".rs") {
        return findings;
    }
    if !text.starts_with("//!") {
        findings.push(Finding::error(path, Some(1), "a file begins with its module doc, `//!`"));
    }
    let lines = text.lines().count();
    if lines > LINES_MAX {
        let message = format!("{lines} lines; more than {LINES_MAX} are too many");
        findings.push(Finding::error(path, None, message));
    } else if lines > LINES_WARN {
        let message = format!("{lines} lines; is there a second idea in it?");
        findings.push(Finding::warning(path, message));
    }
    if !path.starts_with(RULES) {
        words(path, text, &mut findings);
    }
    findings
}

fn machine_paths(path: &str, text: &str, findings: &mut Vec<Finding>) {
    for (line, number) in text.lines().zip(1..) {
        let line = line.replace(ROOT_URI, "");
        // After a letter or a slash it is the middle of another path, or of a URI.
        let named = |machine: &&&str| {
            line.match_indices(**machine).any(|(at, _)| {
                let before = line[..at].chars().next_back();
                before.is_none_or(|before| !before.is_alphanumeric() && !"/_-.".contains(before))
            })
        };
        if let Some(machine) = MACHINE_PATHS.iter().find(named) {
            let message = format!("{machine} exists on one machine only");
            findings.push(Finding::error(path, Some(number), message));
        }
    }
}

fn words(path: &str, text: &str, findings: &mut Vec<Finding>) {
    let pure = PURE.iter().any(|pure| path.starts_with(pure));
    for (line, number) in text.lines().zip(1..) {
        let mut error = |message: String| {
            findings.push(Finding::error(path, Some(number), message));
        };
        for (word, reason) in FORBIDDEN.iter().filter(|(word, _)| has_word(line, word)) {
            error(format!("`{word}`: {reason}"));
        }
        if line.contains("#[ignore") && !line.contains("#[ignore = \"") {
            error("an ignored test says why: `#[ignore = \"…\"]`".to_owned());
        }
        if pure && let Some(clock) = CLOCKS.iter().find(|clock| line.contains(**clock)) {
            error(format!("`{clock}`: this file is pure, time is an argument"));
        }
        if line.contains("\"SKIPPED") && !skips_may_be_printed(path) {
            error("skips go through `exec_testkit::skip`, or CI does not list them".to_owned());
        }
    }
}

fn skips_may_be_printed(path: &str) -> bool {
    path.starts_with("crates/exec-testkit/src/") || path.starts_with("xtask/")
}

/// Whether the word stands there, and not as the end of a longer one.
fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        before.is_none_or(|before| !before.is_alphanumeric() && before != '_')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is said of a file with this line in it.
    fn check_line(path: &str, line: &str, expected: &[&str]) {
        let text = format!("//! Doc.\n{line}\n");
        let found = check(path, &text);
        assert!(found.iter().all(|finding| finding.line == Some(2)), "{found:?}");
        let found: Vec<&str> = found.iter().map(|finding| finding.message.as_str()).collect();
        assert_eq!(found.len(), expected.len(), "{line}: {found:?}");
        for (found, expected) in found.iter().zip(expected) {
            assert!(found.contains(expected), "{line}: {found}");
        }
    }

    #[test]
    fn forbidden_words_are_found_with_their_line() {
        let path = "crates/x/src/a.rs";
        check_line(path, "    todo!()", &["`todo!`"]);
        check_line(path, "std::unimplemented!(\"x\")", &["`unimplemented!`"]);
        check_line(path, "dbg!(x); // FIXME", &["`dbg!`", "FIXME"]);
        check_line(path, "mpsc::unbounded_channel()", &["bound"]);
        check_line(path, "let x = my_todo!();", &[]);
        check_line("xtask/src/tidy/sources.rs", "    todo!()", &[]);
        check_line("docs/notes.md", "todo!", &[]);
    }

    #[test]
    fn an_ignored_test_says_why() {
        check_line("crates/x/tests/a.rs", "#[ignore]", &["says why"]);
        check_line("crates/x/tests/a.rs", "#[ignore = \"needs root\"]", &[]);
    }

    #[test]
    fn pure_files_do_not_ask_for_the_time() {
        let line = "let now = Instant::now();";
        check_line("crates/exec-protocol/src/any.rs", line, &["pure"]);
        check_line("crates/exec-process/src/log.rs", "SystemTime::now()", &["pure"]);
        check_line("crates/exec-process/src/actor.rs", line, &[]);
    }

    #[test]
    fn machine_paths_are_found_in_any_text() {
        for name in ["work", "root", "home"] {
            let line = format!("see `/{name}/x`");
            check_line("docs/a.md", &line, &["one machine"]);
            check_line("crates/x/src/a.rs", &line, &["one machine"]);
            check_line("docs/a.md", &format!("/srv/{name}/x, b/{name}/"), &[]);
        }
        check_line("vectors/a.txt", r#""userHomeDir":"file:///root/x""#, &[]);
        check_line("vectors/a.txt", "/rooted/x", &[]);
    }

    #[test]
    fn skips_are_printed_in_one_place() {
        let line = "println!(\"SKIPPED: no cgroups\");";
        check_line("crates/x/tests/a.rs", line, &["exec_testkit::skip"]);
        check_line("crates/exec-testkit/src/skip.rs", line, &[]);
    }

    #[test]
    fn long_files_are_noticed_and_longer_ones_refused() {
        let messages = |lines: usize| -> Vec<String> {
            let text = format!("//! Doc.{}", "\n// x".repeat(lines - 1));
            check("a.rs", &text).iter().map(ToString::to_string).collect()
        };
        assert_eq!(messages(400), [""; 0]);
        assert_eq!(messages(401), ["warning: a.rs: 401 lines; is there a second idea in it?"]);
        assert_eq!(messages(601), ["error: a.rs: 601 lines; more than 600 are too many"]);
    }

    #[test]
    fn a_source_file_begins_with_its_doc() {
        let found = check("a.rs", "use std::fs;\n");
        assert_eq!(found.len(), 1);
        assert!(found[0].to_string().starts_with("error: a.rs:1: a file begins with"));
        assert_eq!(check("a.md", "# Title\n"), []);
    }
}
