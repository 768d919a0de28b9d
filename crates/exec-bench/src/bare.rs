//! The same things done by a plain program, without a server: what the operating system costs.

use std::fs::File;
use std::io::{self, Read, Write as _};
use std::os::fd::{FromRawFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio as Redirect};
use std::ptr;

use anyhow::{Context as _, Result, ensure};

use crate::client::Stdio;

/// A child and our ends of its streams.
pub(crate) struct Bare {
    child: Child,
    streams: Streams,
}

enum Streams {
    Pipes { stdin: Option<File>, stdout: File, stderr: File },
    Terminal(File),
}

impl Bare {
    /// Starts a program the ordinary way.
    pub(crate) fn start(argv: &[&str], stdio: Stdio) -> Result<Self> {
        let (program, arguments) = argv.split_first().context("argv is empty")?;
        let mut command = Command::new(program);
        command.args(arguments).env_clear().env("PATH", "/usr/bin:/bin").current_dir("/");
        match stdio {
            Stdio::Tty => on_terminal(command),
            Stdio::Pipes => on_pipes(command, Redirect::null()),
            Stdio::PipedStdin => on_pipes(command, Redirect::piped()),
        }
    }

    /// Waits for the exit.
    pub(crate) fn exited(&mut self) -> Result<()> {
        ensure!(self.child.wait()?.success(), "the program failed");
        Ok(())
    }

    /// Writes to its stdin or terminal.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let input = match &mut self.streams {
            Streams::Pipes { stdin, .. } => stdin.as_mut().context("it has no stdin")?,
            Streams::Terminal(terminal) => terminal,
        };
        Ok(input.write_all(bytes)?)
    }

    /// Reads some of its output; 0 is the end.
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        match &mut self.streams {
            Streams::Pipes { stdout, .. } => Ok(stdout.read(buffer)?),
            Streams::Terminal(terminal) => Ok(read_terminal(terminal, buffer)?),
        }
    }

    /// Reads exactly so many bytes of its output.
    pub(crate) fn read_exactly(&mut self, mut bytes: usize) -> Result<()> {
        let mut buffer = [0; 4096];
        while bytes > 0 {
            let len = buffer.len().min(bytes);
            let count = self.read(&mut buffer[..len])?;
            ensure!(count > 0, "the program ended too early");
            bytes -= count;
        }
        Ok(())
    }

    /// Reads everything, and gives how much it was.
    pub(crate) fn drain(&mut self) -> Result<usize> {
        let mut buffer = vec![0; 64 << 10];
        let mut total = 0;
        loop {
            match self.read(&mut buffer)? {
                0 => break,
                count => total += count,
            }
        }
        if let Streams::Pipes { stderr, .. } = &mut self.streams {
            total += stderr.read(&mut buffer)?;
        }
        Ok(total)
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        // It may have been waited for already; then both do nothing.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn on_pipes(mut command: Command, stdin: Redirect) -> Result<Bare> {
    command.stdin(stdin).stdout(Redirect::piped()).stderr(Redirect::piped());
    let mut child = command.spawn()?;
    let stdin = child.stdin.take().map(|pipe| File::from(OwnedFd::from(pipe)));
    let stdout = OwnedFd::from(child.stdout.take().context("a pipe was asked for")?).into();
    let stderr = OwnedFd::from(child.stderr.take().context("a pipe was asked for")?).into();
    Ok(Bare { child, streams: Streams::Pipes { stdin, stdout, stderr } })
}

fn on_terminal(mut command: Command) -> Result<Bare> {
    let (ours, theirs) = open_terminal()?;
    command.stdin(theirs.try_clone()?).stdout(theirs.try_clone()?).stderr(theirs);
    // SAFETY: between fork and exec only async-signal-safe code may run. `setsid` is listed as such,
    // `ioctl` is a bare system call, and nothing here allocates, locks or captures.
    unsafe {
        command.pre_exec(|| {
            match libc::setsid() != -1 && libc::ioctl(0, libc::TIOCSCTTY, 0) == 0 {
                true => Ok(()),
                false => Err(io::Error::last_os_error()),
            }
        });
    }
    // Its end of the terminal closes with `command`, which is dropped here.
    Ok(Bare { child: command.spawn()?, streams: Streams::Terminal(ours.into()) })
}

/// Our end of a new terminal, and the child's.
fn open_terminal() -> Result<(OwnedFd, OwnedFd)> {
    let (mut ours, mut theirs) = (-1, -1);
    let (name, settings, size) = (ptr::null_mut(), ptr::null(), ptr::null());
    // SAFETY: both numbers live during the call; the null pointers ask for the defaults.
    let result = unsafe { libc::openpty(&raw mut ours, &raw mut theirs, name, settings, size) };
    ensure!(result == 0, "no terminal: {}", io::Error::last_os_error());
    // SAFETY: the call succeeded, so both are open, and nobody else owns them.
    let ends = unsafe { (OwnedFd::from_raw_fd(ours), OwnedFd::from_raw_fd(theirs)) };
    // A child that inherited our end would keep the terminal from ever closing.
    // SAFETY: the descriptor is open, and setting a flag touches no memory.
    let result = unsafe { libc::fcntl(ours, libc::F_SETFD, libc::FD_CLOEXEC) };
    ensure!(result == 0, "no terminal: {}", io::Error::last_os_error());
    Ok(ends)
}

/// The kernel tells the end of a terminal by an error.
fn read_terminal(terminal: &mut File, buffer: &mut [u8]) -> io::Result<usize> {
    match terminal.read(buffer) {
        Err(error) if error.raw_os_error() == Some(libc::EIO) => Ok(0),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_the_same_on_pipes_and_on_a_terminal() {
        for stdio in [Stdio::Pipes, Stdio::Tty] {
            let mut child = Bare::start(&["/bin/sh", "-c", "printf abc"], stdio).unwrap();
            assert_eq!(child.drain().unwrap(), 3, "{stdio:?}");
            child.exited().unwrap();
        }
    }

    #[test]
    fn what_is_written_comes_back() {
        let mut child = Bare::start(&["/bin/cat"], Stdio::PipedStdin).unwrap();
        child.write(b"hello").unwrap();
        child.read_exactly(5).unwrap();
    }
}
