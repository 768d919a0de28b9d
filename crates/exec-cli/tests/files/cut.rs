//! Copies over a line that breaks, and copies that are killed.

use std::io::Read as _;
use std::process::Stdio;

use crate::support::{Done, FrailLine, Stage, noise};

const MIB: u64 = 1 << 20;
const LARGE: usize = 64 << 20;

async fn output(mut command: std::process::Command) -> Done {
    tokio::task::spawn_blocking(move || Done::of(command.output().unwrap())).await.unwrap()
}

#[tokio::test]
async fn a_download_of_64_mib_survives_two_cuts() {
    let stage = Stage::new();
    let content = noise(LARGE);
    stage.write("big", &content);
    let line = FrailLine::start(stage.url(), vec![20 * MIB, 30 * MIB]).await;
    let args = ["cp", &stage.there("big"), "copy"];
    output(stage.command_by(line.url(), args)).await.well();
    assert_eq!(line.left(), 0, "both cuts happened");
    assert!(std::fs::read(stage.at("copy")).unwrap() == content);
}

#[tokio::test]
async fn an_upload_of_64_mib_survives_two_cuts_and_sends_nothing_twice() {
    let stage = Stage::new();
    let content = noise(LARGE);
    stage.write("big", &content);
    // Base64 makes 85 MiB of it. Had the second connection begun again, it would need all of that
    // and meet the last cut, which is never reached otherwise.
    let line = FrailLine::start(stage.url(), vec![20 * MIB, 30 * MIB, 60 * MIB]).await;
    let args = ["cp", "big", &stage.there("copy")];
    output(stage.command_by(line.url(), args)).await.well();
    assert_eq!(line.left(), 1);
    assert!(std::fs::read(stage.at("copy")).unwrap() == content);
}

#[tokio::test]
async fn a_file_that_changed_during_the_cut_is_an_error() {
    let stage = Stage::new();
    let path = stage.write("big", noise(LARGE / 4));
    let line = FrailLine::start(stage.url(), vec![4 * MIB]).await;
    let mut command = stage.command_by(line.url(), ["cat", path.to_str().unwrap()]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let done = tokio::task::spawn_blocking(move || {
        // While nobody reads further, the client is before the cut: a pipe takes 64 KiB.
        let mut first = [0; 1000];
        stdout.read_exact(&mut first).unwrap();
        std::fs::write(&path, noise(LARGE / 4 + 1)).unwrap();
        let mut rest = Vec::new();
        stdout.read_to_end(&mut rest).unwrap();
        Done::of(child.wait_with_output().unwrap())
    });
    let done = done.await.unwrap();
    assert_eq!(done.code, Some(1), "{done:?}");
    assert!(done.stderr.contains("changed meanwhile"), "{}", done.stderr);
}

#[tokio::test]
async fn a_killed_download_is_resumed() {
    let stage = Stage::new();
    let content = noise(LARGE / 4);
    stage.write("big", &content);
    let args = ["cp", &stage.there("big"), "copy"];
    let mut child = stage.command(args).spawn().unwrap();
    let part = stage.at(".copy.part");
    tokio::task::spawn_blocking(move || {
        while std::fs::metadata(&part).map_or(0, |part| part.len()) < MIB {
            std::thread::yield_now();
        }
        child.kill().unwrap();
        child.wait().unwrap();
    })
    .await
    .unwrap();
    assert!(!stage.at("copy").exists(), "it has its name only when it is complete");
    let left = std::fs::metadata(stage.at(".copy.part")).unwrap().len();
    let args = ["cp", "--resume", "--json", &stage.there("big"), "copy"];
    let report = output(stage.command(args)).await.well().json();
    assert_eq!((&report["bytesResumed"], &report["bytes"]), (&left.into(), &content.len().into()));
    assert!(std::fs::read(stage.at("copy")).unwrap() == content);
    assert!(!stage.at(".copy.part").exists());
    let again = output(stage.command(args)).await.well().json();
    assert_eq!(again["bytesResumed"], content.len(), "nothing is left to do");
}

#[tokio::test]
async fn a_killed_upload_is_resumed_and_one_of_something_else_is_not() {
    let stage = Stage::new();
    let content = noise(LARGE / 4);
    stage.write("big", &content);
    // What a killed one leaves: the beginning.
    let half = content.len() / 2;
    stage.write("copy", &content[..half]);
    let args = ["cp", "--resume", "--json", "big", &stage.there("copy")];
    let report = output(stage.command(args)).await.well().json();
    assert_eq!(report["bytesResumed"], half);
    assert!(std::fs::read(stage.at("copy")).unwrap() == content);
    stage.write("copy", vec![7; half]);
    let report = output(stage.command(args)).await.well().json();
    assert_eq!(report["bytesResumed"], 0, "its last block is another");
    assert!(std::fs::read(stage.at("copy")).unwrap() == content);
    stage.write("copy", noise(LARGE / 4 + 9));
    output(stage.command(args)).await.well();
    assert!(std::fs::read(stage.at("copy")).unwrap() == content, "it was longer");
}
