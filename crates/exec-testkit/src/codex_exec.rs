//! One run of the real `codex exec`: its home and configuration, the process, what came out of it.
//!
//! The model is scripted (`model.rs`) and everything stays on loopback. The executor is whatever
//! [`Executor`] names. The home is fresh for each run and vanishes with it.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;
use tokio::io::AsyncReadExt;
use tokio::process::{Child, Command};

use crate::codex::CodexHome;
use crate::leaks::descendants;
use crate::model::{ScriptedModel, ToolOutput};

/// A run that takes longer has hung: a scenario is a matter of seconds.
const RUN_TIME_MAX: Duration = Duration::from_secs(60);

/// Where codex runs its commands.
#[derive(Debug, Clone)]
pub enum Executor {
    /// A WebSocket executor, named by `CODEX_EXEC_SERVER_URL`.
    Url(String),
    /// A WebSocket executor behind a bearer token, named by `environments.toml`.
    UrlWithBearer {
        /// Its `ws://` address.
        url: String,
        /// What goes into the `Authorization` header.
        token: String,
    },
    /// An executor that codex starts itself and speaks to over its standard streams.
    Stdio {
        /// The program to start.
        program: String,
        /// Its arguments.
        args: Vec<String>,
        /// What it gets on top of codex's own environment.
        env: BTreeMap<String, String>,
    },
    /// Codex itself.
    Local,
}

/// What `--sandbox` is set to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SandboxMode {
    /// `read-only`
    ReadOnly,
    /// `workspace-write`
    WorkspaceWrite,
    /// `danger-full-access`: codex asks for no sandbox at all.
    DangerFullAccess,
}

impl SandboxMode {
    fn as_str(self) -> &'static str {
        match self {
            SandboxMode::ReadOnly => "read-only",
            SandboxMode::WorkspaceWrite => "workspace-write",
            SandboxMode::DangerFullAccess => "danger-full-access",
        }
    }
}

/// A run to be started.
pub struct CodexRun {
    /// The binary, from [`codex_binary`](crate::codex::codex_binary).
    pub codex: PathBuf,
    /// Where the commands run.
    pub executor: Executor,
    /// What the commands may do.
    pub sandbox: SandboxMode,
    /// The working directory of codex and of its commands.
    pub cwd: PathBuf,
    /// Who decides what to do.
    pub model: ScriptedModel,
}

impl CodexRun {
    /// A run without a sandbox.
    pub fn new(codex: &Path, executor: Executor, cwd: &Path, model: ScriptedModel) -> Self {
        CodexRun {
            codex: codex.to_owned(),
            executor,
            sandbox: SandboxMode::DangerFullAccess,
            cwd: cwd.to_owned(),
            model,
        }
    }

    /// Starts codex.
    pub fn start(self) -> Result<RunningCodex> {
        let home = CodexHome::new()?;
        let write = |name: &str, text: String| {
            let path = home.path().join(name);
            std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
        };
        write("config.toml", config_toml(&self.model.base_url()))?;
        let mut command = Command::new(&self.codex);
        command
            .args(["exec", "--skip-git-repo-check", "--json", "--sandbox", self.sandbox.as_str()])
            .arg("--cd")
            .arg(&self.cwd)
            .arg("follow the script")
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or("/usr/bin:/bin".into()))
            .env("HOME", home.path())
            .env("CODEX_HOME", home.path())
            .current_dir(&self.cwd)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if let Executor::Url(url) = &self.executor {
            command.env("CODEX_EXEC_SERVER_URL", url);
        } else if let Some(text) = environments_toml(&self.executor) {
            write("environments.toml", text)?;
        }
        let child = command.spawn().context("cannot start codex")?;
        Ok(RunningCodex { child, model: self.model, _home: home })
    }

    /// Starts codex and waits for its end.
    pub async fn finish(self) -> Result<Outcome> {
        self.start()?.finish().await
    }
}

/// Codex at work. Dropped means killed, with all that it has started.
pub struct RunningCodex {
    child: Child,
    model: ScriptedModel,
    _home: CodexHome,
}

impl RunningCodex {
    /// The model that it talks to.
    pub fn model(&self) -> &ScriptedModel {
        &self.model
    }

    /// Kills codex alone with SIGKILL, as a crash would, and waits until it is gone.
    pub async fn crash(&mut self) -> Result<()> {
        self.child.kill().await.context("cannot kill codex")
    }

    /// Waits for its end.
    pub async fn finish(mut self) -> Result<Outcome> {
        let mut stdout = self.child.stdout.take().context("codex has no stdout")?;
        let mut stderr = self.child.stderr.take().context("codex has no stderr")?;
        let (mut events, mut complaints) = (Vec::new(), Vec::new());
        let run = async {
            tokio::try_join!(
                stdout.read_to_end(&mut events),
                stderr.read_to_end(&mut complaints),
                self.child.wait(),
            )
        };
        let ended = tokio::time::timeout(RUN_TIME_MAX, run).await;
        let events = String::from_utf8_lossy(&events);
        let stderr = String::from_utf8_lossy(&complaints).into_owned();
        let (_, _, status) = ended.with_context(|| {
            format!("codex did not end within {RUN_TIME_MAX:?}; its events:\n{events}\n{stderr}")
        })??;
        Ok(Outcome {
            events: events.lines().filter_map(|line| serde_json::from_str(line).ok()).collect(),
            tool_outputs: self.model.tool_outputs(),
            requests: self.model.requests(),
            stderr,
            status,
        })
    }
}

