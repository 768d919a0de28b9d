//! `rules fmt`: one layout for rules files.

use std::fs;
use std::io::Write as _;
use std::path::Path;

use anyhow::Context as _;
use exec_rules::{Source, fmt};

use super::FmtArgs;
use crate::exit::Outcome;

pub(super) fn format(args: &FmtArgs) -> anyhow::Result<Outcome> {
    let mut different = false;
    for path in &args.files {
        let source = Source::read(path)?;
        let formatted = fmt::format(&source.file, &source.text)?;
        if formatted == source.text {
            continue;
        }
        different = true;
        if args.check {
            println!("{}", path.display());
        } else {
            replace(path, &formatted)
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
    }
    Ok(if args.check && different { Outcome::Code(1) } else { Outcome::Done })
}

/// Puts a new file in the place of the old one, whole or not at all.
fn replace(path: &Path, text: &str) -> anyhow::Result<()> {
    // Through a link, the file it names is replaced and not the link.
    let path = fs::canonicalize(path)?;
    let name = path.file_name().context("it has no name")?.to_string_lossy();
    let temporary = path.with_file_name(format!(".{name}.{}.tmp", std::process::id()));
    let written = write(&temporary, &path, text);
    if written.is_err() {
        fs::remove_file(&temporary).ok(); // It may not even exist.
    }
    Ok(written?)
}

fn write(temporary: &Path, path: &Path, text: &str) -> std::io::Result<()> {
    let mut file = fs::OpenOptions::new().write(true).create_new(true).open(temporary)?;
    file.set_permissions(fs::metadata(path)?.permissions())?;
    file.write_all(text.as_bytes())?;
    file.sync_data()?;
    fs::rename(temporary, path)
}
