//! Files as a conversation finds them and leaves them, made and checked without the server.
//!
//! | Line | Meaning |
//! | --- | --- |
//! | `!dir p` | a directory, with its parents |
//! | `!file p "text"`, `… "ab" x 9` | a file of that content, with its parents |
//! | `!bytes p <base64>` | a file of these bytes, with its parents |
//! | `!link p target` | a symbolic link |
//! | `!fifo p` | a FIFO |
//! | `!mode p 640` | permissions |
//! | `!sparse p 1000` | a file of that size, all of it a hole |
//! | `!files p 1000` | a directory with so many empty files, `000000` and so on |
//! | `!remove p` | whatever it is, is gone |
//! | `?file p "text"` | is a file of that content |
//! | `?link p target` | is a link to that |
//! | `?dir p`, `?absent p` | is a directory; is not there, not even as a broken link |
//! | `?mode p 640` | has these permissions |
//!
//! A path is below the scratch directory, or absolute. It is a JSON string where it holds a blank or
//! an odd character, and a `\u00ff` in it means the byte 0xff; `$ref(name)` works in it and in texts.

use std::ffi::{CString, OsStr};
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context as _, Result, bail, ensure};

use super::pattern::{Bindings, base64_decode, expand};

/// One line about files.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Act {
    path: String,
    deed: Deed,
}

#[derive(Debug, Clone, PartialEq)]
enum Deed {
    MakeDirectory,
    Write(String),
    WriteBytes(Vec<u8>),
    Link(String),
    Fifo,
    SetMode(u32),
    Sparse(u64),
    MakeFiles(usize),
    Remove,
    IsFile(String),
    IsLink(String),
    IsDirectory,
    IsAbsent,
    HasMode(u32),
}

impl FromStr for Act {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let (verb, rest) = text.split_once(' ').context("no path")?;
        let (path, rest) = take_word(rest)?;
        let octal = |text: &str| u32::from_str_radix(text, 8).context("not a mode");
        let deed = match verb {
            "!dir" => Deed::MakeDirectory,
            "!file" => Deed::Write(parse_text(rest)?),
            "!bytes" => Deed::WriteBytes(base64_decode(rest)?),
            "!link" => Deed::Link(take_word(rest)?.0),
            "!fifo" => Deed::Fifo,
            "!mode" => Deed::SetMode(octal(rest)?),
            "!sparse" => Deed::Sparse(rest.parse()?),
            "!files" => Deed::MakeFiles(rest.parse()?),
            "!remove" => Deed::Remove,
            "?file" => Deed::IsFile(parse_text(rest)?),
            "?link" => Deed::IsLink(take_word(rest)?.0),
            "?dir" => Deed::IsDirectory,
            "?absent" => Deed::IsAbsent,
            "?mode" => Deed::HasMode(octal(rest)?),
            _ => bail!("unknown verb {verb:?}"),
        };
        Ok(Self { path, deed })
    }
}

impl Act {
    /// Does it, or says how what is there differs.
    pub(super) fn perform(&self, scratch: &Path, bindings: &Bindings) -> Result<()> {
        let path = scratch.join(native(&expand(&self.path, bindings)?)?);
        self.deed.perform(&path, bindings).with_context(|| path.display().to_string())
    }
}

impl Deed {
    fn perform(&self, path: &Path, bindings: &Bindings) -> Result<()> {
        match self {
            Deed::MakeDirectory => fs::create_dir_all(path)?,
            Deed::Write(text) => write(path, expand(text, bindings)?.as_bytes())?,
            Deed::WriteBytes(bytes) => write(path, bytes)?,
            Deed::Link(target) => symlink(native(&expand(target, bindings)?)?, path)?,
            Deed::Fifo => make_fifo(path)?,
            Deed::SetMode(mode) => fs::set_permissions(path, fs::Permissions::from_mode(*mode))?,
            Deed::Sparse(size) => fs::File::create(path)?.set_len(*size)?,
            Deed::MakeFiles(count) => {
                fs::create_dir_all(path)?;
                for number in 0..*count {
                    fs::File::create(path.join(format!("{number:06}")))?;
                }
            }
            Deed::Remove if path.is_dir() && !path.is_symlink() => fs::remove_dir_all(path)?,
            Deed::Remove => fs::remove_file(path)?,
            Deed::IsFile(text) => {
                ensure!(path.symlink_metadata()?.is_file(), "not a file");
                let (content, text) = (fs::read(path)?, expand(text, bindings)?);
                ensure!(content == text.as_bytes(), "holds \"{}\"", content.escape_ascii());
            }
            Deed::IsLink(target) => {
                let found = fs::read_link(path)?;
                let target = native(&expand(target, bindings)?)?;
                ensure!(found == target, "leads to {}", found.display());
            }
            Deed::IsDirectory => ensure!(path.symlink_metadata()?.is_dir(), "not a directory"),
            Deed::IsAbsent => ensure!(path.symlink_metadata().is_err(), "is there"),
            Deed::HasMode(mode) => {
                let found = path.symlink_metadata()?.permissions().mode() & 0o7777;
                ensure!(found == *mode, "has mode {found:o}");
            }
        }
        Ok(())
    }
}

