//! `ls`, `cat`, `search`, `rm` and `mkdir`.

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::symlink;
use std::process::Stdio;

use crate::support::{Stage, noise};

#[test]
fn ls_shows_a_table_or_json() {
    let stage = Stage::new();
    stage.write("d/file", "12345");
    stage.write("d/.hidden", "");
    stage.write("d/esc\u{1b}[2J", "");
    fs::create_dir(stage.at("d/sub")).unwrap();
    symlink("file", stage.at("d/link")).unwrap();
    let d = stage.at("d");
    let d = d.to_str().unwrap();
    let plain = stage.run(["ls", d]).well();
    assert_eq!(plain.text(), "esc?[2J\nfile\nlink\nsub/\n");
    let all = stage.run(["ls", "-a", "-l", d]).well();
    let shape: Vec<String> = all
        .text()
        .lines()
        .map(|line| line.chars().map(|one| if one.is_ascii_digit() { '9' } else { one }).collect())
        .collect();
    let expected = [
        "- 9  9999-99-99 99:99  .hidden",
        "- 9  9999-99-99 99:99  esc?[9J",
        "- 9  9999-99-99 99:99  file",
        "l 9  9999-99-99 99:99  link",
        "d -  9999-99-99 99:99  sub/",
    ];
    assert_eq!(shape, expected);
    let json = stage.run(["ls", "--json", d]).well().json();
    assert_eq!((&json[1]["name"], &json[1]["metadata"]["size"]), (&"file".into(), &5.into()));
    assert_eq!(json[3]["kind"], "directory");
    let both = stage.run(["ls", d, "/none"]);
    assert_eq!(both.code, Some(1));
    let hint = "Error: cannot list /none: No such file or directory (check the path; ls shows what is there)\n";
    assert_eq!(both.stderr, hint);
    assert!(both.text().starts_with(&format!("{d}:\nesc")));
}

#[test]
fn cat_gives_ranges_and_ends_quietly_when_nobody_reads() {
    let stage = Stage::new();
    let content = noise(4 << 20);
    let path = stage.write("f", &content);
    let path = path.to_str().unwrap();
    let check = |args: &[&str], expected: &[u8]| {
        let mut all = vec!["cat", path];
        all.extend(args);
        assert!(stage.run(&all).well().stdout == expected, "{args:?}");
    };
    check(&["--offset", "1000", "--length", "5"], &content[1000..1005]);
    check(&["--offset", "4194300"], &content[4_194_300..]);
    check(&["--offset", "9999999"], b"");
    check(&["--length", "0"], b"");
    check(&["--offset", "262140", "--length", "600000"], &content[262_140..862_140]);

    let mut command = stage.command(["cat", path]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_exact(&mut [0; 10]).unwrap();
    drop(stdout);
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), &output.stderr[..]), (Some(141), &b""[..]));

    let proc = stage.run(["cat", "/proc/self/status"]).well();
    assert!(proc.text().starts_with("Name:"), "a file that says it is empty");
    let some = stage.run(["cat", "/none", path, "/"]);
    assert_eq!((some.code, some.stderr.lines().count()), (Some(1), 2));
    assert!(some.stdout == content);
}

#[test]
fn search_prints_as_grep_does() {
    let stage = Stage::new();
    stage.write("d/a.txt", "one\ntwo\nthree\nfour\nfive\nsix\nTWO a.b\n");
    stage.write("d/b.rs", "two\n");
    let check = |args: &[&str], code, expected: &str| {
        let mut all = vec!["search"];
        all.extend(args);
        let done = stage.run(all);
        assert_eq!((done.code, done.text()), (Some(code), expected), "{args:?} {}", done.stderr);
    };
    let d = stage.at("d").display().to_string();
    check(&["tw.", &d, "-g", "*.txt"], 0, &format!("{d}/a.txt:2:two\n"));
    check(&["two", &d], 0, &format!("{d}/a.txt:2:two\n{d}/b.rs:1:two\n"));
    check(&["-i", "TWO", &d, "-g", "!*.rs"], 0, &format!("{d}/a.txt:2:two\n{d}/a.txt:7:TWO a.b\n"));
    check(&["-F", "a.b", &d], 0, &format!("{d}/a.txt:7:TWO a.b\n"));
    check(&["-F", "a.c", &d], 1, "");
    check(&["zero", &d], 1, "");
    check(&["(", &d], 2, "");
    check(&["x", "/none"], 2, "");
    check(
        &["-C", "1", "-i", "two", &d, "-g", "*.txt"],
        0,
        &format!(
            "{d}/a.txt-1-one\n{d}/a.txt:2:two\n{d}/a.txt-3-three\n--\n{d}/a.txt-6-six\n{d}/a.txt:7:TWO a.b\n"
        ),
    );
    let json = stage.run(["search", "--json", "two", &d]).well().json();
    assert_eq!((json["matches"].as_array().unwrap().len(), &json["truncated"]), (2, &false.into()));
}

#[test]
fn rm_and_mkdir_are_careful() {
    let stage = Stage::new();
    let check = |args: &[&str], expected: &str| {
        let done = stage.run(args);
        let status = i32::from(!expected.is_empty());
        assert_eq!((done.code, done.stderr.as_str()), (Some(status), expected), "{args:?}");
    };
    let d = stage.at("d/e").display().to_string();
    let hint = "(check the path; ls shows what is there)";
    check(&["mkdir", &d], &format!("Error: cannot make {d}: No such file or directory {hint}\n"));
    check(&["mkdir", "-p", &d], "");
    check(&["mkdir", "-p", &d], "");
    check(
        &["mkdir", &d],
        &format!("Error: cannot make {d}: File exists (mkdir -p does not mind)\n"),
    );
    let is = "it is a directory (-r removes it with all it holds)";
    check(&["rm", &d], &format!("Error: cannot remove {d}: {is}\n"));
    assert!(stage.at("d/e").is_dir());
    stage.write("keep/file", "");
    symlink(stage.at("keep"), stage.at("d/link")).unwrap();
    symlink("nowhere", stage.at("d/broken")).unwrap();
    check(
        &["rm", stage.at("d/link").to_str().unwrap(), stage.at("d/broken").to_str().unwrap()],
        "",
    );
    assert!(stage.at("keep/file").exists() && fs::read_dir(stage.at("d")).unwrap().count() == 1);
    check(&["rm", "-r", &stage.at("d").display().to_string()], "");
    check(&["rm", &d], &format!("Error: cannot remove {d}: No such file or directory {hint}\n"));
    check(&["rm", "-f", &d], "");
    check(&["rm", "-r", "-f", "/"], "Error: cannot remove /: it is the root\n");
}
