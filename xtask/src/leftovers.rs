//! Servers that outlive the tests that started them. Whatever the gate starts carries a marker in its
//! environment, so nobody else's processes are blamed.

use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// What a server and its guardian are called.
const NAMES: [&str; 2] = ["exec-server", "exec-guard"];
/// A server that was told to end just now may take so long.
const PATIENCE: Duration = Duration::from_secs(5);
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// An assignment that no other run has in its environment.
pub(crate) fn marker() -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let nanos = now.map_or(0, |now| now.as_nanos());
    format!("EXEC_CI_RUN={}-{nanos}", std::process::id())
}

/// Fails if a server, a guardian or a test that plays one stays, and has the marker.
pub(crate) fn check(marker: &str) -> Result<()> {
    // Tests are built where this tool is.
    let exe = std::env::current_exe()?;
    let builds = exe.parent().unwrap_or(&exe);
    let deadline = Instant::now() + PATIENCE;
    loop {
        let left = find(marker, builds);
        if left.is_empty() {
            return Ok(());
        }
        if Instant::now() > deadline {
            bail!("still running: {}", left.join(", "));
        }
        sleep(POLL_INTERVAL);
    }
}

fn find(marker: &str, builds: &Path) -> Vec<String> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| describe(&entry.path(), marker, builds)).collect()
}

/// The process in words, if it is one of those. One that ends meanwhile is not.
fn describe(directory: &Path, marker: &str, builds: &Path) -> Option<String> {
    let pid: u32 = directory.file_name()?.to_str()?.parse().ok()?;
    let comm = fs::read_to_string(directory.join("comm")).ok()?;
    let exe = fs::read_link(directory.join("exe")).ok()?;
    let environ = fs::read(directory.join("environ")).ok()?;
    (is_ours(comm.trim_end(), &exe, builds) && has_marker(&environ, marker))
        .then(|| format!("{} ({pid})", comm.trim_end()))
}

/// By its name, or because it was built here.
fn is_ours(comm: &str, exe: &Path, builds: &Path) -> bool {
    NAMES.contains(&comm) || exe.starts_with(builds)
}

fn has_marker(environ: &[u8], marker: &str) -> bool {
    environ.split(|&byte| byte == 0).any(|entry| entry == marker.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_known_by_their_name_or_their_place() {
        let check = |comm, exe: &str| is_ours(comm, Path::new(exe), Path::new("/t/debug"));
        assert!(check("exec-guard", "/usr/bin/x"));
        assert!(check("renamed", "/t/debug/exec-server (deleted)"));
        assert!(check("no_orphan-1234", "/t/debug/deps/no_orphan-1234"));
        assert!(!check("exec-server-tes", "/t/debugger/x"));
    }

    #[test]
    fn a_marker_is_a_whole_entry() {
        assert!(has_marker(b"A=1\0EXEC_CI_RUN=1-2\0", "EXEC_CI_RUN=1-2"));
        assert!(!has_marker(b"A=1\0EXEC_CI_RUN=1-23\0", "EXEC_CI_RUN=1-2"));
        assert!(!has_marker(b"", "EXEC_CI_RUN=1-2"));
    }

    #[test]
    fn nobody_else_has_a_fresh_marker() {
        check(&marker()).unwrap();
    }
}
