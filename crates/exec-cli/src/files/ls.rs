//! `exec-server ls`.

use std::io::Write;
use std::path::Path;

use exec_protocol::fs::Metadata;
use exec_protocol::path_uri::PathUri;
use futures_util::StreamExt as _;
use serde::Serialize;

use super::explain::explain;
use super::{Complaints, Remote, print_json, printable};
use crate::args::LsArgs;
use crate::exit::Outcome;

/// Entries that are looked at at once.
const LOOKS: usize = 32;

/// One entry. What is not known of it is left out.
#[derive(Debug, Serialize)]
struct Row {
    name: String,
    path: String,
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<Metadata>,
}

pub(super) async fn ls(remote: &Remote, args: &LsArgs) -> anyhow::Result<Outcome> {
    let mut complaints = Complaints::default();
    let mut all = Vec::new();
    for (index, path) in args.paths.iter().enumerate() {
        match rows(remote, args, path).await {
            Err(error) => complaints.add(&error),
            Ok(rows) if args.json => all.extend(rows),
            Ok(rows) => {
                let mut stdout = std::io::stdout().lock();
                if args.paths.len() > 1 {
                    let gap = if index > 0 { "\n" } else { "" };
                    writeln!(stdout, "{gap}{}:", printable(&path.to_string_lossy()))?;
                }
                print(&mut stdout, &rows, args.long)?;
            }
        }
    }
    if args.json {
        print_json(&all)?;
    }
    Ok(complaints.outcome())
}

async fn rows(remote: &Remote, args: &LsArgs, path: &Path) -> anyhow::Result<Vec<Row>> {
    let shown = path.display();
    let place = remote.connected.resolve(path)?;
    let cannot = |error| explain(&format!("list {shown}"), &error);
    let metadata = remote.files.metadata(&place).await.map_err(cannot)?;
    if !metadata.is_directory {
        return Ok(vec![row(path.to_string_lossy().into_owned(), &place, Some(metadata), "file")]);
    }
    let mut entries = remote.files.list(&place).await.map_err(cannot)?;
    entries.retain(|entry| args.all || !entry.file_name.starts_with('.'));
    entries.sort_by(|one, other| one.file_name.cmp(&other.file_name));
    let directory = place.to_native()?;
    let want_metadata = args.long || args.json;
    let looks = entries.into_iter().map(|entry| {
        let directory = &directory;
        async move {
            let child = PathUri::from_native(&directory.join(&entry.file_name)).ok()?;
            let metadata =
                if want_metadata { remote.files.metadata(&child).await.ok() } else { None };
            let kind = match (entry.is_directory, entry.is_file) {
                (true, _) => "directory",
                (_, true) => "file",
                _ => "other",
            };
            Some(row(entry.file_name, &child, metadata, kind))
        }
    });
    let rows: Vec<Option<Row>> = futures_util::stream::iter(looks).buffered(LOOKS).collect().await;
    Ok(rows.into_iter().flatten().collect())
}

fn row(name: String, path: &PathUri, metadata: Option<Metadata>, kind: &'static str) -> Row {
    let path = path
        .to_native()
        .map_or_else(|_| path.as_str().to_owned(), |native| native.to_string_lossy().into_owned());
    Row { name, path, kind, metadata }
}

fn print(out: &mut impl Write, rows: &[Row], long: bool) -> std::io::Result<()> {
    let size = |row: &Row| match &row.metadata {
        Some(metadata) if metadata.is_file => metadata.size.to_string(),
        _ => "-".to_owned(),
    };
    let width = rows.iter().map(|row| size(row).len()).max().unwrap_or(1);
    for row in rows {
        let slash = if row.kind == "directory" { "/" } else { "" };
        let name = printable(&row.name);
        if !long {
            writeln!(out, "{name}{slash}")?;
            continue;
        }
        let letter = match (&row.metadata, row.kind) {
            (Some(metadata), _) if metadata.is_symlink => 'l',
            (_, "directory") => 'd',
            (_, "file") => '-',
            _ => '?',
        };
        let time = row
            .metadata
            .as_ref()
            .map_or_else(|| "?".repeat(16), |metadata| utc(metadata.modified_at_ms));
        writeln!(out, "{letter} {:>width$}  {time}  {name}{slash}", size(row))?;
    }
    out.flush()
}

/// `2026-11-16 01:02`, by the calendar's own arithmetic: years begin in March, so that the day
/// that is sometimes missing is the last.
fn utc(ms: i64) -> String {
    let minutes = ms.div_euclid(60_000);
    let (days, minute) = (minutes.div_euclid(1440), minutes.rem_euclid(1440));
    // Days since 1 March of the year 0.
    let days = days + 719_468;
    let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    let year = era * 400 + year + next;
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02}", minute / 60, minute % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        for (seconds, expected) in [
            (0, "1970-01-01 00:00"),
            (951_782_400, "2000-02-29 00:00"),
            (1_709_251_199, "2024-02-29 23:59"),
            (1_735_689_600, "2025-01-01 00:00"),
            (4_107_542_400, "2100-03-01 00:00"),
            (-1, "1969-12-31 23:59"),
        ] {
            assert_eq!(utc(seconds * 1000), expected, "{seconds}");
        }
    }
}
