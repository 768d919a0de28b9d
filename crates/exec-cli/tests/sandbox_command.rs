//! `exec-server sandbox`, `doctor` and the server's flags for it, as a person uses them.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use exec_testkit::server::ServerUnderTest;

/// A directory to work in, open for everybody, and the binary in it.
struct Bench(tempfile::TempDir);

impl Bench {
    fn new() -> Self {
        let dir =
            tempfile::Builder::new().prefix("exec-server-sandbox-").tempdir_in("/var/tmp").unwrap();
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
        Self(dir)
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_exec-server"));
        command.env("EXEC_SERVER_HOME", self.path().join("none")).env("LC_ALL", "C");
        command.env("XDG_STATE_HOME", self.path().join("state")).env("HOME", self.path());
        command.env_remove("TMPDIR").current_dir(self.path()).stdin(Stdio::null()).args(args);
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    fn works(&self) -> bool {
        let works = self.run(&["sandbox", "--", "true"]).status.success();
        if !works {
            exec_testkit::skip("exec-server sandbox: this host cannot confine");
        }
        works
    }
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap().trim_end()
}

#[test]
fn what_is_allowed_works_and_the_exit_code_is_the_commands() {
    let bench = Bench::new();
    if !bench.works() {
        return;
    }
    for engine in ["builtin", "bwrap"] {
        if engine == "bwrap" && !Path::new("/usr/bin/bwrap").exists() {
            exec_testkit::skip("bubblewrap is not installed");
            continue;
        }
        let script = "echo new > file && cat file; echo oops >&2; exit 7";
        let args = ["sandbox", "--engine", engine, "--writable", ".", "--", "sh", "-c", script];
        let output = bench.run(&args);
        assert_eq!(output.status.code(), Some(7), "{engine} {output:?}");
        assert_eq!((text(&output.stdout), text(&output.stderr)), ("new", "oops"), "{engine}");
        assert_eq!(std::fs::read_to_string(bench.path().join("file")).unwrap(), "new\n");
    }
    let workspace =
        ["sandbox", "--policy", "workspace-write", "--", "sh", "-c", "echo x > other; kill -9 $$"];
    assert_eq!(bench.run(&workspace).status.code(), Some(137));
    assert!(bench.path().join("other").exists());
}

#[test]
fn a_denial_is_explained_with_the_flag_that_would_allow_it() {
    let bench = Bench::new();
    if !bench.works() {
        return;
    }
    let output = bench.run(&["sandbox", "--", "touch", "new"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(!bench.path().join("new").exists());
    let said = text(&output.stderr);
    let here = bench.path().display();
    assert!(said.contains(&format!("probably refused to change {here}/new (read-only")), "{said}");
    assert!(said.contains(&format!("`--writable {here}` would allow it")), "{said}");
    let again = bench.run(&["sandbox", "--writable", &here.to_string(), "--", "touch", "new"]);
    assert!(again.status.success() && again.stderr.is_empty(), "{again:?}");
    let script =
        "import socket; socket.socket(socket.AF_UNIX, socket.SOCK_STREAM).connect('/nowhere')";
    let output = bench.run(&["sandbox", "--", "python3", "-c", script]);
    assert!(text(&output.stderr).contains("`--network`"), "{output:?}");
    // A command that fails by itself is not blamed on the sandbox.
    let output = bench.run(&["sandbox", "--", "sh", "-c", "exit 3"]);
    assert!(output.status.code() == Some(3) && output.stderr.is_empty(), "{output:?}");
}

#[test]
fn explain_prints_policy_and_plan_and_runs_nothing() {
    let bench = Bench::new();
    let output = bench.run(&["sandbox", "--engine", "builtin", "--explain", "--", "touch", "ran"]);
    let here = bench.path().display();
    let expected = format!(
        "network: closed\nworking directory: {here}\nfiles:\n  read-only  /  (entry 0)\n  \
         denied     {here}/state/exec-server  (the server's own)\nplan:\n  \
         network: a namespace of its own\n  system calls: no sockets, no breaking in\n  \
         root: the host's, read-only\n  private devices on /dev\n  its own processes on /proc\n  \
         masked directory {here}/state/exec-server (closed)"
    );
    let (engine, rest) = text(&output.stdout).split_once('\n').unwrap();
    assert!(engine.starts_with("engine: "), "{engine}");
    assert_eq!(rest, expected);
    assert!(output.status.success() && !bench.path().join("ran").exists());
}

#[test]
fn policies_come_from_files_and_bad_ones_are_refused() {
    let bench = Bench::new();
    if !bench.works() {
        return;
    }
    let file = |content: &str| {
        std::fs::write(bench.path().join("policy.json"), content).unwrap();
        bench.run(&["sandbox", "--policy", "policy.json", "--", "sh", "-c", "echo x > made"])
    };
    let flat = file(r#"{"type":"workspace-write"}"#);
    assert!(flat.status.success(), "{flat:?}");
    let full = file(
        r#"{"permissions":{"type":"managed","network":"restricted","file_system":{"type":"restricted",
        "entries":[{"access":"read","path":{"type":"special","value":{"kind":"root"}}}]}},
        "windowsSandboxLevel":"disabled"}"#,
    );
    assert!(!full.status.success() && text(&full.stderr).contains("--writable"), "{full:?}");
    for (content, expected) in [
        ("{", "the policy policy.json cannot be used: EOF while parsing"),
        (r#"{"type":"nonsense"}"#, "unknown variant `nonsense`"),
        (r#"{"permissions":{}}"#, "missing field `type`"),
    ] {
        let output = file(content);
        assert_eq!(output.status.code(), Some(1), "{content}");
        assert!(text(&output.stderr).contains(expected), "{content}: {}", text(&output.stderr));
    }
    for (args, status, expected) in [
        (&["--policy", "none.json", "--", "true"][..], 1, "cannot read the policy none.json"),
        (&["--writable", "missing", "--", "true"], 1, "missing writable: No such file"),
        (&["--", "no-such-program"], 127, "No such file or directory"),
        (
            &["--engine", "magic", "--", "true"],
            2,
            "possible values: auto, bwrap, builtin, landlock",
        ),
    ] {
        let output = bench.run(&[&["sandbox"], args].concat());
        assert_eq!(output.status.code(), Some(status), "{args:?} {output:?}");
        assert!(text(&output.stderr).contains(expected), "{args:?}: {}", text(&output.stderr));
    }
}

#[test]
fn a_terminal_is_the_commands_own() {
    let bench = Bench::new();
    if !bench.works() {
        return;
    }
    // `script` gives us a real terminal to pass on.
    let inner = format!(
        "{} sandbox -t -- sh -c 'tty; echo here > /dev/tty; exit 5'",
        env!("CARGO_BIN_EXE_exec-server")
    );
    let mut command = Command::new("script");
    command.args(["-qec", &inner, "/dev/null"]).current_dir(bench.path()).stdin(Stdio::null());
    command.env("EXEC_SERVER_HOME", bench.path().join("none")).env("HOME", bench.path());
    let Ok(output) = command.output() else {
        return exec_testkit::skip("sandbox on a terminal: no `script` (bsdutils)");
    };
    assert_eq!(output.status.code(), Some(5), "{output:?}");
    let shown = text(&output.stdout);
    assert!(shown.contains("/dev/") && shown.contains("here"), "{shown}");
}

#[test]
fn an_ordinary_user_is_confined_and_a_fork_bomb_is_bounded() {
    let bench = Bench::new();
    // SAFETY: asks for a number.
    if unsafe { libc::geteuid() } != 0 {
        return exec_testkit::skip("as another user: only root can become one");
    }
    let binary = bench.path().join("exec-server");
    std::fs::copy(env!("CARGO_BIN_EXE_exec-server"), &binary).unwrap();
    let as_nobody = |args: &[&str], toml: &str| {
        let home = bench.path().join("home");
        std::fs::create_dir_all(&home).unwrap();
        std::fs::write(home.join("exec-server.toml"), toml).unwrap();
        let mut command = Command::new(&binary);
        command.env("EXEC_SERVER_HOME", home).env("HOME", bench.path()).env("LC_ALL", "C");
        command.uid(65534).gid(65534).current_dir(bench.path()).stdin(Stdio::null()).args(args);
        command.output().unwrap()
    };
    let output =
        as_nobody(&["sandbox", "--writable", ".", "--", "sh", "-c", "id -u; echo x > mine"], "");
    if text(&output.stderr).contains("cannot be enforced") {
        return exec_testkit::skip("as nobody: user namespaces are reserved for root");
    }
    assert_eq!((text(&output.stdout), text(&output.stderr)), ("65534", ""), "{output:?}");
    let bomb = "import os\nn = 0\ntry:\n  while n < 500:\n    if os.fork() == 0:\n      import time; time.sleep(60)\n    n += 1\nexcept BlockingIOError: pass\nprint(n < 30)";
    let output = as_nobody(&["sandbox", "--", "python3", "-c", bomb], "limit_pids = 20\n");
    assert_eq!(text(&output.stdout), "True", "{output:?}");
}

#[test]
fn the_server_is_hardened_and_children_still_get_the_loaders_variables() {
    let bench = Bench::new();
    let mut command = bench.command(&["serve", "--limit-open-files", "99"]);
    command.env("LD_LIBRARY_PATH", "/opt/some");
    let server = ServerUnderTest::start(command).unwrap();
    let pid = server.pid();
    let limits = std::fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
    let core = limits.lines().find(|line| line.starts_with("Max core")).unwrap();
    assert_eq!(core.split_whitespace().collect::<Vec<_>>()[4..6], ["0", "0"], "{core}");
    let run = |script: &str| bench.run(&["run", "--url", server.url(), "--", "sh", "-c", script]);
    assert_eq!(text(&run("echo $LD_LIBRARY_PATH; ulimit -n").stdout), "/opt/some\n99");
}

#[test]
fn an_ordinary_users_server_cannot_be_read_and_still_finds_what_works() {
    let bench = Bench::new();
    // SAFETY: asks for a number.
    if unsafe { libc::geteuid() } != 0 {
        return exec_testkit::skip("as another user: only root can become one");
    }
    let binary = bench.path().join("exec-server");
    std::fs::copy(env!("CARGO_BIN_EXE_exec-server"), &binary).unwrap();
    let mut command = Command::new(&binary);
    command.env("EXEC_SERVER_HOME", bench.path()).env("HOME", bench.path());
    command.env("EXEC_SERVER_LOG", "debug").uid(65534).gid(65534).current_dir(bench.path());
    let server = ServerUnderTest::start(command).unwrap();
    // The kernel gives the files of a process that cannot be dumped to root.
    let owner = std::fs::metadata(format!("/proc/{}/environ", server.pid())).unwrap();
    assert_eq!(std::os::unix::fs::MetadataExt::uid(&owner), 0);
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while !server.stderr().contains("commands are confined") {
        let refused = server.stderr().contains("cannot map the user");
        assert!(!refused && std::time::Instant::now() < deadline, "{}", server.stderr());
        if server.stderr().contains("will be refused") {
            return exec_testkit::skip("as nobody: user namespaces are reserved for root");
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

#[test]
fn warnings_are_for_the_operator_and_come_once() {
    let bench = Bench::new();
    let missing = "/nowhere/bwrap";
    let args = ["serve", "--sandbox-engine", "bwrap", "--sandbox-bwrap", missing];
    let server = ServerUnderTest::start(bench.command(&args)).unwrap();
    let said = || server.stderr();
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while !said().contains("Requests for a sandbox will be refused") {
        assert!(std::time::Instant::now() < deadline, "{}", said());
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    // SAFETY: asks for a number.
    let is_root = unsafe { libc::geteuid() } == 0;
    assert_eq!(said().contains("The server runs as root"), is_root, "{}", said());
    assert_eq!(said().matches("will be refused").count(), 1);
    assert_eq!(server.stdout().lines().count(), 1, "the address and nothing else");
    let output = bench.run(&["run", "--url", server.url(), "--", "true"]);
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    let refused = bench.run(&["serve", "--sandbox-bwrap", "relative"]);
    assert_eq!(refused.status.code(), Some(2));
}

#[test]
fn doctor_tells_of_every_part() {
    let bench = Bench::new();
    let output = bench.run(&["doctor", "--json"]);
    let rows: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let subjects: Vec<&str> =
        rows.as_array().unwrap().iter().map(|row| row["subject"].as_str().unwrap()).collect();
    for subject in ["sandbox", "namespaces", "builtin", "bwrap", "landlock", "seccomp", "limits"] {
        assert!(subjects.contains(&subject), "{subject} is not in {subjects:?}");
    }
}