fn write(path: &Path, content: &[u8]) -> Result<()> {
    fs::create_dir_all(path.parent().context("no parent")?)?;
    Ok(fs::write(path, content)?)
}

fn make_fifo(path: &Path) -> Result<()> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: the path ends with a zero and outlives the call.
    let made = unsafe { libc::mkfifo(path.as_ptr(), 0o644) };
    ensure!(made == 0, "no FIFO: {}", std::io::Error::last_os_error());
    Ok(())
}

/// A word up to a blank, or a JSON string; and what follows.
fn take_word(text: &str) -> Result<(String, &str)> {
    if !text.starts_with('"') {
        let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
        ensure!(!word.is_empty(), "no path");
        return Ok((word.to_owned(), rest));
    }
    let mut strings = serde_json::Deserializer::from_str(text).into_iter::<String>();
    let word = strings.next().context("no path")??;
    Ok((word, text[strings.byte_offset()..].trim_start()))
}

/// `"text"` or `"text" x count`
fn parse_text(text: &str) -> Result<String> {
    let (word, rest) = take_word(text)?;
    match rest.strip_prefix("x ") {
        Some(count) => Ok(word.repeat(count.parse()?)),
        None if rest.is_empty() => Ok(word),
        None => bail!("stray {rest:?}"),
    }
}

/// One byte for each character, so that any name can be written down; beyond Latin-1 its UTF-8.
fn native(text: &str) -> Result<PathBuf> {
    let is_latin = text.chars().all(|character| u32::from(character) < 256);
    if !is_latin {
        return Ok(text.into());
    }
    let byte = |character| u8::try_from(u32::from(character)).context("not Latin-1");
    let bytes: Vec<u8> = text.chars().map(byte).collect::<Result<_>>()?;
    Ok(OsStr::from_bytes(&bytes).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn act(directory: &Path, line: &str) -> Result<()> {
        let bindings = Bindings::from([("s".to_owned(), json!("abc"))]);
        line.parse::<Act>()?.perform(directory, &bindings)
    }

    #[test]
    fn what_is_made_is_there() {
        let directory = tempfile::tempdir().unwrap();
        let lines = [
            "!dir d/e",
            "?dir d/e",
            "!file d/f \"ab\" x 2",
            "?file d/f \"abab\"",
            "!link l d/f",
            "?link l d/f",
            "!file \"a b/\\u00ff\" \"$ref(s)\"",
            "?file \"a b/\\u00ff\" \"abc\"",
            "!fifo p",
            "!mode d/f 640",
            "?mode d/f 640",
            "!sparse big 5000",
            "!files many 3",
            "?file many/000002 \"\"",
            "!remove d",
            "?absent d",
            "!remove l",
            "?absent l",
            "!bytes b /wA=",
        ];
        for line in lines {
            act(directory.path(), line).unwrap_or_else(|error| panic!("{line}: {error:#}"));
        }
        assert!(directory.path().join(OsStr::from_bytes(b"a b/\xff")).is_file());
        assert_eq!(fs::metadata(directory.path().join("big")).unwrap().len(), 5000);
    }

    #[test]
    fn what_is_not_there_is_told() {
        let directory = tempfile::tempdir().unwrap();
        act(directory.path(), "!file f \"x\"").unwrap();
        for line in
            ["?file f \"y\"", "?absent f", "?dir f", "?link f x", "?file g \"\"", "?mode f 7"]
        {
            assert!(act(directory.path(), line).is_err(), "{line}");
        }
        for line in ["!file", "!file f", "!file f \"x\" y", "!wish f", "?mode f rwx"] {
            assert!(line.parse::<Act>().is_err(), "{line}");
        }
    }
}
