//! The scenarios of the real client, played by the real executor. They show that the scenarios
//! themselves are sound; our own executor plays them in the tests of the command line.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::Result;
use exec_testkit::codex::{CodexHome, codex_binary};
use exec_testkit::scenarios::{self, Listen, Scene};

/// `codex exec-server`, in a home of its own.
fn reference(codex: &Path, home: &CodexHome, listen: Listen<'_>) -> Command {
    let mut command = home.exec_server(codex);
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

async fn play(scenario: impl AsyncFnOnce(&Scene<'_>) -> Result<()>) -> Result<()> {
    let codex = match codex_binary() {
        Ok(codex) => codex,
        Err(skip) => {
            exec_testkit::skip(skip.0);
            return Ok(());
        }
    };
    let home = CodexHome::new()?;
    let executor = |listen: Listen<'_>| reference(&codex, &home, listen);
    scenario(&Scene { codex: &codex, executor: &executor }).await
}

#[tokio::test]
async fn a_command_runs_on_the_executor() -> Result<()> {
    play(scenarios::a_command_runs_on_the_executor).await
}

#[tokio::test]
async fn a_terminal_session_takes_input() -> Result<()> {
    play(scenarios::a_terminal_session_takes_input).await
}

#[tokio::test]
async fn a_cut_connection_loses_nothing() -> Result<()> {
    play(scenarios::a_cut_connection_loses_nothing).await
}

#[tokio::test]
async fn a_patch_is_applied_by_the_executor() -> Result<()> {
    play(scenarios::a_patch_is_applied_by_the_executor).await
}

#[tokio::test]
async fn a_project_is_read_through_the_executor() -> Result<()> {
    play(scenarios::a_project_is_read_through_the_executor).await
}

#[tokio::test]
async fn a_bearer_token_opens_the_executor() -> Result<()> {
    play(scenarios::a_bearer_token_opens_the_executor).await
}

#[tokio::test]
async fn an_executor_on_stdio_is_started_by_the_client() -> Result<()> {
    play(scenarios::an_executor_on_stdio_is_started_by_the_client).await
}

#[tokio::test]
#[ignore = "the reference keeps a session for 30 s"]
async fn a_command_ends_with_its_session() -> Result<()> {
    play(async |scene: &Scene<'_>| {
        scenarios::a_command_ends_with_its_session(scene, Duration::from_secs(30)).await
    })
    .await
}
