//! How far a copy is, in one line on a terminal.

use std::io::{IsTerminal, Write};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use exec_client::files::Progress;

use super::printable;
use crate::terminal;

/// Between two lines, so that showing costs nothing.
const STEP: Duration = Duration::from_millis(100);

/// Columns of a terminal that does not say.
const COLUMNS: usize = 80;

/// Writes to stderr, and only if that is a terminal.
pub(super) struct Bar {
    begun: Instant,
    /// When the last line was written. `None` where nothing is shown.
    shown: Option<Mutex<Option<Instant>>>,
}

impl Bar {
    pub(super) fn new(quiet: bool) -> Self {
        let visible = !quiet && std::io::stderr().is_terminal();
        Self { begun: Instant::now(), shown: visible.then(Mutex::default) }
    }

    pub(super) fn show(&self, progress: &Progress<'_>) {
        let Some(shown) = &self.shown else { return };
        let now = Instant::now();
        let mut shown = shown.lock().unwrap_or_else(PoisonError::into_inner);
        if shown.is_some_and(|last| now < last + STEP) {
            return;
        }
        *shown = Some(now);
        let columns = terminal::columns().unwrap_or(COLUMNS);
        let line = line(progress, now - self.begun, columns);
        // A terminal that does not take it loses a line.
        write!(std::io::stderr().lock(), "\r{line}\x1b[K").ok();
    }

    /// Leaves the line empty for whatever comes next.
    pub(super) fn clear(&self) {
        if let Some(shown) = &self.shown
            && shown.lock().unwrap_or_else(PoisonError::into_inner).take().is_some()
        {
            write!(std::io::stderr().lock(), "\r\x1b[K").ok();
        }
    }
}

fn line(progress: &Progress<'_>, elapsed: Duration, columns: usize) -> String {
    let Progress { files_done, bytes_done, files_known, bytes_known, current } = *progress;
    let percent = (bytes_done * 100).checked_div(bytes_known).unwrap_or(100).min(100);
    let ms = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX).max(1);
    let rate = bytes_done.saturating_mul(1000) / ms;
    let text = format!(
        "{percent:>3}%  {} of {}  {}/s  {files_done}/{files_known} files  {}",
        size(bytes_done),
        size(bytes_known),
        size(rate),
        printable(current),
    );
    // One column is left, so that no terminal begins another line.
    text.chars().take(columns.saturating_sub(1)).collect()
}

fn size(bytes: u64) -> String {
    let (mut whole, mut tenth, mut unit) = (bytes, 0, "B");
    for next in ["KiB", "MiB", "GiB", "TiB"] {
        if whole < 1024 {
            break;
        }
        tenth = whole % 1024 * 10 / 1024;
        whole /= 1024;
        unit = next;
    }
    if unit == "B" { format!("{whole} B") } else { format!("{whole}.{tenth} {unit}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_fits_the_terminal() {
        let progress = Progress {
            files_done: 1,
            bytes_done: 3 << 20,
            files_known: 4,
            bytes_known: 6 << 20,
            current: "/a/\u{1b}[2Jfile",
        };
        let second = Duration::from_secs(1);
        let whole = line(&progress, second, 200);
        assert_eq!(whole, " 50%  3.0 MiB of 6.0 MiB  3.0 MiB/s  1/4 files  /a/?[2Jfile");
        assert_eq!(line(&progress, second, 20).chars().count(), 19);
        assert_eq!(size(1536), "1.5 KiB");
        assert_eq!(size(1023), "1023 B");
    }
}
