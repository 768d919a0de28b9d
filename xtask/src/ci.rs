//! The whole gate: one step after the other, up to the first that fails.

use std::fs;
use std::io;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use crate::leftovers;
use crate::{generate, tidy};

/// Names the file to which tests append a line for each thing they could not do here.
const SKIPS_VARIABLE: &str = "EXEC_TEST_SKIPS";

/// Runs every step, and says at the end how long each took and what was skipped.
pub(crate) fn run(root: &Path) -> Result<()> {
    let mut gate = Gate::new(root)?;
    gate.cargo("format", &["fmt", "--all", "--check"])?;
    gate.cargo(
        "clippy",
        &["clippy", "--workspace", "--all-targets", "--all-features", "--", "-D", "warnings"],
    )?;
    gate.step("tidy", "cargo xtask tidy", |gate| tidy::run(&gate.root))?;
    gate.step("generated files", "cargo xtask generate --check", |gate| {
        generate::check(&gate.root)
    })?;
    // `--workspace` chooses the same features as the tests do, so nothing is built twice.
    gate.cargo("build", &["build", "--workspace", "--bin", "exec-server"])?;
    if gate.has_nextest() {
        gate.cargo("tests", &["nextest", "run", "--workspace"])?;
    } else {
        gate.cargo("tests", &["test", "--workspace", "--lib", "--bins", "--tests", "--examples"])?;
    }
    gate.cargo("doc tests", &["test", "--workspace", "--doc"])?;
    gate.step("leftover processes", "", |gate| leftovers::check(&gate.marker))?;
    gate.summarise();
    println!("ci passed");
    Ok(())
}

struct Gate {
    root: PathBuf,
    cargo: String,
    /// `NAME=value` in the environment of everything that is started.
    marker: String,
    skips: PathBuf,
    taken: Vec<(&'static str, Duration)>,
}

impl Gate {
    fn new(root: &Path) -> Result<Self> {
        let skips = std::env::temp_dir().join(format!("exec-skips-{}", std::process::id()));
        fs::write(&skips, "").with_context(|| format!("cannot write {}", skips.display()))?;
        Ok(Self {
            root: root.to_owned(),
            cargo: std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned()),
            marker: leftovers::marker(),
            skips,
            taken: Vec::new(),
        })
    }

    fn cargo(&mut self, name: &'static str, arguments: &[&str]) -> Result<()> {
        let shown = format!("cargo {}", arguments.join(" "));
        self.step(name, &shown, |gate| {
            // One stream, so that a runner's closing lines stand where they belong.
            let stderr = io::stdout().as_fd().try_clone_to_owned()?;
            let status = gate.command(arguments).stderr(Stdio::from(stderr)).status()?;
            if !status.success() {
                bail!("{status}");
            }
            Ok(())
        })
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.cargo);
        let (name, value) = self.marker.split_once('=').expect("a marker is an assignment");
        command.args(arguments).current_dir(&self.root).stdin(Stdio::null());
        command.env(name, value).env(SKIPS_VARIABLE, &self.skips);
        command
    }

    fn has_nextest(&self) -> bool {
        let mut command = self.command(&["nextest", "--version"]);
        let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
        status.is_ok_and(|status| status.success())
    }

    fn step(
        &mut self,
        name: &'static str,
        shown: &str,
        act: impl FnOnce(&Self) -> Result<()>,
    ) -> Result<()> {
        println!("== {name}{}{shown}", if shown.is_empty() { "" } else { ": " });
        let begin = Instant::now();
        let outcome = act(self);
        let taken = begin.elapsed();
        self.taken.push((name, taken));
        if outcome.is_err() {
            self.summarise();
        }
        outcome.with_context(|| format!("ci failed at `{name}` after {}", seconds(taken)))
    }

    fn summarise(&self) {
        println!();
        for (name, taken) in &self.taken {
            println!("{:>9}  {name}", seconds(*taken));
        }
        // Nothing was skipped if the tests never ran, and nothing is lost if the file is gone.
        let skips = fs::read_to_string(&self.skips).unwrap_or_default();
        for line in skip_lines(&skips) {
            println!("{line}");
        }
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        // Only a small file in the directory for temporary ones would be left.
        fs::remove_file(&self.skips).ok();
    }
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

/// Each different line once, in order.
fn skip_lines(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    lines.sort_unstable();
    lines.dedup();
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_skip_is_listed_once() {
        let text = "SKIPPED: no cgroups\n\nSKIPPED: no codex\nSKIPPED: no cgroups\n";
        assert_eq!(skip_lines(text), ["SKIPPED: no cgroups", "SKIPPED: no codex"]);
    }
}
