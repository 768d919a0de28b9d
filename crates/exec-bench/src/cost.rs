//! What `/proc` tells of a server and its helpers: processor time, memory, threads, wake-ups.

use std::fs;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

/// A server and the helpers it had when it was looked at first.
#[derive(Debug, Clone)]
pub(crate) struct Family {
    pids: Vec<i32>,
}

impl Family {
    /// The process and all its descendants. To be asked while no command runs.
    pub(crate) fn of(pid: u32) -> Result<Self> {
        let parents: Vec<(i32, i32)> = fs::read_dir("/proc")?
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .filter_map(|pid: i32| Some((pid, parent(pid)?)))
            .collect();
        let mut pids = vec![i32::try_from(pid)?];
        let mut at = 0;
        while let Some(&pid) = pids.get(at) {
            pids.extend(parents.iter().filter(|(_, parent)| *parent == pid).map(|(pid, _)| pid));
            at += 1;
        }
        Ok(Self { pids })
    }

    /// This process alone.
    pub(crate) fn own() -> Result<Self> {
        Ok(Self { pids: vec![i32::try_from(std::process::id())?] })
    }

    /// Processor time so far, threads that ended included.
    pub(crate) fn cpu(&self) -> Result<Duration> {
        self.pids.iter().map(|pid| cpu(*pid)).sum()
    }

    /// Resident memory of the server and its helpers, pages they share counted for each.
    pub(crate) fn rss_kib(&self) -> Result<f64> {
        self.pids.iter().map(|pid| field(&format!("/proc/{pid}/status"), "VmRSS:")).sum()
    }

    /// Resident memory, shared pages divided among those who share them.
    pub(crate) fn pss_kib(&self) -> Result<f64> {
        self.pids.iter().map(|pid| field(&format!("/proc/{pid}/smaps_rollup"), "Pss:")).sum()
    }

    /// Threads of the server and its helpers.
    pub(crate) fn threads(&self) -> Result<f64> {
        self.pids.iter().map(|pid| field(&format!("/proc/{pid}/status"), "Threads:")).sum()
    }

    /// How often a thread has gone to sleep.
    pub(crate) fn sleeps(&self) -> Result<f64> {
        let mut sum = 0.0;
        for pid in &self.pids {
            for task in fs::read_dir(format!("/proc/{pid}/task"))?.flatten() {
                let status = task.path().join("status");
                sum += field(&status.to_string_lossy(), "voluntary_ctxt_switches:")?;
            }
        }
        Ok(sum)
    }

    /// The size of the server's binary.
    pub(crate) fn binary_bytes(&self) -> Result<u64> {
        let pid = self.pids.first().context("a family has a head")?;
        Ok(fs::metadata(format!("/proc/{pid}/exe"))?.len())
    }
}

/// Whether a process has neither exited nor been killed. A zombie has.
pub(crate) fn is_alive(pid: i32) -> bool {
    stat(pid).is_some_and(|(state, _)| !matches!(state, 'Z' | 'X'))
}

fn parent(pid: i32) -> Option<i32> {
    stat(pid).map(|(_, parent)| parent)
}

/// The third and fourth field of `/proc/PID/stat`. The second, a name in parentheses, may hold any
/// character.
fn stat(pid: i32) -> Option<(char, i32)> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = text[text.rfind(')')? + 1..].split_ascii_whitespace();
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

fn field(path: &str, name: &str) -> Result<f64> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {path}"))?;
    let value = text.lines().find_map(|line| line.strip_prefix(name));
    let value = value.and_then(|value| value.split_ascii_whitespace().next());
    Ok(value.with_context(|| format!("no {name} in {path}"))?.parse()?)
}

/// The process's clock of processor time: the same sum as in `/proc/PID/stat`, but in nanoseconds
/// instead of hundredths of a second.
fn cpu(pid: i32) -> Result<Duration> {
    let mut clock: libc::clockid_t = 0;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `clock` lives during the call, which writes to it and keeps nothing.
    let error = unsafe { libc::clock_getcpuclockid(pid, &raw mut clock) };
    ensure!(error == 0, "process {pid} is gone");
    // SAFETY: `time` lives during the call, which writes to it and keeps nothing.
    let result = unsafe { libc::clock_gettime(clock, &raw mut time) };
    ensure!(result == 0, "process {pid} is gone");
    Ok(Duration::new(u64::try_from(time.tv_sec)?, u32::try_from(time.tv_nsec)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_a_cost() {
        let own = Family::own().unwrap();
        let before = own.cpu().unwrap();
        let mut sum = 0_u64;
        while own.cpu().unwrap() - before < Duration::from_millis(2) {
            sum = std::hint::black_box(sum + 1);
        }
        assert!(own.rss_kib().unwrap() > 100.0);
        assert!(own.pss_kib().unwrap() > 10.0);
        assert!(own.threads().unwrap() >= 1.0);
        assert!(own.sleeps().unwrap() >= 0.0);
        assert!(own.binary_bytes().unwrap() > 1000);
    }

    #[test]
    fn descendants_belong_to_the_family_and_the_dead_are_dead() {
        let mut child = std::process::Command::new("/bin/sleep").arg("100").spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let family = Family::of(std::process::id()).unwrap();
        assert!(family.pids.contains(&pid));
        assert!(is_alive(pid));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!is_alive(pid));
    }
}
