//! Programs that run others, and how.

/// How a program can be made to run others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// A script or the text of one. Fine with a fixed script, or a fixed text after an evaluate option.
    Script,
    /// The command that follows, after so many words of its own.
    Wrapper(usize),
    /// An option that may come anywhere: no prefix is safe.
    AnyOption,
    /// Something in its arguments; fine as soon as one is fixed that is no option.
    Bare,
    /// Some of its subcommands, and its options before them.
    Subcommands(&'static [&'static str]),
}

/// Options after which the next word is a script.
pub(super) const EVALUATE: &[&str] = &[
    "-c",
    "-lc",
    "-ic",
    "-cl",
    "-ec",
    "-e",
    "-E",
    "-p",
    "-r",
    "-m",
    "-f",
    "--eval",
    "--print",
    "--command",
    "-command",
    "-Command",
    "-File",
    "eval",
    "/c",
    "/k",
    "/C",
    "/K",
];

/// Names without version: `python3.11` is `python`.
#[rustfmt::skip]
const PROGRAMS: &[(Way, &[&str])] = &[
    (
        Way::Script,
        &[
            "sh", "bash", "dash", "ash", "zsh", "ksh", "mksh", "fish", "csh", "tcsh", "rbash", "nu",
            "xonsh", "python", "pypy", "ipython", "node", "nodejs", "perl", "ruby", "irb", "php", "lua",
            "luajit", "julia", "R", "Rscript", "pwsh", "powershell", "osascript", "awk", "gawk", "mawk",
            "nawk", "tclsh", "wish", "expect", "guile", "ghci", "runghc", "erl", "elixir", "iex",
            "scala", "groovy", "jshell", "java", "ocaml", "sqlite", "psql", "mysql", "cmd", "source",
            "ts-node", "tsx",
        ],
    ),
    (
        Way::Wrapper(0),
        &[
            "env", "sudo", "doas", "xargs", "nohup", "nice", "ionice", "setsid", "stdbuf", "time",
            "exec", "command", "builtin", "eval", "strace", "ltrace", "watch", "parallel", "unshare",
            "nsenter", "bwrap", "firejail", "systemd-run", "runuser", "setpriv", "catchsegv", "busybox",
            "toybox", "proot", "fakeroot", "dbus-run-session", "xvfb-run", "uv", "npx", "pnpx", "bunx",
            "entr", "trap", "ld.so", "script", "unbuffer", "rlwrap",
        ],
    ),
    (
        Way::Wrapper(1),
        &["timeout", "flock", "taskset", "chroot", "ssh", "su", "chrt", "mosh", "rsh"],
    ),
    (
        Way::AnyOption,
        &[
            "find", "fd", "fdfind", "tar", "bsdtar", "rsync", "scp", "sftp", "sed", "gdb", "lldb", "vi",
            "vim", "nvim", "view", "ex", "ed", "emacs", "nano", "less", "more", "man", "zip", "socat",
            "ncat", "nc", "tmux", "screen", "at", "batch", "crontab", "rm",
        ],
    ),
    (
        Way::Bare,
        &[
            "make", "gmake", "ninja", "cmake", "meson", "just", "bazel", "gradle", "gradlew", "mvn",
            "ant", "scons", "rake", "tox", "nox", "poetry", "pipx", "pip", "gem", "go", "pytest",
        ],
    ),
    (Way::Subcommands(&["run", "exec", "x", "dlx", "start", "test"]), &["npm", "pnpm", "yarn"]),
    (Way::Subcommands(&["run"]), &["cargo"]),
    (Way::Subcommands(&["run", "x", "exec", "eval", "repl", "task", "test", "serve"]), &["bun", "deno"]),
    (Way::Subcommands(&["run", "exec", "create", "build"]), &["docker", "podman", "nerdctl"]),
    (Way::Subcommands(&["exec", "run", "debug"]), &["kubectl", "oc"]),
    (
        Way::Subcommands(&[
            "config", "bisect", "submodule", "filter-branch", "difftool", "mergetool", "rebase",
            "daemon", "instaweb", "credential", "send-email", "help", "hook",
        ]),
        &["git"],
    ),
];

/// How a program of this name runs others, if it does.
pub(super) fn way(name: &str) -> Option<Way> {
    let stem = name.strip_suffix(".exe").unwrap_or(name);
    let stem = stem.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.' || c == '-');
    let known = |names: &&[&str]| names.contains(&name) || names.contains(&stem);
    PROGRAMS.iter().find(|(_, names)| known(names)).map(|(way, _)| *way)
}
