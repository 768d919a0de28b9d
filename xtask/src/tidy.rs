//! What no compiler checks: the order of the crates, their manifests, and the habits that keep the
//! sources readable. The rules are pure functions over texts; here the files are found and read.

mod manifests;
mod sources;

use std::fmt;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, bail};

/// Directories that hold nothing written by hand, or nothing of this project.
const PASSED_OVER: &[&str] = &["target", ".git", ".cache", "corpus", "artifacts", "node_modules"];
/// Endings of the files that are read.
const TEXTS: &[&str] = &["rs", "toml", "md", "sh", "txt", "yml", "yaml", "json"];

/// Something that is not as it should be.
#[derive(Debug, PartialEq, Eq)]
struct Finding {
    /// From the root of the workspace.
    path: String,
    /// From 1; none for the file as a whole.
    line: Option<usize>,
    severity: Severity,
    message: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Severity {
    /// Shown.
    Warning,
    /// Shown, and fails the gate.
    Error,
}

impl Finding {
    fn error(path: &str, line: Option<usize>, message: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, severity: Severity::Error, message: message.into() }
    }

    fn warning(path: &str, message: impl Into<String>) -> Self {
        let severity = Severity::Warning;
        Self { path: path.to_owned(), line: None, severity, message: message.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = match self.severity {
            Severity::Warning => "warning",
            Severity::Error => "error",
        };
        let line = self.line.map(|line| format!(":{line}")).unwrap_or_default();
        write!(formatter, "{severity}: {}{line}: {}", self.path, self.message)
    }
}

/// Reads the workspace, prints every finding, and fails if one of them is an error.
pub(crate) fn run(root: &Path) -> Result<()> {
    let mut findings = manifests::check(root)?;
    for path in files(root)? {
        // The file's name is all that can be said of one that is not text.
        let Ok(text) = fs::read_to_string(root.join(&path)) else { continue };
        findings.extend(sources::check(&path, &text));
    }
    for finding in &findings {
        println!("{finding}");
    }
    match findings.iter().filter(|finding| finding.severity == Severity::Error).count() {
        0 => Ok(()),
        1 => bail!("tidy found an error"),
        count => bail!("tidy found {count} errors"),
    }
}

/// Every text of the project, relative to the root, in order.
fn files(root: &Path) -> Result<Vec<String>> {
    let mut found = Vec::new();
    let mut directories = vec![root.to_owned()];
    while let Some(directory) = directories.pop() {
        let entries = fs::read_dir(&directory)
            .with_context(|| format!("cannot list {}", directory.display()))?;
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name();
            if entry.file_type()?.is_dir() {
                if !PASSED_OVER.iter().any(|passed| name == *passed) {
                    directories.push(entry.path());
                }
            } else if is_text(&entry.path()) {
                let path = entry.path();
                found.push(path.strip_prefix(root)?.to_string_lossy().into_owned());
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Files without an ending are scripts and licences.
fn is_text(path: &Path) -> bool {
    match path.extension().and_then(|ending| ending.to_str()) {
        Some(ending) => TEXTS.contains(&ending),
        None => true,
    }
}
