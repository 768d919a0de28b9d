//! This program's own terminal: its size, and raw mode while a remote one is shown on it.

use std::io::{self, IsTerminal};
use std::mem::MaybeUninit;

/// Rows and columns of the terminal on stdout, or on stdin.
pub(crate) fn size() -> Option<(u16, u16)> {
    [libc::STDOUT_FILENO, libc::STDIN_FILENO].into_iter().find_map(size_of)
}

/// Columns of the terminal on stderr.
pub(crate) fn columns() -> Option<usize> {
    size_of(libc::STDERR_FILENO).map(|(_, columns)| usize::from(columns))
}

fn size_of(fd: libc::c_int) -> Option<(u16, u16)> {
    let mut size = MaybeUninit::<libc::winsize>::zeroed();
    // SAFETY: TIOCGWINSZ writes one winsize to the pointer, which is to a live local.
    let done = unsafe { libc::ioctl(fd, libc::TIOCGWINSZ, size.as_mut_ptr()) };
    // SAFETY: all bit patterns are a winsize, and it was zeroed.
    let size = unsafe { size.assume_init() };
    (done == 0 && size.ws_row > 0 && size.ws_col > 0).then_some((size.ws_row, size.ws_col))
}

/// While this lives, every key goes to the other side unchanged. Dropped, the terminal is as before.
pub(crate) struct RawMode(libc::termios);

impl RawMode {
    /// None when stdin is no terminal.
    pub(crate) fn enter() -> io::Result<Option<Self>> {
        if !io::stdin().is_terminal() {
            return Ok(None);
        }
        let mut before = MaybeUninit::<libc::termios>::zeroed();
        // SAFETY: tcgetattr writes one termios to the pointer, which is to a live local.
        if unsafe { libc::tcgetattr(libc::STDIN_FILENO, before.as_mut_ptr()) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: tcgetattr succeeded, so it is filled in.
        let before = unsafe { before.assume_init() };
        let mut raw = before;
        // SAFETY: cfmakeraw only changes the flags of the termios it is given.
        unsafe { libc::cfmakeraw(&mut raw) };
        set(&raw)?;
        Ok(Some(Self(before)))
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        // Nothing better can be done than to try.
        set(&self.0).ok();
    }
}

fn set(mode: &libc::termios) -> io::Result<()> {
    // SAFETY: tcsetattr reads one valid termios.
    let done = unsafe { libc::tcsetattr(libc::STDIN_FILENO, libc::TCSADRAIN, mode) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
