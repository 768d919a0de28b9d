//! What the real `codex exec` must be able to do with an executor, whoever made it.
//!
//! A [`Scene`] says how to start the executor, and each scenario is one story told with it. The
//! same stories run against the reference in this crate's tests and against our own binary in
//! those of the command line.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};

use crate::codex_exec::{CodexRun, Executor, Outcome, SandboxMode};
use crate::leaks::{is_alive, marked, wait_until};
use crate::model::{ScriptedModel, ToolOutput, Turn};
use crate::server::ServerUnderTest;
use crate::tap::{Direction, Tapped, Verdict, WireTap};

/// Only the executor has this variable, so a command that sees it ran there.
const MARKER_NAME: &str = "EXEC_TESTKIT_MARKER";
/// For things that take milliseconds unless they are broken.
const PATIENCE: Duration = Duration::from_secs(20);

/// A picture of one point.
const DOT_PNG: &[u8] =
    b"\x89\x50\x4e\x47\x0d\x0a\x1a\x0a\x00\x00\x00\x0d\x49\x48\x44\x52\x00\x00\x00\x01\x00\x00\
    \x00\x01\x08\x06\x00\x00\x00\x1f\x15\xc4\x89\x00\x00\x00\x0d\x49\x44\x41\x54\x78\xda\x63\
    \xf8\xcf\xc0\xf0\x1f\x00\x05\x00\x01\xff\x56\xc7\x2f\x0d\x00\x00\x00\x00\x49\x45\x4e\x44\
    \xae\x42\x60\x82";

/// How the executor is to be reached.
#[derive(Debug, Clone, Copy)]
pub enum Listen<'a> {
    /// On a free port of 127.0.0.1; the URL is the first line on stdout.
    WebSocket,
    /// The same, open only to who presents the token in this file.
    WebSocketWithToken(&'a Path),
    /// On its standard streams.
    Stdio,
}

/// The cast: the client and the executor.
pub struct Scene<'a> {
    /// The codex binary.
    pub codex: &'a Path,
    /// How to start the executor.
    pub executor: &'a dyn Fn(Listen<'_>) -> Command,
}

impl Scene<'_> {
    /// Its home is the working directory, so that a login shell reads nobody's profile.
    fn start_executor(
        &self,
        listen: Listen<'_>,
        cwd: &Path,
        marker: &str,
    ) -> Result<ServerUnderTest> {
        let mut command = (self.executor)(listen);
        command.env("HOME", cwd).env(MARKER_NAME, marker);
        ServerUnderTest::start(command)
    }

    async fn run(&self, executor: Executor, cwd: &Path, script: Vec<Turn>) -> Result<Outcome> {
        let model = ScriptedModel::start(script).await?;
        CodexRun::new(self.codex, executor, cwd, model).finish().await
    }
}

/// A command runs on the executor; what it prints and its exit code reach the model.
pub async fn a_command_runs_on_the_executor(scene: &Scene<'_>) -> Result<()> {
    let marker = fresh_marker("plain");
    let cwd = tempfile::tempdir()?;
    let server = scene.start_executor(Listen::WebSocket, cwd.path(), &marker)?;
    let executor = Executor::Url(server.url().to_owned());
    let outcome = scene.run(executor, cwd.path(), show_marker()).await?;
    check_marker_shown(&outcome, &marker)
}

/// A terminal session asks, is answered through `write_stdin`, and ends with its own exit code.
pub async fn a_terminal_session_takes_input(scene: &Scene<'_>) -> Result<()> {
    let cwd = tempfile::tempdir()?;
    let server = scene.start_executor(Listen::WebSocket, cwd.path(), "")?;
    let script = vec![
        Turn::exec_tty("test -t 0 && test -t 1 && printf 'name? '; read n; echo hello $n; exit 7"),
        Turn::type_text("world\n"),
        Turn::UntilExit,
        Turn::say("done"),
    ];
    let outcome = scene.run(Executor::Url(server.url().to_owned()), cwd.path(), script).await?;
    check_ended(&outcome, 7)?;
    let printed = outcome.printed();
    ensure!(printed.contains("name? "), "no prompt of a terminal: {outcome:#?}");
    ensure!(printed.contains("hello world"), "the input did not arrive: {outcome:#?}");
    Ok(())
}

