//! `exec-server rules check` beside the real `codex execpolicy check`: the same bytes on stdout, the same
//! status, and our complaint begins with theirs.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use exec_testkit::codex::{CodexHome, codex_binary};
use exec_testkit::skip;

/// Both programs, in a directory with rules files.
struct Pair {
    codex: PathBuf,
    home: CodexHome,
    directory: tempfile::TempDir,
}

impl Pair {
    /// None where there is no codex; the test has then said so.
    fn new() -> Option<Self> {
        match codex_binary() {
            Ok(codex) => Some(Self {
                codex,
                home: CodexHome::new().unwrap(),
                directory: tempfile::tempdir().unwrap(),
            }),
            Err(reason) => {
                skip(reason.0);
                None
            }
        }
    }

    /// Compares the answers about one command. Gives the common status.
    fn compare(&self, files: &[&str], args: &[&str], command: &[&str]) -> i32 {
        let mut all = Vec::new();
        for (number, text) in files.iter().enumerate() {
            let name = format!("{number}.rules");
            fs::write(self.directory.path().join(&name), text).unwrap();
            all.extend(["--rules".to_owned(), name]);
        }
        all.extend(args.iter().chain(command).map(|arg| (*arg).to_owned()));
        let theirs = self.run(&self.codex, &["execpolicy", "check"], &all);
        let ours = Path::new(env!("CARGO_BIN_EXE_exec-server"));
        let ours = self.run(ours, &["rules", "check"], &all);
        let shown = format!("{files:#?} {args:?} {command:?}\n{theirs:?}\n{ours:?}");
        assert_eq!(ours.status.code(), theirs.status.code(), "{shown}");
        assert_eq!(ours.stdout, theirs.stdout, "{shown}");
        if theirs.status.code() == Some(1) {
            assert!(ours.stderr.starts_with(&theirs.stderr), "{shown}");
        }
        theirs.status.code().unwrap()
    }

    fn run(&self, program: &Path, words: &[&str], args: &[String]) -> Output {
        let mut command = Command::new(program);
        command.current_dir(self.directory.path()).args(words).args(args);
        command.env("CODEX_HOME", self.home.path()).env("RUST_BACKTRACE", "0").output().unwrap()
    }
}

const DOCUMENTED: &str = r#"
prefix_rule(pattern=["git", ["status", "log"]], match=["git status", ["git", "log", "-1"]], not_match=["git push"])
prefix_rule(pattern=["git", "push"], decision="prompt", justification="pushes need review")
prefix_rule(pattern=["git", "push", "--force"], decision="forbidden", justification="Use --force-with-lease")
prefix_rule(pattern=[["npm", "pnpm"], "install"], decision="prompt")
prefix_rule(pattern=["ls"])
prefix_rule(pattern=["--pretty"])
host_executable(name="git", paths=["/usr/bin/git", "/usr/lib/../bin/git"])
"#;

#[test]
fn decisions_are_the_references() {
    let Some(pair) = Pair::new() else { return };
    for command in [
        "git status",
        "git push origin",
        "git push --force",
        "pnpm install x",
        "git",
        "foo",
        "/usr/bin/git status",
        "/usr/bin/../bin/git status",
        "/opt/git status",
        "/opt/bin/ls -l",
        "./ls",
        "../ls",
        "~/ls",
        "~",
        "/",
        ".",
        "",
        "ls --pretty",
        "ls -r x",
        "bash -lc ls",
        "--pretty",
    ] {
        let command: Vec<&str> = command.split(' ').collect();
        for args in
            [&[][..], &["--resolve-host-executables"], &["--pretty", "--resolve-host-executables"]]
        {
            pair.compare(&[DOCUMENTED], &[args, &["--"]].concat(), &command);
        }
    }
    let status =
        pair.compare(&["prefix_rule(['ls'])", "prefix_rule(['ls'], 'forbidden')"], &[], &["ls"]);
    assert_eq!(status, 0);
    for (args, status) in [
        (&["--rules", "none", "ls"][..], 1),
        (&["--rules", ".", "ls"], 1),
        (&["ls"], 2),
        (&["--rules", "0.rules"], 2),
        (&["--rules", "0.rules", "--other", "ls"], 0),
    ] {
        assert_eq!(pair.compare(&[], &[], args), status, "{args:?}");
    }
}

