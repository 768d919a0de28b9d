//! What a process holds on to, as `/proc` shows it: descriptors, threads, descendants, and the
//! processes that a test marked.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Number of open descriptors.
pub fn descriptor_count(pid: u32) -> Result<usize> {
    entry_count(pid, "fd")
}

/// Number of threads.
pub fn thread_count(pid: u32) -> Result<usize> {
    entry_count(pid, "task")
}

fn entry_count(pid: u32, directory: &str) -> Result<usize> {
    let path = format!("/proc/{pid}/{directory}");
    Ok(fs::read_dir(&path).with_context(|| format!("cannot list {path}"))?.count())
}

/// Whether the process exists and is more than a zombie.
pub fn is_alive(pid: u32) -> bool {
    stat(pid).is_some_and(|stat| stat.state != 'Z' && stat.state != 'X')
}

/// Live processes below `pid`, at any depth, without `pid` itself. Children that were given to
/// another parent when theirs died are not found; mark them and use [`marked`].
pub fn descendants(pid: u32) -> Vec<u32> {
    let parents: Vec<(u32, u32)> = all_pids()
        .filter(|pid| is_alive(*pid))
        .filter_map(|pid| Some((pid, stat(pid)?.parent)))
        .collect();
    let mut found = vec![pid];
    let mut next = 0;
    while let Some(&parent) = found.get(next) {
        found.extend(parents.iter().filter(|(_, p)| *p == parent).map(|(child, _)| *child));
        next += 1;
    }
    found.split_off(1)
}

/// Live processes, other than this one, whose command line or environment contains `marker`.
pub fn marked(marker: &str) -> Vec<u32> {
    let contains = |pid: u32, file: &str| {
        fs::read(format!("/proc/{pid}/{file}"))
            .is_ok_and(|bytes| bytes.windows(marker.len()).any(|part| part == marker.as_bytes()))
    };
    all_pids()
        .filter(|pid| *pid != std::process::id() && is_alive(*pid))
        .filter(|pid| contains(*pid, "cmdline") || contains(*pid, "environ"))
        .collect()
}

fn all_pids() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

struct Stat {
    state: char,
    parent: u32,
}

fn stat(pid: u32) -> Option<Stat> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the program's name in parentheses, which may itself contain blanks and
    // parentheses; what follows the last one is regular.
    let mut fields = text.rsplit_once(')')?.1.split_ascii_whitespace();
    Some(Stat { state: fields.next()?.chars().next()?, parent: fields.next()?.parse().ok()? })
}

/// Asks `condition` again and again until it holds; an error naming `what` when `patience` ends.
pub async fn wait_until(
    patience: Duration,
    what: &str,
    mut condition: impl FnMut() -> bool,
) -> Result<()> {
    let deadline = Instant::now() + patience;
    while !condition() {
        if Instant::now() > deadline {
            bail!("waited {patience:?} in vain: {what}");
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[tokio::test]
    async fn a_marked_grandchild_is_found_until_it_is_gone() {
        let marker = format!("testkit-marker-{}", std::process::id());
        let mut shell = Command::new("/bin/sh")
            .args(["-c", "/bin/sleep 100 & wait"])
            .env("MARKER", &marker)
            .spawn()
            .unwrap();
        let patience = Duration::from_secs(10);
        wait_until(patience, "two marked processes", || marked(&marker).len() == 2).await.unwrap();
        let below = descendants(shell.id());
        assert_eq!(below.len(), 1);
        assert!(descendants(std::process::id()).contains(&below[0]));
        assert!(descriptor_count(below[0]).unwrap() >= 3);
        assert_eq!(thread_count(below[0]).unwrap(), 1);
        for pid in [below[0], shell.id()] {
            Command::new("kill").args(["-KILL", &pid.to_string()]).status().unwrap();
        }
        // The shell stays a zombie until it is waited for, and is not alive for all that.
        wait_until(patience, "both gone", || marked(&marker).is_empty()).await.unwrap();
        shell.wait().unwrap();
        let error = wait_until(Duration::ZERO, "never", || false).await.unwrap_err();
        assert!(error.to_string().ends_with("in vain: never"));
    }
}
