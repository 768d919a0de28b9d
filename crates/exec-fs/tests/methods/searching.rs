//! `fs/search`.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use exec_fs::{Cancel, Error, search};
use exec_protocol::fs::{SearchParams, SearchResult};

use crate::support::*;

fn params(json: &str) -> SearchParams {
    let text = format!(r#"{{"path":"/",{json}}}"#);
    serde_json::from_str(&text).unwrap()
}

fn run(root: &Path, json: &str) -> Result<SearchResult, Error> {
    search(root, &params(json), &Cancel::new())
}

/// `path:line:column:text` of each match.
fn lines(root: &Path, json: &str) -> Vec<String> {
    let prefix = format!("file://{}/", root.display());
    let result = run(root, json).unwrap();
    assert_eq!(result.errors, []);
    let told = result.matches.iter().map(|it| {
        let path = it.path.as_str().strip_prefix(&prefix).unwrap_or("itself");
        format!("{path}:{}:{}:{}", it.line, it.column, it.text)
    });
    told.collect()
}

fn project() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    for name in ["src", "target", ".hidden", "docs"] {
        fs::create_dir(at(name)).unwrap();
    }
    for (name, text) in [
        ("src/a.rs", "one\nfn needle() {}\nthree\nfour\nNeedle\n"),
        ("src/b.txt", "a.b needle\r\nlast needle"),
        ("target/out.txt", "needle\n"),
        (".hidden/x", "needle\n"),
        ("docs/x.md", "nothing here\n"),
        (".gitignore", "target/\n"),
        ("binary", "needle\n\0\nneedle\n"),
    ] {
        fs::write(at(name), text).unwrap();
    }
    fifo(&at("fifo"));
    symlink("/etc/passwd", at("link")).unwrap();
    dir
}