/// The connection is cut twice in mid-output, the second time with the output on its way, and more
/// is printed while it is down. The client resumes its session each time, the model gets every
/// line once, and the command goes on to its end.
pub async fn a_cut_connection_loses_nothing(scene: &Scene<'_>) -> Result<()> {
    let cwd = tempfile::tempdir()?;
    let server = scene.start_executor(Listen::WebSocket, cwd.path(), "")?;
    let next_cut = Arc::new(Mutex::new(Some(Verdict::PassThenCut)));
    let verdict = Arc::clone(&next_cut);
    let tap = WireTap::judging(server.url(), move |tapped| {
        let cut = tapped.is_call("process/output").then(|| take(&verdict)).flatten();
        cut.unwrap_or(Verdict::Pass)
    })
    .await?;
    // Each part waits for its file, and so for what happens to the line meanwhile.
    let count = "print() { for i; do echo line $i; sleep 0.02; done; }; \
                 part() { until [ -e $1 ]; do sleep 0.02; done; shift; print $*; }; \
                 print 01 02 03; part first-cut 04 05 06; touch printed; \
                 part resumed 07 08 09; part resumed-again 10 11 12; exit 5";
    let script = vec![Turn::exec(count), Turn::UntilExit, Turn::say("done")];
    let run = scene.run(Executor::Url(tap.url().to_owned()), cwd.path(), script);
    let disturb = async {
        let recovered = |tapped: &Tapped| tapped.is_call("process/read");
        tap.wait_cut().await?;
        touch(cwd.path(), "first-cut")?;
        wait_for_file(cwd.path(), "printed").await?;
        tap.restore();
        tap.wait_for_nth(1, recovered).await?;
        set(&next_cut, Verdict::Cut);
        touch(cwd.path(), "resumed")?;
        tap.wait_cut().await?;
        tap.restore();
        tap.wait_for_nth(2, recovered).await?;
        touch(cwd.path(), "resumed-again")
    };
    let (outcome, ()) = tokio::try_join!(run, disturb)?;
    check_ended(&outcome, 5)?;
    let expected: String = (1..=12).map(|i| format!("line {i:02}\n")).collect();
    ensure!(outcome.printed() == expected, "not every line once: {outcome:#?}");
    ensure!(resumed_sessions(&tap) == 2, "not resumed twice: {:#?}", tap.calls("initialize"));
    Ok(())
}

/// `apply_patch` makes, changes and deletes files through the executor's file calls, and a command
/// reads them back.
pub async fn a_patch_is_applied_by_the_executor(scene: &Scene<'_>) -> Result<()> {
    let cwd = tempfile::tempdir()?;
    let server = scene.start_executor(Listen::WebSocket, cwd.path(), "")?;
    let tap = WireTap::start(server.url()).await?;
    let script = vec![
        Turn::patch(
            "*** Begin Patch\n*** Add File: notes/deep/a.txt\n+one\n+two\n\
             *** Add File: gone.txt\n+x\n*** End Patch",
        ),
        Turn::patch(
            "*** Begin Patch\n*** Update File: notes/deep/a.txt\n@@\n one\n-two\n+zwei\n\
             *** Delete File: gone.txt\n*** End Patch",
        ),
        Turn::exec("cat notes/deep/a.txt; test ! -e gone.txt"),
        Turn::UntilExit,
        Turn::say("done"),
    ];
    let outcome = scene.run(Executor::Url(tap.url().to_owned()), cwd.path(), script).await?;
    check_ended(&outcome, 0)?;
    let last = outcome.tool_outputs.last().map(ToolOutput::printed);
    ensure!(last == Some("one\nzwei\n"), "the patch is not in the file: {outcome:#?}");
    ensure!(!tap.calls("fs/writeFile").is_empty(), "the patch did not pass through the executor");
    ensure!(!tap.calls("fs/remove").is_empty(), "the file was not removed by the executor");
    Ok(())
}

