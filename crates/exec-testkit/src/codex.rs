//! The real codex, the reference at either end of the protocol.
//!
//! The native binary is run, not the Node wrapper, so that signals and process trees are plain.

use std::fmt;
use std::fs::{self, File};
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context as _;

/// The release that we are compatible with.
pub const CODEX_VERSION: &str = "0.166.0";

/// Why a test cannot run here. It hands the reason to [`skip`](crate::skip) and returns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skip(pub String);

impl fmt::Display for Skip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SKIPPED: {}", self.0)
    }
}

/// The native codex binary: `$CODEX_BIN`, or the one in the workspace's cache, which npm fills when
/// it is empty.
pub fn codex_binary() -> Result<PathBuf, Skip> {
    let binary = match std::env::var_os("CODEX_BIN") {
        Some(path) => PathBuf::from(path),
        None => cached_binary().map_err(|error| Skip(format!("no codex binary: {error:#}")))?,
    };
    check_version(&binary).map_err(|error| Skip(format!("{}: {error:#}", binary.display())))?;
    Ok(binary)
}

fn cached_binary() -> anyhow::Result<PathBuf> {
    let cache = workspace_dir().join(".cache/codex");
    fs::create_dir_all(&cache)?;
    // Test binaries run side by side: one installs, the others wait and find its work.
    let _lock = lock(&cache.join("lock"))?;
    if let Some(binary) = find_native(&cache) {
        return Ok(binary);
    }
    let output = Command::new("npm")
        .args(["install", "--no-audit", "--no-fund", "--fetch-retries=1", "--prefix"])
        .arg(&cache)
        .arg(format!("@openai/codex@{CODEX_VERSION}"))
        .stdin(Stdio::null())
        .output()
        .context("cannot run npm")?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    find_native(&cache).with_context(|| {
        format!("npm install: {}: {}", output.status, complaint.lines().next().unwrap_or_default())
    })
}

/// `node_modules/@openai/codex-linux-*/vendor/*/bin/codex`
fn find_native(cache: &Path) -> Option<PathBuf> {
    children(&cache.join("node_modules/@openai"))
        .filter(|package| {
            package
                .file_name()
                .is_some_and(|name| name.as_encoded_bytes().starts_with(b"codex-linux-"))
        })
        .flat_map(|package| children(&package.join("vendor")))
        .map(|target| target.join("bin/codex"))
        .find(|binary| binary.is_file())
}

fn children(directory: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path())
}

/// Holds an exclusive lock for as long as the file lives.
fn lock(path: &Path) -> anyhow::Result<File> {
    let file = File::create(path)?;
    // SAFETY: the descriptor belongs to `file`, which outlives the call; nothing else is passed.
    if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX) } != 0 {
        return Err(std::io::Error::last_os_error()).context("cannot lock the cache");
    }
    Ok(file)
}

fn check_version(binary: &Path) -> anyhow::Result<()> {
    let home = CodexHome::new()?;
    let output = Command::new(binary).arg("--version").env("CODEX_HOME", home.path()).output()?;
    let version = String::from_utf8_lossy(&output.stdout);
    let version = version.trim();
    anyhow::ensure!(version.ends_with(CODEX_VERSION), "is {version:?}, not {CODEX_VERSION}");
    Ok(())
}

/// A fresh `CODEX_HOME`, removed on drop. Not below `/tmp`: codex refuses to put its helper links
/// there.
pub struct CodexHome {
    directory: tempfile::TempDir,
}

impl CodexHome {
    /// Makes an empty home in the workspace's cache, or in the user's where the workspace itself
    /// lies in the temporary directory.
    pub fn new() -> anyhow::Result<Self> {
        let mut homes = workspace_dir().join(".cache/homes");
        if homes.starts_with(std::env::temp_dir()) || homes.starts_with("/tmp") {
            let user = std::env::var_os("HOME").context("HOME is not set")?;
            homes = Path::new(&user).join(".cache/exec-server-tests/homes");
        }
        fs::create_dir_all(&homes)?;
        Ok(Self { directory: tempfile::Builder::new().prefix("home-").tempdir_in(homes)? })
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// `codex exec-server`, in this home; the caller adds `--listen`.
    pub fn exec_server(&self, binary: &Path) -> Command {
        let mut command = Command::new(binary);
        command.arg("exec-server").env("CODEX_HOME", self.path());
        command
    }
}

/// The root of the workspace that this crate belongs to.
pub fn workspace_dir() -> PathBuf {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent();
    crates.and_then(Path::parent).expect("the crate lies two levels below the workspace").into()
}
