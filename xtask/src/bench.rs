//! Measures a release build and refreshes the tables of the performance page.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

const DOCUMENT: &str = "docs/performance.md";

/// Builds, measures end to end and in the small, and writes both tables.
pub(crate) fn run(root: &Path) -> Result<()> {
    let build = ["build", "--release", "--package", "exec-cli", "--package", "exec-bench"];
    call(Command::new("cargo").args(build), root)?;
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), Into::into);
    let (bench, server) = (target.join("release/exec-bench"), target.join("release/exec-server"));
    let serve = format!("{} --listen ws://127.0.0.1:0", server.display());
    let mut end_to_end = Command::new(&bench);
    end_to_end.args(["e2e", "--server", &serve, "--server-name", "exec-server"]);
    end_to_end.args(["--markdown", DOCUMENT]);
    if let Ok(codex) = std::env::var("CODEX_BIN") {
        // Not below /tmp: codex wants no home there.
        let home = target.join("codex-home");
        std::fs::create_dir_all(&home).context("cannot make a home for codex")?;
        let against = format!(
            "env CODEX_HOME={} {codex} exec-server --listen ws://127.0.0.1:0",
            home.display()
        );
        end_to_end.args(["--against", &against, "--against-name", "codex"]);
    }
    call(&mut end_to_end, root)?;
    call(Command::new(&bench).args(["micro", "--markdown", DOCUMENT]), root)
}

fn call(command: &mut Command, root: &Path) -> Result<()> {
    let status = command.current_dir(root).status();
    let status = status.with_context(|| format!("cannot start {command:?}"))?;
    ensure!(status.success(), "{command:?} ended with {status}");
    Ok(())
}
