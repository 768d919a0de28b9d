//! What to run, checked and in the form the system call wants it.

use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use exec_protocol::process::TerminalSize;

use crate::env::Environment;
use crate::error::Error;
use crate::limits::Limits;
use crate::sys::ChildStdio;

/// Where the C library looks when there is no `PATH`.
const DEFAULT_PATH: &[u8] = b"/bin:/usr/bin";

/// A command, complete: nothing else of the server's state reaches the child.
#[derive(Debug, Clone)]
pub struct Spec {
    /// Program and arguments.
    pub argv: Vec<String>,
    /// What the program sees as its own name, if not `argv[0]`.
    pub arg0: Option<String>,
    /// Absolute working directory.
    pub cwd: PathBuf,
    /// The whole environment.
    pub env: Environment,
    /// What its descriptors 0 to 2 are.
    pub stdio: Stdio,
    /// What it may use.
    pub limits: Limits,
    /// Whether somebody asked what it used.
    pub tells_usage: bool,
}

/// What a child's descriptors 0 to 2 are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stdio {
    /// Separate pipes for output.
    Pipes {
        /// A pipe for input too; else it reads from `/dev/null`.
        stdin: bool,
    },
    /// A socket for input and answers, and one pipe for all output.
    Socket,
    /// One terminal for all three.
    Terminal(TerminalSize),
}

impl Stdio {
    pub(crate) fn for_child(self) -> ChildStdio {
        match self {
            Stdio::Pipes { stdin } => ChildStdio::Pipes { stdin },
            Stdio::Socket => ChildStdio::Socket,
            Stdio::Terminal(size) => ChildStdio::Pty { rows: size.rows, cols: size.cols },
        }
    }
}

/// The strings of one `execve`.
#[derive(Debug)]
pub struct ExecStrings {
    /// The arguments as the program sees them, its own name first.
    pub argv: Vec<CString>,
    /// The files to try, in order.
    pub candidates: Vec<CString>,
    /// The environment, as `NAME=value`.
    pub env: Vec<CString>,
    /// The working directory.
    pub cwd: CString,
}

impl Spec {
    /// What the system call wants, or why there is no such thing.
    pub fn exec_strings(&self) -> Result<ExecStrings, Error> {
        let program = self.argv.first().ok_or(Error::NoProgram)?;
        if program.is_empty() {
            return Err(Error::NoProgram);
        }
        let shown = self.arg0.as_ref().unwrap_or(program);
        let argv = std::iter::once(shown).chain(&self.argv[1..]);
        let argv = argv
            .map(|arg| CString::new(arg.as_bytes()).map_err(|_| Error::NulInArgv))
            .collect::<Result<_, _>>()?;
        Ok(ExecStrings {
            argv,
            candidates: self.candidates(program)?,
            env: self.env.iter().map(variable).collect::<Result<_, _>>()?,
            cwd: c_path(&self.cwd)?,
        })
    }

    /// The files to try, in order. A name with a slash is a path from `cwd`; others are looked for
    /// along the *child's* `PATH`.
    fn candidates(&self, program: &str) -> Result<Vec<CString>, Error> {
        let program = program.as_bytes();
        if program.contains(&b'/') {
            return Ok(vec![CString::new(program).map_err(|_| Error::NulInArgv)?]);
        }
        let path = self.env.get(OsStr::new("PATH")).map_or(DEFAULT_PATH, |path| path.as_bytes());
        path.split(|&byte| byte == b':')
            .map(|directory| {
                let directory = if directory.is_empty() { b"." } else { directory };
                CString::new([directory, b"/", program].concat()).map_err(|_| Error::NulInArgv)
            })
            .collect()
    }
}

fn variable((name, value): (&std::ffi::OsString, &std::ffi::OsString)) -> Result<CString, Error> {
    CString::new([name.as_bytes(), b"=", value.as_bytes()].concat()).map_err(|_| Error::NulInEnv)
}

fn c_path(path: &Path) -> Result<CString, Error> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| Error::NulInArgv)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(argv: &[&str], path: Option<&str>) -> Spec {
        Spec {
            argv: argv.iter().map(|arg| (*arg).to_owned()).collect(),
            arg0: None,
            cwd: "/".into(),
            env: path.map(|path| ("PATH".into(), path.into())).into_iter().collect(),
            stdio: Stdio::Pipes { stdin: false },
            limits: Limits::default(),
            tells_usage: false,
        }
    }

    fn candidates(argv: &[&str], path: Option<&str>) -> String {
        let strings = spec(argv, path).exec_strings().unwrap();
        let shown = strings.candidates.iter().map(|path| path.to_str().unwrap());
        shown.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn programs_are_looked_for_along_the_childs_path() {
        assert_eq!(candidates(&["x"], Some("/a::/b")), "/a/x ./x /b/x");
        assert_eq!(candidates(&["x"], None), "/bin/x /usr/bin/x");
        assert_eq!(candidates(&["./x"], Some("/a")), "./x");
    }

    #[test]
    fn what_cannot_be_executed_is_refused_before_a_fork() {
        let refused = |argv: &[&str]| spec(argv, None).exec_strings().unwrap_err().to_string();
        assert_eq!(refused(&[]), "missing program for pipe spawn");
        assert_eq!(refused(&[""]), "missing program for pipe spawn");
        assert_eq!(refused(&["x", "a\0b"]), "nul byte found in provided data");
        let mut env = spec(&["x"], None);
        env.env.insert("A".into(), "\0".into());
        assert_eq!(
            env.exec_strings().unwrap_err().to_string(),
            "data provided contains a nul byte"
        );
    }

    #[test]
    fn arg0_is_only_what_the_program_sees() {
        let mut named = spec(&["/bin/true", "x"], None);
        named.arg0 = Some("other".into());
        let strings = named.exec_strings().unwrap();
        assert_eq!(strings.argv[0].to_str(), Ok("other"));
        assert_eq!(strings.candidates[0].to_str(), Ok("/bin/true"));
    }
}