/// In workspace-write mode every file call of a patch carries its sandbox, and is granted what the
/// workspace grants; nothing is left of the sandbox.
pub async fn a_patch_is_applied_inside_its_sandbox(scene: &Scene<'_>) -> Result<()> {
    let cwd = tempfile::tempdir()?;
    let server = scene.start_executor(Listen::WebSocket, cwd.path(), "")?;
    let tap = WireTap::start(server.url()).await?;
    let script = vec![
        Turn::patch(
            "*** Begin Patch\n*** Add File: notes/deep/a.txt\n+one\n+two\n\
             *** Add File: gone.txt\n+x\n*** End Patch",
        ),
        Turn::patch(
            "*** Begin Patch\n*** Update File: notes/deep/a.txt\n@@\n one\n-two\n+zwei\n\
             *** Delete File: gone.txt\n*** End Patch",
        ),
        Turn::say("done"),
    ];
    let model = ScriptedModel::start(script).await?;
    let executor = Executor::Url(tap.url().to_owned());
    let mut run = CodexRun::new(scene.codex, executor, cwd.path(), model);
    run.sandbox = SandboxMode::WorkspaceWrite;
    let outcome = run.finish().await?;
    ensure!(outcome.status.success(), "codex failed: {outcome:#?}");
    let patched = std::fs::read_to_string(cwd.path().join("notes/deep/a.txt"))?;
    ensure!(patched == "one\nzwei\n", "the patch is not in the file: {patched:?} {outcome:#?}");
    ensure!(!cwd.path().join("gone.txt").exists(), "the file was not removed");
    let writes = tap.calls("fs/writeFile");
    ensure!(!writes.is_empty(), "the patch did not pass through the executor");
    for write in writes {
        let sandbox = &write.message["params"]["sandbox"];
        ensure!(sandbox.is_object(), "a file call without its sandbox: {}", write.message);
    }
    let mut left: Vec<_> =
        std::fs::read_dir(cwd.path())?.flatten().map(|e| e.file_name()).collect();
    left.sort();
    ensure!(left == ["notes"], "something was left in the workspace: {left:?}");
    Ok(())
}

/// The project's instructions, its skills and a picture reach the model through the executor's file
/// calls, and a patch moves a file with them.
pub async fn a_project_is_read_through_the_executor(scene: &Scene<'_>) -> Result<()> {
    let cwd = tempfile::tempdir()?;
    let write = |name: &str, content: &[u8]| {
        let path = cwd.path().join(name);
        std::fs::create_dir_all(path.parent().context("a name has a parent")?)?;
        std::fs::write(path, content).with_context(|| format!("cannot write {name}"))
    };
    write("AGENTS.md", b"Always greet the heron.")?;
    let skill = b"---\nname: heron\ndescription: How to greet a heron.\n---\nBow.\n";
    write(".agents/skills/heron/SKILL.md", skill)?;
    write("dot.png", DOT_PNG)?;
    write("old.txt", b"one\ntwo\n")?;
    let server = scene.start_executor(Listen::WebSocket, cwd.path(), "")?;
    let tap = WireTap::start(server.url()).await?;
    let picture = json!({"path": cwd.path().join("dot.png")});
    let script = vec![
        Turn::Call { name: "view_image", args: picture },
        Turn::patch(
            "*** Begin Patch\n*** Update File: old.txt\n*** Move to: new/name.txt\n@@\n one\n\
             -two\n+zwei\n*** End Patch",
        ),
        Turn::exec("cat new/name.txt; test ! -e old.txt"),
        Turn::UntilExit,
        Turn::say("done"),
    ];
    let outcome = scene.run(Executor::Url(tap.url().to_owned()), cwd.path(), script).await?;
    check_ended(&outcome, 0)?;
    let last = outcome.tool_outputs.last().map(ToolOutput::printed);
    ensure!(last == Some("one\nzwei\n"), "the patch is not in the file: {outcome:#?}");
    let told = outcome.requests.iter().map(Value::to_string).collect::<String>();
    ensure!(told.contains("Always greet the heron."), "the instructions were not read");
    ensure!(told.contains("How to greet a heron."), "the skill was not found: {outcome:#?}");
    ensure!(told.contains("data:image/png;base64,"), "the picture was not shown: {outcome:#?}");
    let asked = |method: &str, name: &str| {
        let ends = |tapped: &Tapped| {
            tapped.message["params"]["path"].as_str().map(|path| path.ends_with(name))
        };
        tap.calls(method).iter().any(|tapped| ends(tapped) == Some(true))
    };
    for name in ["/AGENTS.md", "/heron/SKILL.md", "/dot.png", "/old.txt"] {
        ensure!(asked("fs/readFile", name), "{name} was not read by the executor");
    }
    ensure!(asked("fs/walk", "/.agents/skills"), "the executor did not walk");
    ensure!(asked("fs/writeFile", "/new/name.txt"), "the executor did not write");
    ensure!(asked("fs/remove", "/old.txt"), "the executor did not remove");
    Ok(())
}

