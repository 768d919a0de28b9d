//! `watch`.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStdout, Stdio};

use exec_testkit::tap::WireTap;

use crate::support::Stage;

struct Watching {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Watching {
    fn start(stage: &Stage, args: &[&str]) -> Self {
        Self::start_by(stage, stage.url(), args)
    }

    fn start_by(stage: &Stage, url: &str, args: &[&str]) -> Self {
        let mut command = stage.command_by(url, args);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // It says when it is ready.
        let mut ready = String::new();
        BufReader::new(child.stderr.as_mut().unwrap()).read_line(&mut ready).unwrap();
        assert!(ready.starts_with("exec-server: watching "), "{ready}");
        let lines = BufReader::new(child.stdout.take().unwrap());
        Self { child, lines }
    }

    /// Reads lines until each of these was there.
    fn expect(&mut self, expected: &[String]) {
        let mut missing: Vec<&String> = expected.iter().collect();
        while !missing.is_empty() {
            let mut line = String::new();
            assert!(self.lines.read_line(&mut line).unwrap() > 0, "ended before {missing:?}");
            missing.retain(|one| **one != line.trim_end());
        }
    }

    fn interrupt(mut self) -> Option<i32> {
        let pid = libc::pid_t::try_from(self.child.id()).unwrap();
        // SAFETY: a signal to a child that was not waited for yet.
        unsafe { libc::kill(pid, libc::SIGINT) };
        self.child.wait().unwrap().code()
    }
}

#[test]
fn changes_are_lines_until_interrupted() {
    let stage = Stage::new();
    fs::create_dir_all(stage.at("d/sub")).unwrap();
    let path = |name: &str| stage.at(name).display().to_string();
    let mut watching = Watching::start(&stage, &["watch", "-r", &path("d")]);
    stage.write("d/new", "x");
    watching.expect(&[format!("created   {}", path("d/new"))]);
    fs::rename(stage.at("d/new"), stage.at("d/sub/moved")).unwrap();
    watching.expect(&[
        format!("renamed   {}", path("d/new")),
        format!("renamed   {}", path("d/sub/moved")),
    ]);
    fs::remove_file(stage.at("d/sub/moved")).unwrap();
    watching.expect(&[format!("removed   {}", path("d/sub/moved"))]);
    assert_eq!(watching.interrupt(), Some(130));
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_cut_it_says_rescan_and_goes_on() {
    let stage = Stage::new();
    let tap = WireTap::start(stage.url()).await.unwrap();
    fs::create_dir(stage.at("d")).unwrap();
    let d = stage.at("d").display().to_string();
    let mut watching = Watching::start_by(&stage, tap.url(), &["watch", &d]);
    tap.cut();
    stage.write("d/unseen", "x");
    tap.restore();
    watching.expect(&["rescan    changes were lost: look at everything again".to_owned()]);
    stage.write("d/seen", "x");
    watching.expect(&[format!("created   {d}/seen")]);
    assert_eq!(watching.interrupt(), Some(130));
}

#[test]
fn json_lines_can_be_read() {
    let stage = Stage::new();
    fs::create_dir(stage.at("d")).unwrap();
    let mut watching =
        Watching::start(&stage, &["watch", "--json", stage.at("d").to_str().unwrap()]);
    stage.write("d/f", "x");
    let mut line = String::new();
    watching.lines.read_line(&mut line).unwrap();
    let event: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(event["path"], stage.at("d/f").to_str().unwrap());
    assert_eq!(event["kind"], "created");
    assert_eq!(watching.interrupt(), Some(130));
}

#[test]
fn what_cannot_be_watched_is_said() {
    let stage = Stage::new();
    let done = stage.run(["watch", "/none"]);
    assert_eq!(done.code, Some(1));
    assert!(done.stderr.starts_with("Error: cannot watch /none: "), "{}", done.stderr);
}