#[test]
fn complaints_are_the_references() {
    let Some(pair) = Pair::new() else { return };
    for (text, fine) in [
        (r#"prefix_rule((["git"],))"#, false),
        (r#"prefix_rule(["git", 1])"#, false),
        (r#"prefix_rule(["git", ["a", 1]])"#, false),
        (r#"prefix_rule(["git", []])"#, false),
        ("prefix_rule([])", false),
        (r#"prefix_rule(["a"], decision=None)"#, false),
        (r#"prefix_rule([], decision="deny", justification="")"#, false),
        (r#"prefix_rule([1], match=[1], justification="  ")"#, false),
        (r#"prefix_rule(["a"], match=[""], not_match=[[]])"#, false),
        (r#"prefix_rule(["a"], match=[[]])"#, false),
        (r#"prefix_rule(["a"], match=[[1]])"#, false),
        (r#"prefix_rule(["a"], match=["a 'b"])"#, false),
        (r#"prefix_rule(["a"], match=[["a b", "c"], ["x"]])"#, false),
        (r#"prefix_rule(["a"], match=("a",))"#, false),
        (r#"prefix_rule(["a"], not_match=["a", "a b"], match=["c"])"#, false),
        (
            r#"prefix_rule(["a"], not_match=["/x/../y/a 'b c' {d}"], justification="\"", decision="prompt")"#,
            false,
        ),
        (r#"prefix_rule([["a", "b"], ["x"], ["y", "z"]], match=["c"])"#, false),
        (r#"prefix_rule(["a"], foo=1)"#, false),
        ("prefix_rule()", false),
        (r#"load("x", "y")"#, false),
        ("print(1)", false),
        ("def f():\n  return f()\nf()", false),
        ("while True:\n  pass", false),
        ("x = (", false),
        ("def f(a, /):\n  pass", false),
        (r#"network_rule("", "ftp", "x", "")"#, false),
        (r#"network_rule("", "http", "x", "")"#, false),
        (r#"network_rule("", "http", "allow", "")"#, false),
        (r#"network_rule("* a", "http", "allow")"#, false),
        (r#"network_rule("[::1]:x", "http", "allow")"#, false),
        (r#"network_rule("[]", "http", "allow")"#, false),
        (r#"network_rule("a:80.", "http-connect", "deny")"#, true),
        (r#"network_rule("http://a", "socks5_tcp", "forbidden")"#, false),
        (r#"host_executable("git", ["git"])"#, false),
        (r#"host_executable("git", ["/a/gi"])"#, false),
        (r#"host_executable("a/git", [])"#, false),
        (r#"host_executable("", [])"#, false),
        (r#"host_executable("..", [])"#, false),
        (r#"host_executable("git", [1])"#, false),
        ("host_executable(\"git\", [])\nprefix_rule([\"git\"], match=[\"/usr/bin/git\"])", false),
        ("prefix_rule([\"git\"], match=[\"/usr/bin/git\"])\nhost_executable(\"git\", [])", false),
        ("def f(*, a: int = 1) -> str:\n  return f\"x{a}\"\nprefix_rule([f()])", true),
        ("[prefix_rule([x, str(i)]) for i, x in enumerate([\"a\"])]", true),
    ] {
        let status = pair.compare(&[text], &[], &["a", "0"]);
        assert_eq!(status, i32::from(!fine), "{text}");
    }
}

/// SplitMix64: small, and the same everywhere.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % u64::try_from(bound).unwrap()).unwrap()
    }

    fn one_in(&mut self, bound: usize) -> bool {
        self.below(bound) == 0
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len())]
    }

    fn words(&mut self, most: usize, separator: &str) -> String {
        let count = 1 + self.below(most);
        let words: Vec<String> = (0..count).map(|_| format!("{:?}", self.pick(WORDS))).collect();
        words.join(separator)
    }

    fn file(&mut self) -> String {
        (0..1 + self.below(6)).map(|_| self.statement()).collect()
    }

    fn statement(&mut self) -> String {
        match self.below(20) {
            0 => format!(
                "network_rule({:?}, 'https', 'deny')\n",
                self.pick(&["a.com", "*.b", "A.:80"])
            ),
            1..4 => {
                let paths = ["'/usr/bin/git'", "'/opt/git', '/usr/bin/git'", "", "'/a/../opt/git'"];
                format!("host_executable('git', [{}])\n", self.pick(&paths))
            }
            _ => {
                let mut pattern = Vec::new();
                for _ in 0..=self.below(3) {
                    let alternatives = self.one_in(3);
                    let words = self.words(if alternatives { 3 } else { 1 }, ", ");
                    pattern.push(if alternatives { format!("[{words}]") } else { words });
                }
                let mut call = format!("prefix_rule([{}]", pattern.join(", "));
                if !self.one_in(3) {
                    call +=
                        &format!(", decision='{}'", self.pick(&["allow", "prompt", "forbidden"]));
                }
                if self.one_in(3) {
                    call +=
                        &format!(", justification={:?}", self.pick(&["why", "\"quoted\"", "é\n"]));
                }
                for name in ["match", "not_match"] {
                    if self.one_in(8) {
                        call += &format!(", {name}=[[{}]]", self.words(3, ", "));
                    }
                }
                call + ")\n"
            }
        }
    }
}

const WORDS: &[&str] =
    &["git", "git", "ls", "status", "push", "-x", "a b", "é", "/usr/bin/git", ""];

/// Names the seed, to try other files than those of every day.
const SEED_VARIABLE: &str = "EXEC_RULES_SEED";

#[test]
fn random_files_and_commands_are_judged_alike() {
    let Some(pair) = Pair::new() else { return };
    let seed = std::env::var(SEED_VARIABLE).ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    println!("{SEED_VARIABLE}={seed}");
    let mut random = Random(seed);
    let mut loaded = 0;
    for _ in 0..200 {
        let files: Vec<String> = (0..=random.below(2)).map(|_| random.file()).collect();
        let files: Vec<&str> = files.iter().map(String::as_str).collect();
        let mut args = Vec::new();
        if !random.one_in(3) {
            args.push("--resolve-host-executables");
        }
        if random.one_in(3) {
            args.push("--pretty");
        }
        let mut command = vec![random.pick(&["git", "ls", "/usr/bin/git", "/opt/git", "./git"])];
        command.extend((0..random.below(4)).map(|_| random.pick(WORDS)).collect::<Vec<_>>());
        loaded += usize::from(pair.compare(&files, &args, &command) == 0);
    }
    assert!((80..200).contains(&loaded), "{loaded} of 200 files loaded: too few of one kind");
}
