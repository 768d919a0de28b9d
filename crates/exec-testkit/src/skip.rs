//! Saying that a test, or a part of one, could not run here.

use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::Write as _;

/// Names the file in which CI collects what was skipped.
const SKIPS_VARIABLE: &str = "EXEC_TEST_SKIPS";

/// Prints `SKIPPED: <reason>`, and adds the line to CI's list where there is one.
pub fn skip(reason: impl Display) {
    let line = format!("SKIPPED: {reason}\n");
    print!("{line}");
    if let Some(path) = std::env::var_os(SKIPS_VARIABLE) {
        // One write for the whole line: tests append side by side.
        let list = OpenOptions::new().create(true).append(true).open(&path);
        let written = list.and_then(|mut list| list.write_all(line.as_bytes()));
        written.unwrap_or_else(|error| panic!("cannot append to {}: {error}", path.display()));
    }
}