impl Drop for RunningCodex {
    fn drop(&mut self) {
        if let Some(pid) = self.child.id() {
            kill_tree(pid);
        }
    }
}

/// What a run came to.
pub struct Outcome {
    /// The lines of `--json`.
    pub events: Vec<Value>,
    /// What the tools gave the model.
    pub tool_outputs: Vec<ToolOutput>,
    /// The bodies of the requests to the model.
    pub requests: Vec<Value>,
    /// What codex complained about.
    pub stderr: String,
    /// How codex ended.
    pub status: ExitStatus,
}

impl Outcome {
    /// The last thing the model said to the user.
    pub fn final_message(&self) -> Option<&str> {
        let said = |event: &&Value| event["item"]["type"] == "agent_message";
        self.events.iter().rev().find(said)?["item"]["text"].as_str()
    }

    /// What all the tool calls printed, one after the other.
    pub fn printed(&self) -> String {
        self.tool_outputs.iter().map(ToolOutput::printed).collect()
    }
}

/// Without the requests: they repeat all that codex tells a model, and hide what went wrong.
impl fmt::Debug for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outcome")
            .field("status", &self.status)
            .field("tool_outputs", &self.tool_outputs)
            .field("final_message", &self.final_message())
            .field("stderr", &self.stderr)
            .finish_non_exhaustive()
    }
}

/// Plugins, apps and the like would look for the network; retries would repeat a turn.
fn config_toml(base_url: &str) -> String {
    format!(
        "model = \"gpt-5.5\"\n\
         model_provider = \"mock\"\n\
         approval_policy = \"never\"\n\
         check_for_update_on_startup = false\n\
         \n\
         [model_providers.mock]\n\
         name = \"mock\"\n\
         base_url = {}\n\
         wire_api = \"responses\"\n\
         requires_openai_auth = false\n\
         request_max_retries = 0\n\
         stream_max_retries = 0\n\
         \n\
         [features]\n\
         plugins = false\n\
         apps = false\n\
         remote_plugin = false\n\
         \n\
         [analytics]\n\
         enabled = false\n",
        quoted(base_url)
    )
}

/// None where `environments.toml` is not the way to name the executor.
fn environments_toml(executor: &Executor) -> Option<String> {
    let entry = match executor {
        Executor::Url(_) | Executor::Local => return None,
        Executor::UrlWithBearer { url, token } => {
            format!("url = {}\nauth_bearer_token = {}\n", quoted(url), quoted(token))
        }
        Executor::Stdio { program, args, env } => {
            let args: Vec<_> = args.iter().map(|arg| quoted(arg)).collect();
            let env: Vec<_> =
                env.iter().map(|(name, value)| format!("{name} = {}", quoted(value))).collect();
            format!(
                "program = {}\nargs = [{}]\nenv = {{ {} }}\n",
                quoted(program),
                args.join(", "),
                env.join(", ")
            )
        }
    };
    Some(format!(
        "default = \"testkit\"\ninclude_local = false\n\n[[environments]]\nid = \"testkit\"\n{entry}"
    ))
}

/// A JSON string is a TOML basic string too.
fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// Kills a process and all that descend from it. A command may lead a session of its own, so
/// groups do not hold them together, but parents do.
fn kill_tree(root: u32) {
    for pid in descendants(root).into_iter().chain([root]) {
        let pid = libc::pid_t::try_from(pid).expect("a pid fits pid_t");
        // SAFETY: `kill` takes two integers and touches no memory. The root has not been waited
        // for, so its pid is still its own.
        unsafe { libc::kill(pid, libc::SIGKILL) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn environments_toml_names_the_executor() {
        let check = |executor, expected: Option<&str>| {
            let head = "default = \"testkit\"\ninclude_local = false\n\n[[environments]]\nid = \"testkit\"\n";
            let text = environments_toml(&executor);
            assert_eq!(text, expected.map(|entry| format!("{head}{entry}")));
        };
        check(Executor::Local, None);
        check(Executor::Url("ws://h".to_owned()), None);
        check(
            Executor::UrlWithBearer { url: "ws://h".to_owned(), token: "t".to_owned() },
            Some("url = \"ws://h\"\nauth_bearer_token = \"t\"\n"),
        );
        check(
            Executor::Stdio {
                program: "/bin/x".to_owned(),
                args: vec!["a".to_owned(), "\"b\"".to_owned()],
                env: BTreeMap::from([("K".to_owned(), "v".to_owned())]),
            },
            Some("program = \"/bin/x\"\nargs = [\"a\", \"\\\"b\\\"\"]\nenv = { K = \"v\" }\n"),
        );
    }
}
