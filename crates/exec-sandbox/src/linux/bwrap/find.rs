//! Which bubblewrap: from fixed places, never from a request's `PATH`, and only one that nobody but
//! root can have changed. It runs outside the sandbox, so whoever can replace it is outside too.

use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::linux::bounded;

/// Where distributions put it.
const FIXED: &[&str] = &["/usr/bin/bwrap", "/bin/bwrap", "/usr/local/bin/bwrap"];

/// Without one of these it is too old for us.
const REQUIRED: &[&str] = &[
    "--args",
    "--as-pid-1",
    "--bind",
    "--bind-try",
    "--cap-drop",
    "--dev",
    "--die-with-parent",
    "--dir",
    "--info-fd",
    "--perms",
    "--proc",
    "--remount-ro",
    "--ro-bind",
    "--tmpfs",
    "--unshare-ipc",
    "--unshare-net",
    "--unshare-pid",
    "--unshare-user",
    "--unshare-uts",
];
const DISABLE_USERNS: &str = "--disable-userns";

/// Where to look.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Places {
    /// The operator's choice. Then nothing else is tried.
    pub operator: Option<PathBuf>,
    /// The server's own program; a copy may lie in `resources` beside it.
    pub server: Option<PathBuf>,
}

/// A bubblewrap that may be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bwrap {
    /// Free of links.
    pub path: PathBuf,
    /// As it says itself.
    pub version: String,
    /// Whether it can forbid user namespaces inside.
    pub disable_userns: bool,
}

/// One that may not, or is not there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejected {
    /// Where it was looked for.
    pub path: PathBuf,
    /// Why not.
    pub why: Rejection,
}

/// Why a bubblewrap is not used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rejection {
    /// There is none.
    Missing,
    /// It is not a program.
    NotAProgram,
    /// Somebody else than root owns it, or a directory above.
    Owner(PathBuf),
    /// Others can write it, or a directory above.
    Writable(PathBuf),
    /// It could not be asked what it can do.
    Silent(String),
    /// It is too old: this option is missing.
    Lacks(&'static str),
}

impl fmt::Display for Rejected {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        match &self.why {
            Rejection::Missing => write!(formatter, "{path} does not exist"),
            Rejection::NotAProgram => write!(formatter, "{path} is not a program"),
            Rejection::Owner(at) => {
                write!(formatter, "{path} is not used: {} does not belong to root", at.display())
            }
            Rejection::Writable(at) => {
                write!(formatter, "{path} is not used: others can write to {}", at.display())
            }
            Rejection::Silent(why) => write!(formatter, "{path} does not answer: {why}"),
            Rejection::Lacks(option) => {
                write!(formatter, "{path} is too old: it has no {option}")
            }
        }
    }
}

/// The first that may be used, or why none of them may.
pub fn find(places: &Places, patience: Duration) -> Result<Bwrap, Vec<Rejected>> {
    let mut rejected = Vec::new();
    for path in candidates(places) {
        match examine(&path, patience) {
            Ok(found) => return Ok(found),
            Err(why) => rejected.push(Rejected { path, why }),
        }
    }
    Err(rejected)
}

fn candidates(places: &Places) -> Vec<PathBuf> {
    if let Some(path) = &places.operator {
        return vec![path.clone()];
    }
    let beside = places.server.as_deref().and_then(Path::parent);
    let beside = beside.map(|directory| directory.join("resources/bwrap"));
    FIXED.iter().map(PathBuf::from).chain(beside).collect()
}

fn examine(path: &Path, patience: Duration) -> Result<Bwrap, Rejection> {
    let path = fs::canonicalize(path).map_err(|error| match error.raw_os_error() {
        Some(libc::ENOENT | libc::ENOTDIR) => Rejection::Missing,
        _ => silent(error),
    })?;
    only_root_can_change(&path)?;
    let metadata = fs::metadata(&path).map_err(silent)?;
    if !metadata.is_file() || metadata.permissions().mode() & 0o111 == 0 {
        return Err(Rejection::NotAProgram);
    }
    let help = ask(&path, "--help", patience)?;
    let version = ask(&path, "--version", patience)?;
    let has = |option: &str| help.split_whitespace().any(|word| word == option);
    if let Some(missing) = REQUIRED.iter().find(|option| !has(option)) {
        return Err(Rejection::Lacks(missing));
    }
    let version = version.lines().next().unwrap_or_default().to_owned();
    Ok(Bwrap { path, version, disable_userns: has(DISABLE_USERNS) })
}

/// The file and every directory above it belong to root and nobody else may write there. A sticky
/// directory will not do: one may make files in it, and what is checked here is where we look.
fn only_root_can_change(path: &Path) -> Result<(), Rejection> {
    for at in path.ancestors() {
        let metadata = fs::symlink_metadata(at).map_err(silent)?;
        if metadata.uid() != 0 {
            return Err(Rejection::Owner(at.to_owned()));
        }
        if metadata.permissions().mode() & 0o022 != 0 {
            return Err(Rejection::Writable(at.to_owned()));
        }
    }
    Ok(())
}