/// A bearer token from `environments.toml` opens an executor that asks for one; another does not.
pub async fn a_bearer_token_opens_the_executor(scene: &Scene<'_>) -> Result<()> {
    let marker = fresh_marker("bearer");
    let cwd = tempfile::tempdir()?;
    let token_file = cwd.path().join("token");
    std::fs::write(&token_file, "open-sesame-0123456789\n")?;
    let server =
        scene.start_executor(Listen::WebSocketWithToken(&token_file), cwd.path(), &marker)?;
    let executor = |token: &str| Executor::UrlWithBearer {
        url: server.url().to_owned(),
        token: token.to_owned(),
    };
    let outcome = scene.run(executor("open-sesame-0123456789"), cwd.path(), show_marker()).await?;
    check_marker_shown(&outcome, &marker)?;
    let outcome = scene.run(executor("wrong"), cwd.path(), show_marker()).await?;
    let ran = outcome.tool_outputs.iter().any(|output| output.exit_code().is_some());
    ensure!(!ran, "a wrong token was let in: {outcome:#?}");
    Ok(())
}

/// Codex starts the executor itself and speaks to it over its standard streams.
pub async fn an_executor_on_stdio_is_started_by_the_client(scene: &Scene<'_>) -> Result<()> {
    let marker = fresh_marker("stdio");
    let cwd = tempfile::tempdir()?;
    let mut command = (scene.executor)(Listen::Stdio);
    command.env("HOME", cwd.path()).env(MARKER_NAME, &marker);
    let outcome = scene.run(stdio_executor(&command)?, cwd.path(), show_marker()).await?;
    check_marker_shown(&outcome, &marker)?;
    wait_until(PATIENCE, "the executor ends with its client", || marked(&marker).is_empty()).await
}

/// Codex crashes in mid-command. The executor lets the command run on until the session, which
/// nobody resumes, expires after `expiry`, and then ends it.
pub async fn a_command_ends_with_its_session(scene: &Scene<'_>, expiry: Duration) -> Result<()> {
    let cwd = tempfile::tempdir()?;
    let server = scene.start_executor(Listen::WebSocket, cwd.path(), "")?;
    let marker = fresh_marker("crashed-command");
    let model = ScriptedModel::start(vec![
        Turn::exec(format!("export MARK={marker}; touch started; exec sleep 600")),
        Turn::UntilExit,
    ])
    .await?;
    let executor = Executor::Url(server.url().to_owned());
    let mut codex = CodexRun::new(scene.codex, executor, cwd.path(), model).start()?;
    wait_for_file(cwd.path(), "started").await?;
    codex.crash().await?;
    let command = marked(&marker);
    ensure!(!command.is_empty(), "the command did not outlive its client");
    let gone = || command.iter().all(|pid| !is_alive(*pid));
    wait_until(expiry + PATIENCE, "the command ends with its session", gone).await
}

/// Prints the executor's marker, something on stderr too, and ends with 3.
fn show_marker() -> Vec<Turn> {
    vec![
        Turn::exec(format!("echo \"marker=${MARKER_NAME}\"; echo to-stderr >&2; exit 3")),
        Turn::UntilExit,
        Turn::say("the story ends"),
    ]
}

fn check_marker_shown(outcome: &Outcome, marker: &str) -> Result<()> {
    check_ended(outcome, 3)?;
    let printed = outcome.printed();
    ensure!(printed.contains(&format!("marker={marker}\n")), "not on the executor: {outcome:#?}");
    ensure!(printed.contains("to-stderr\n"), "stderr is missing: {outcome:#?}");
    ensure!(outcome.final_message() == Some("the story ends"), "cut short: {outcome:#?}");
    Ok(())
}

fn check_ended(outcome: &Outcome, exit_code: i32) -> Result<()> {
    ensure!(outcome.status.success(), "codex failed: {outcome:#?}");
    let last = outcome.tool_outputs.last().and_then(ToolOutput::exit_code);
    ensure!(last == Some(exit_code), "the exit code is {last:?}, not {exit_code}: {outcome:#?}");
    Ok(())
}

fn resumed_sessions(tap: &WireTap) -> usize {
    let resumes = |tapped: &&Tapped| {
        tapped.direction == Direction::ToExecutor
            && tapped.message["params"]["resumeSessionId"].is_string()
    };
    tap.calls("initialize").iter().filter(resumes).count()
}

