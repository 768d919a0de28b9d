//! The documents that are written by a program: `docs/protocol.md`, from the protocol crate's own
//! declarations and from the vectors.

mod examples;
mod reference;
mod schema;

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, bail};

const REFERENCE: &str = "docs/protocol.md";

/// Writes every generated file.
pub(crate) fn write(root: &Path) -> Result<()> {
    let path = root.join(REFERENCE);
    fs::create_dir_all(root.join("docs"))?;
    fs::write(&path, reference::render(root)?)
        .with_context(|| format!("cannot write {}", path.display()))
}

/// Fails if a generated file is not what it would be written as now.
pub(crate) fn check(root: &Path) -> Result<()> {
    let fresh = reference::render(root)?;
    // A missing file differs from its first line on.
    let found = fs::read_to_string(root.join(REFERENCE)).unwrap_or_default();
    match first_difference(&found, &fresh) {
        None => Ok(()),
        Some((line, found, fresh)) => bail!(
            "{REFERENCE} is stale; run `cargo xtask generate`\n  line {line} is    {found}\n  \
             and should be {fresh}"
        ),
    }
}

/// The first line that differs, from 1, and what it is in both texts.
fn first_difference<'a>(found: &'a str, fresh: &'a str) -> Option<(usize, &'a str, &'a str)> {
    if found == fresh {
        return None;
    }
    let (mut old, mut new) = (found.split('\n'), fresh.split('\n'));
    let missing = "(no line)";
    (1..).find_map(|line| {
        let (old, new) = (old.next(), new.next());
        (old != new).then(|| (line, old.unwrap_or(missing), new.unwrap_or(missing)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_line_is_named() {
        assert_eq!(first_difference("a\nb\n", "a\nb\n"), None);
        assert_eq!(first_difference("a\nb\n", "a\nc\n"), Some((2, "b", "c")));
        assert_eq!(first_difference("", "a\n"), Some((1, "", "a")));
        assert_eq!(first_difference("a\n", "a\nb"), Some((2, "", "b")));
        assert_eq!(first_difference("a", "a\n"), Some((2, "(no line)", "")));
    }
}