fn silent(error: io::Error) -> Rejection {
    Rejection::Silent(error.to_string())
}

fn ask(path: &Path, question: &str, patience: Duration) -> Result<String, Rejection> {
    let said = bounded::ask(path, &[question], patience).map_err(silent)?;
    match said.status.success() {
        // Some versions write their help as errors.
        true => Ok(said.output + &said.errors),
        false => Err(Rejection::Silent(format!("{question} ended with {}", said.status))),
    }
}

impl Bwrap {
    /// Whether a command could have changed it: it lies where the command may write, and the command
    /// is root. To anybody else root's files are closed wherever they lie.
    pub fn is_within_reach(&self, writable: &[PathBuf], server_is_root: bool) -> bool {
        server_is_root && writable.iter().any(|root| self.path.starts_with(root))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(20);

    #[test]
    fn the_places_in_their_order() {
        let server = Some(PathBuf::from("/opt/x/bin/exec-server"));
        let places = Places { operator: None, server: server.clone() };
        let found = candidates(&places);
        let last = PathBuf::from("/opt/x/bin/resources/bwrap");
        assert_eq!(found.len(), FIXED.len() + 1);
        assert_eq!((found.first(), found.last()), (Some(&FIXED[0].into()), Some(&last)));
        let places = Places { operator: Some("/opt/bwrap".into()), server };
        assert_eq!(candidates(&places), vec![PathBuf::from("/opt/bwrap")]);
    }

    #[test]
    fn one_that_anybody_can_change_is_not_used() {
        // Below the directory for temporary files, which anybody may write to.
        let dir = tempfile::tempdir().unwrap();
        let copy = dir.path().join("bwrap");
        fs::write(&copy, "#!/bin/sh\necho \"$0 was run\" > \"$0.ran\"\n").unwrap();
        fs::set_permissions(&copy, fs::Permissions::from_mode(0o755)).unwrap();
        let places = Places { operator: Some(copy.clone()), server: None };
        let rejected = find(&places, PATIENCE).unwrap_err();
        let [Rejected { why, path }] = rejected.as_slice() else { panic!("{rejected:?}") };
        assert_eq!(path, &copy);
        assert!(matches!(why, Rejection::Owner(_) | Rejection::Writable(_)), "{why:?}");
        assert!(!dir.path().join("bwrap.ran").exists(), "it must not even be asked");
    }

    #[test]
    fn others_are_rejected_with_a_reason() {
        let check = |path: &str, expected: Rejection| {
            let places = Places { operator: Some(path.into()), server: None };
            let rejected = find(&places, PATIENCE).unwrap_err();
            assert_eq!(rejected, vec![Rejected { path: path.into(), why: expected }]);
        };
        check("/nonexistent/bwrap", Rejection::Missing);
        check("/etc/passwd/bwrap", Rejection::Missing);
        check("/etc/passwd", Rejection::NotAProgram);
        check("/usr/bin", Rejection::NotAProgram);
        check("/bin/false", Rejection::Silent("--help ended with exit status: 1".into()));
        check("/bin/true", Rejection::Lacks("--args"));
    }

    #[test]
    fn one_within_a_commands_reach() {
        let bwrap =
            |path: &str| Bwrap { path: path.into(), version: String::new(), disable_userns: false };
        let system = bwrap("/usr/bin/bwrap");
        let roots = |roots: &[&str]| roots.iter().map(PathBuf::from).collect::<Vec<_>>();
        for (writable, root, expected) in [
            (&[][..], true, false),
            (&["/srv"], true, false),
            (&["/srv", "/"], true, true),
            (&["/srv", "/"], false, false),
            (&["/usr/bin"], true, true),
            (&["/usr/b"], true, false),
        ] {
            let found = system.is_within_reach(&roots(writable), root);
            assert_eq!(found, expected, "{writable:?} {root}");
        }
    }

    #[test]
    fn every_rejection_reads_as_a_sentence() {
        let path = PathBuf::from("/x/bwrap");
        let read = |why| Rejected { path: path.clone(), why }.to_string();
        assert_eq!(read(Rejection::Missing), "/x/bwrap does not exist");
        assert_eq!(read(Rejection::NotAProgram), "/x/bwrap is not a program");
        assert_eq!(
            read(Rejection::Owner("/x".into())),
            "/x/bwrap is not used: /x does not belong to root"
        );
        assert_eq!(
            read(Rejection::Writable("/x".into())),
            "/x/bwrap is not used: others can write to /x"
        );
        assert_eq!(read(Rejection::Silent("no".into())), "/x/bwrap does not answer: no");
        assert_eq!(read(Rejection::Lacks("--perms")), "/x/bwrap is too old: it has no --perms");
    }
}