fn touch(directory: &Path, name: &str) -> Result<()> {
    std::fs::write(directory.join(name), "").with_context(|| format!("cannot write {name}"))
}

async fn wait_for_file(directory: &Path, name: &str) -> Result<()> {
    wait_until(PATIENCE, name, || directory.join(name).exists()).await
}

fn take(slot: &Mutex<Option<Verdict>>) -> Option<Verdict> {
    slot.lock().expect("no holder of the verdict's lock panics").take()
}

fn set(slot: &Mutex<Option<Verdict>>, verdict: Verdict) {
    *slot.lock().expect("no holder of the verdict's lock panics") = Some(verdict);
}

/// Unlike any other run's, also of the same test at the same time.
fn fresh_marker(name: &str) -> String {
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    format!("{name}-{}-{}", std::process::id(), now.as_nanos())
}

fn stdio_executor(command: &Command) -> Result<Executor> {
    let text = |text: &OsStr| match text.to_str() {
        Some(text) => Ok(text.to_owned()),
        None => bail!("{} is not UTF-8", text.display()),
    };
    let mut env = BTreeMap::new();
    for (name, value) in command.get_envs() {
        env.insert(text(name)?, text(value.unwrap_or_default())?);
    }
    let args = command.get_args().map(text).collect::<Result<_>>()?;
    Ok(Executor::Stdio { program: text(command.get_program())?, args, env })
}

/// In read-only mode a command that writes is denied; in workspace-write mode the workspace can be
/// written and nothing else, and none of the protected names can be made.
pub async fn commands_are_confined_as_codex_asks(scene: &Scene<'_>) -> Result<()> {
    let cwd = tempfile::tempdir_in("/var/tmp")?;
    let outside = tempfile::tempdir_in("/var/tmp")?;
    let server = scene.start_executor(Listen::WebSocket, cwd.path(), "")?;
    let tap = WireTap::start(server.url()).await?;
    let out = outside.path().display();
    let write_inside =
        "mkdir -p target/debug && echo built > target/debug/out && cat target/debug/out";
    let script = |commands: Vec<String>| {
        let turns = commands.into_iter().flat_map(|command| [Turn::exec(command), Turn::UntilExit]);
        turns.chain([Turn::say("done")]).collect::<Vec<Turn>>()
    };
    let run = async |sandbox, commands| {
        let model = ScriptedModel::start(script(commands)).await?;
        let executor = Executor::Url(tap.url().to_owned());
        let mut run = CodexRun::new(scene.codex, executor, cwd.path(), model);
        run.sandbox = sandbox;
        let outcome = run.finish().await?;
        ensure!(outcome.status.success(), "codex failed: {outcome:#?}");
        Ok::<_, anyhow::Error>(outcome)
    };

    let outcome = run(SandboxMode::ReadOnly, vec![write_inside.to_owned()]).await?;
    let said = outcome.tool_outputs.last().map(ToolOutput::printed).unwrap_or_default().to_owned();
    ensure!(said.contains("Read-only file system"), "it was not told of the denial: {outcome:#?}");
    ensure!(!cwd.path().join("target").exists(), "read-only mode wrote");
    let denied = |tapped: &Tapped| tapped.message["params"]["sandboxDenied"] == true;
    ensure!(tap.calls("process/exited").iter().any(denied), "no exit counts as denied");

    let commands = vec![
        write_inside.to_owned(),
        format!("echo x > {out}/new"),
        "mkdir .git && echo made".to_owned(),
    ];
    let outcome = run(SandboxMode::WorkspaceWrite, commands).await?;
    let said: Vec<&str> = outcome.tool_outputs.iter().map(ToolOutput::printed).collect();
    ensure!(said.iter().any(|text| text.contains("built")), "it could not work: {outcome:#?}");
    ensure!(said.iter().any(|text| text.contains("Read-only file system")), "{outcome:#?}");
    ensure!(!said.iter().any(|text| text.contains("made")), "it made .git: {outcome:#?}");
    let built = std::fs::read_to_string(cwd.path().join("target/debug/out"))?;
    ensure!(built == "built\n", "the workspace was not written");
    ensure!(!outside.path().join("new").exists(), "something outside was written");
    let gone = || !cwd.path().join(".git").exists() && !cwd.path().join(".codex").exists();
    wait_until(PATIENCE, "no placeholder is left", gone).await
}