#[test]
fn text_and_regular_expressions_are_found() {
    let dir = project();
    let root = dir.path();
    let found =
        ["src/a.rs:2:4:fn needle() {}", "src/b.txt:1:5:a.b needle", "src/b.txt:2:6:last needle"];
    assert_eq!(lines(root, r#""pattern":"needle""#), found);
    assert_eq!(lines(root, r#""pattern":"a.b""#), ["src/b.txt:1:1:a.b needle"]);
    assert_eq!(lines(root, r#""pattern":"(needle$","regex":false"#), Vec::<String>::new());
    assert_eq!(
        lines(root, r#""pattern":"^\\w+ needle$","regex":true"#),
        ["src/b.txt:2:1:last needle"]
    );
    let any_case = lines(root, r#""pattern":"NEEDLE","caseSensitive":false"#);
    assert_eq!((any_case.len(), any_case[1].as_str()), (4, "src/a.rs:5:1:Needle"));
    assert_eq!(lines(&root.join("src/b.txt"), r#""pattern":"last""#), ["itself:2:1:last needle"]);
}

#[test]
fn what_is_ignored_hidden_binary_or_no_file_is_left_out() {
    let dir = project();
    let count = |json: &str| lines(dir.path(), &format!(r#""pattern":"needle"{json}"#)).len();
    assert_eq!(count(""), 3);
    assert_eq!(count(r#","noIgnore":true"#), 4);
    assert_eq!(count(r#","includeHidden":true"#), 4);
    assert_eq!(count(r#","globs":["*.rs"]"#), 1);
    assert_eq!(count(r#","globs":["!*.rs"]"#), 2);
    assert_eq!(lines(dir.path(), r#""pattern":"root""#), Vec::<String>::new());
    assert_eq!(run(dir.path(), r#""pattern":"needle""#).unwrap().files_searched, 4);
}

#[test]
fn rules_of_all_levels_hold_in_their_order() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    for name in ["repo/.git/info", "repo/sub/deep", "repo/inner/.git"] {
        fs::create_dir_all(at(name)).unwrap();
    }
    for (name, text) in [
        (".gitignore", "*.top\n"),
        (".ignore", "*.plain\n"),
        ("repo/.gitignore", "*.log\n/sub/only\n!keep.log\n"),
        ("repo/.git/info/exclude", "*.excluded\n"),
        ("repo/sub/.gitignore", "!back.log\n"),
        ("repo/sub/.ignore", "!shown.log\n"),
    ] {
        fs::write(at(name), text).unwrap();
    }
    let files = [
        "repo/a.top",
        "repo/b.plain",
        "repo/c.log",
        "repo/keep.log",
        "repo/d.excluded",
        "repo/inner/e.log",
        "repo/sub/only",
        "repo/sub/deep/only",
        "repo/sub/back.log",
        "repo/sub/other.log",
        "repo/sub/shown.log",
        "repo/text",
    ];
    for name in files {
        fs::write(at(name), "x").unwrap();
    }
    let found = |root: &str| -> Vec<String> {
        let told = lines(&at(root), r#""pattern":"x""#);
        told.iter().map(|line| line.split(':').next().unwrap().to_owned()).collect()
    };
    // `*.top` lies above the repository, and so does `*.log` for the inner one.
    let expected = [
        "a.top",
        "inner/e.log",
        "keep.log",
        "sub/back.log",
        "sub/deep/only",
        "sub/shown.log",
        "text",
    ];
    assert_eq!(found("repo"), expected);
    assert_eq!(found("repo/sub"), ["back.log", "deep/only", "shown.log"]);
    let all = lines(&at("repo"), r#""pattern":"x","noIgnore":true"#);
    assert_eq!(all.len(), files.len());
}

#[test]
fn rules_that_are_no_files_are_passed_over() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    for name in ["a", "b", "c", "d"] {
        fs::create_dir(at(name)).unwrap();
        fs::write(at(name).join("text"), "x").unwrap();
    }
    fifo(&at("a/.gitignore"));
    symlink("/dev/zero", at("b/.gitignore")).unwrap();
    fs::create_dir(at("c/.ignore")).unwrap();
    fs::write(at("d/.gitignore"), "text\n".repeat(300_000)).unwrap();
    assert_eq!(lines(dir.path(), r#""pattern":"x","caseSensitive":true"#).len(), 4);
}

#[test]
fn context_is_given_once() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("f"), "1\n2\n3 x\n4\n5\n6 x\n7 x\n8\n9\n").unwrap();
    let result = run(dir.path(), r#""pattern":"x","contextLines":2"#).unwrap();
    let told: Vec<_> = result
        .matches
        .iter()
        .map(|it| format!("{}|{}|{}", it.before.join(","), it.text, it.after.join(",")))
        .collect();
    assert_eq!(told, ["1,2|3 x|4,5", "|6 x|", "|7 x|8,9"]);
}

#[test]
fn limits_hold_and_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let many: String = (0..2000).map(|n| format!("line {n} x\n")).collect();
    fs::write(dir.path().join("a"), &many).unwrap();
    fs::write(dir.path().join("b"), &many).unwrap();
    let count = |json: &str| {
        let result = run(dir.path(), &format!(r#""pattern":"x"{json}"#)).unwrap();
        (result.matches.len(), result.truncated)
    };
    assert_eq!(count(""), (1000, true));
    assert_eq!(count(r#","maxMatches":10000"#), (4000, false));
    assert_eq!(count(r#","maxMatches":4000"#), (4000, false));
    assert_eq!(count(r#","maxMatches":2000"#), (2000, true));
    let (some, truncated) = count(r#","maxMatches":10000,"maxBytes":10000"#);
    assert!(some > 10 && some < 100 && truncated, "{some}");
    fs::write(dir.path().join("c"), "é".repeat(100_000) + "unique").unwrap();
    let long = run(dir.path(), r#""pattern":"unique""#).unwrap();
    assert_eq!((long.matches[0].text.len(), long.matches[0].column), (4096, 200_001));
    // A line that does not fit the memory is an error, and the rest is searched.
    fs::write(dir.path().join("d"), "u".repeat(9 << 20)).unwrap();
    let large = run(dir.path(), r#""pattern":"unique""#).unwrap();
    assert_eq!((large.matches.len(), large.errors.len()), (1, 1));
}

#[test]
fn a_search_that_makes_no_sense_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let check = |json: &str, expected: &str| {
        let got = outcome(run(dir.path(), json));
        assert!(got.starts_with(&format!("-32600 invalid search: {expected}")), "{json}: {got}");
    };
    check(r#""pattern":"""#, "pattern is empty");
    check(r#""pattern":"(","regex":true"#, "regex parse error");
    check(r#""pattern":"x","globs":["[z-a]"]"#, "");
    check(r#""pattern":"x","contextLines":21"#, "contextLines exceeds 20");
    check(r#""pattern":"x","maxMatches":0"#, "maxMatches must be");
    check(r#""pattern":"x","maxMatches":10001"#, "maxMatches must be");
    check(r#""pattern":"x","maxBytes":0"#, "maxBytes must be");
    check(&format!(r#""pattern":"{}""#, "x".repeat(4097)), "pattern exceeds 4096 bytes");
    check(r#""pattern":"(a{1000}){1000}","regex":true"#, "");
    assert_eq!(outcome(run(&dir.path().join("none"), r#""pattern":"x""#)), MISSING);
    let cancel = Cancel::new();
    cancel.cancel();
    fs::write(dir.path().join("f"), "x").unwrap();
    let cancelled = search(dir.path(), &params(r#""pattern":"x""#), &cancel);
    assert_eq!(outcome(cancelled), "-32603 cancelled");
}
