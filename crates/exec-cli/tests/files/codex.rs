//! The same commands on codex's own executor.

use std::fs;
use std::process::Command;

use exec_testkit::codex::{CodexHome, codex_binary};
use exec_testkit::server::ServerUnderTest;

use crate::support::{Done, FrailLine, Stage, noise};

struct Codex {
    server: ServerUnderTest,
    _home: CodexHome,
}

fn codex() -> Option<Codex> {
    let binary = match codex_binary() {
        Ok(binary) => binary,
        Err(skip) => {
            exec_testkit::skip(skip.0);
            return None;
        }
    };
    let home = CodexHome::new().unwrap();
    let mut command = home.exec_server(&binary);
    command.args(["--listen", "ws://127.0.0.1:0"]);
    Some(Codex { server: ServerUnderTest::start(command).unwrap(), _home: home })
}

fn done(mut command: Command) -> Done {
    Done::of(command.output().unwrap())
}

#[test]
fn ls_cat_and_cp_both_ways() {
    let Some(codex) = codex() else { return };
    let stage = Stage::new();
    let url = codex.server.url();
    let content = noise(3 << 20);
    stage.write("tree/big", &content);
    stage.write("tree/sub/small", "small");
    let run = |args: &[&str]| done(stage.command_by(url, args));
    run(&["cp", "-r", "tree", &stage.there("up")]).well();
    assert!(fs::read(stage.at("up/big")).unwrap() == content);
    run(&["cp", "-r", &stage.there("up"), "down"]).well();
    assert!(fs::read(stage.at("down/big")).unwrap() == content);
    assert_eq!(fs::read(stage.at("down/sub/small")).unwrap(), b"small");
    let up = stage.at("up").display().to_string();
    assert_eq!(run(&["ls", &up]).well().text(), "big\nsub/\n");
    assert!(run(&["cat", &format!("{up}/big")]).well().stdout == content);
    let search = run(&["search", "x", &up]);
    assert_eq!(search.code, Some(2));
    let expected =
        "server does not support fs/search (the executor there is another program, or older)";
    assert!(search.stderr.contains(expected), "{}", search.stderr);
    run(&["rm", "-r", &up]).well();
    assert!(!stage.at("up").exists());
}

#[tokio::test]
async fn cuts_are_delays_there_too() {
    let Some(codex) = codex() else { return };
    let stage = Stage::new();
    let content = noise(12 << 20);
    stage.write("big", &content);
    for (from, to) in
        [("big".to_owned(), stage.there("up")), (stage.there("up"), "down".to_owned())]
    {
        let line = FrailLine::start(codex.server.url(), vec![5 << 20]).await;
        let command = stage.command_by(line.url(), ["cp", &from, &to]);
        tokio::task::spawn_blocking(move || done(command)).await.unwrap().well();
        assert_eq!(line.left(), 0, "{from}");
    }
    assert!(fs::read(stage.at("up")).unwrap() == content, "begun again");
    assert!(fs::read(stage.at("down")).unwrap() == content, "continued");
}
