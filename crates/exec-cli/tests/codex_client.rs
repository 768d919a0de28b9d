//! The real codex client on our executor: a scripted model makes it run commands, type into a
//! terminal, lose its connection, and crash.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::Result;
use exec_testkit::codex::codex_binary;
use exec_testkit::scenarios::{self, Listen, Scene};

/// Our binary, told to listen; its sessions outlive their connections by `detached` seconds.
fn ours(listen: Listen<'_>, detached: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_exec-server"));
    let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join("no-configuration");
    command.env("EXEC_SERVER_HOME", home).args(["--detached-session-seconds", detached]);
    match listen {
        Listen::WebSocket => command.args(["--listen", "ws://127.0.0.1:0"]),
        Listen::WebSocketWithToken(file) => command
            .args(["--listen", "ws://127.0.0.1:0", "--ws-auth", "capability-token"])
            .arg("--ws-token-file")
            .arg(file),
        Listen::Stdio => command.args(["--listen", "stdio"]),
    };
    command
}

async fn play(detached: &str, scenario: impl AsyncFnOnce(&Scene<'_>) -> Result<()>) -> Result<()> {
    let codex = match codex_binary() {
        Ok(codex) => codex,
        Err(skip) => {
            exec_testkit::skip(skip.0);
            return Ok(());
        }
    };
    let executor = |listen: Listen<'_>| ours(listen, detached);
    scenario(&Scene { codex: &codex, executor: &executor }).await
}

#[tokio::test]
async fn a_command_runs_on_the_executor() -> Result<()> {
    play("30", scenarios::a_command_runs_on_the_executor).await
}

#[tokio::test]
async fn a_terminal_session_takes_input() -> Result<()> {
    play("30", scenarios::a_terminal_session_takes_input).await
}

#[tokio::test]
async fn a_cut_connection_loses_nothing() -> Result<()> {
    play("30", scenarios::a_cut_connection_loses_nothing).await
}

#[tokio::test]
async fn a_patch_is_applied_by_the_executor() -> Result<()> {
    play("30", scenarios::a_patch_is_applied_by_the_executor).await
}

#[tokio::test]
async fn a_project_is_read_through_the_executor() -> Result<()> {
    play("30", scenarios::a_project_is_read_through_the_executor).await
}

#[tokio::test]
async fn a_bearer_token_opens_the_executor() -> Result<()> {
    play("30", scenarios::a_bearer_token_opens_the_executor).await
}

#[tokio::test]
async fn an_executor_on_stdio_is_started_by_the_client() -> Result<()> {
    play("30", scenarios::an_executor_on_stdio_is_started_by_the_client).await
}

#[tokio::test]
async fn a_command_ends_with_its_session() -> Result<()> {
    play("2", async |scene: &Scene<'_>| {
        scenarios::a_command_ends_with_its_session(scene, Duration::from_secs(2)).await
    })
    .await
}

#[tokio::test]
async fn a_patch_is_applied_inside_its_sandbox() -> Result<()> {
    play("30", scenarios::a_patch_is_applied_inside_its_sandbox).await
}

#[tokio::test]
async fn commands_are_confined_as_codex_asks() -> Result<()> {
    play("30", scenarios::commands_are_confined_as_codex_asks).await
}
