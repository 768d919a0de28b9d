//! A program that is asked something once: it gets an empty environment, no input and little time.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// What it said and how it ended.
#[derive(Debug)]
pub(super) struct Said {
    pub(super) status: ExitStatus,
    pub(super) output: String,
    pub(super) errors: String,
}

/// Kept of each stream. A pipe holds as much, so a program that says more than that stops, and is
/// out of time: nobody reads before it has ended.
const OUTPUT_BYTES_MAX: u64 = 64 * 1024;

/// Runs the program and waits for its end, `patience` at most; then it is killed.
pub(super) fn ask(program: &Path, arguments: &[&str], patience: Duration) -> io::Result<Said> {
    let mut child = Command::new(program)
        .args(arguments)
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    if !ends_within(&child, patience)? {
        child.kill()?;
        // A program that hangs in the kernel cannot be waited for; it becomes the reaper's.
        if ends_within(&child, patience)? {
            child.wait()?;
        }
        return Err(io::Error::new(io::ErrorKind::TimedOut, "it took too long"));
    }
    let status = child.wait()?;
    let output = child.stdout.take().map_or(Ok(String::new()), |pipe| text(pipe.into()))?;
    let errors = child.stderr.take().map_or(Ok(String::new()), |pipe| text(pipe.into()))?;
    Ok(Said { status, output, errors })
}

fn ends_within(child: &Child, patience: Duration) -> io::Result<bool> {
    let pid = libc::pid_t::try_from(child.id()).map_err(io::Error::other)?;
    // SAFETY: plain numbers; the child is not waited for yet, so the number is its own.
    let descriptor = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    let descriptor = i32::try_from(descriptor).map_err(io::Error::other)?;
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: just made, and ours.
    let pidfd = unsafe { OwnedFd::from_raw_fd(descriptor) };
    readable_within(pidfd.as_raw_fd(), patience)
}

/// Whether the descriptor has something to read, or its end, before `patience` is over.
pub(super) fn readable_within(descriptor: i32, patience: Duration) -> io::Result<bool> {
    let deadline = Instant::now() + patience;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        // Rounded up, or the last millisecond would be spent turning round.
        let left = i32::try_from(left.as_millis() + 1).unwrap_or(i32::MAX);
        let mut poll = libc::pollfd { fd: descriptor, events: libc::POLLIN, revents: 0 };
        // SAFETY: one entry, alive during the call.
        match unsafe { libc::poll(&raw mut poll, 1, left) } {
            0 => return Ok(false),
            1 => return Ok(true),
            _ => {}
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// What is in the pipe now. Something left behind may hold it open, so its end is not waited for.
fn text(pipe: OwnedFd) -> io::Result<String> {
    // SAFETY: plain numbers on a descriptor that is ours.
    if unsafe { libc::fcntl(pipe.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) } < 0 {
        return Err(io::Error::last_os_error());
    }
    let mut bytes = Vec::new();
    match File::from(pipe).take(OUTPUT_BYTES_MAX).read_to_end(&mut bytes) {
        Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
        Ok(_) | Err(_) => {}
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str, patience: Duration) -> io::Result<Said> {
        ask(Path::new("/bin/sh"), &["-c", script], patience)
    }

    #[test]
    fn an_answer_in_time_and_one_too_late() {
        let said = sh("echo out; echo err >&2; exit 3", Duration::from_secs(20)).unwrap();
        assert_eq!((said.output.as_str(), said.errors.as_str()), ("out\n", "err\n"));
        assert_eq!(said.status.code(), Some(3));
        let began = Instant::now();
        for script in ["exec sleep 100", "exec yes"] {
            let error = sh(script, Duration::from_millis(100)).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::TimedOut, "{script}");
        }
        assert!(began.elapsed() < Duration::from_secs(50));
        let missing = ask(Path::new("/nonexistent"), &[], Duration::from_secs(1)).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn what_it_leaves_behind_is_not_waited_for() {
        let began = Instant::now();
        let said = sh("sleep 100 & echo $!", Duration::from_secs(20)).unwrap();
        let left_behind: i32 = said.output.trim().parse().unwrap();
        // SAFETY: plain numbers; the process was just made for this test.
        assert_eq!(unsafe { libc::kill(left_behind, libc::SIGKILL) }, 0);
        assert!(began.elapsed() < Duration::from_secs(90));
        // The environment is empty; the shell itself adds a few names.
        let said = sh("echo ${HOME-none} ${USER-none}", Duration::from_secs(20)).unwrap();
        assert_eq!(said.output, "none none\n");
    }
}
