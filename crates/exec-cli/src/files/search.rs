//! `exec-server search`: as grep prints it.

use std::io::Write;
use std::path::Path;

use exec_protocol::fs::{SearchMatch, SearchParams, SearchResult};
use exec_protocol::path_uri::PathUri;

use super::explain::explain;
use super::{Remote, print_json, printable};
use crate::args::SearchArgs;
use crate::exit::{Outcome, Plain, SEARCH_FAILED};

pub(super) async fn search(remote: &Remote, args: &SearchArgs) -> anyhow::Result<Outcome> {
    let place = remote.connected.resolve(&args.path)?;
    let params = SearchParams {
        path: place.clone(),
        pattern: args.pattern.clone(),
        regex: !args.fixed_strings,
        case_sensitive: !args.ignore_case,
        include_hidden: args.hidden,
        no_ignore: args.no_ignore,
        globs: args.glob.clone(),
        context_lines: args.context,
        max_matches: args.max_matches,
        max_bytes: None,
        sandbox: None,
    };
    let result = remote.files.search(params).await.map_err(|error| {
        let explained = explain(&format!("search {}", args.path.display()), &error);
        Plain::with_status(explained, SEARCH_FAILED)
    })?;
    if args.json {
        print_json(&result)?;
    } else {
        let mut stdout = std::io::stdout().lock();
        print(&mut stdout, &result, &place, args)?;
        stdout.flush()?;
    }
    for error in &result.errors {
        let path = error.path.as_ref().map_or("", PathUri::as_str);
        eprintln!("exec-server: {path}: {}", error.message);
    }
    if result.truncated {
        eprintln!("exec-server: there is more (-m shows more lines)");
    }
    Ok(if result.matches.is_empty() { Outcome::Code(1) } else { Outcome::Done })
}

fn print(
    out: &mut impl Write,
    result: &SearchResult,
    place: &PathUri,
    args: &SearchArgs,
) -> std::io::Result<()> {
    // The file and line after the last that was printed.
    let mut last: Option<(&PathUri, u64)> = None;
    for found in &result.matches {
        let first = found.line - (found.before.len() as u64).min(found.line);
        if args.context > 0 && last.is_some_and(|last| last != (&found.path, first)) {
            writeln!(out, "--")?;
        }
        print_match(out, found, first, &name(found, place, &args.path))?;
        last = Some((&found.path, found.line + 1 + found.after.len() as u64));
    }
    Ok(())
}

fn print_match(
    out: &mut impl Write,
    found: &SearchMatch,
    first: u64,
    name: &str,
) -> std::io::Result<()> {
    for (line, text) in (first..).zip(&found.before) {
        writeln!(out, "{name}-{line}-{}", printable_line(text))?;
    }
    writeln!(out, "{name}:{}:{}", found.line, printable_line(&found.text))?;
    for (line, text) in (found.line + 1..).zip(&found.after) {
        writeln!(out, "{name}-{line}-{}", printable_line(text))?;
    }
    Ok(())
}

/// Tabs are part of many lines.
fn printable_line(text: &str) -> String {
    let keep = |one: char| if one.is_control() && one != '\t' { '?' } else { one };
    text.chars().map(keep).collect()
}

/// The file's path, beginning as the caller's does.
fn name(found: &SearchMatch, place: &PathUri, given: &Path) -> String {
    let (Ok(path), Ok(base)) = (found.path.to_native(), place.to_native()) else {
        return found.path.as_str().to_owned();
    };
    let shown = match path.strip_prefix(&base) {
        Ok(rest) if rest.as_os_str().is_empty() => given.to_owned(),
        Ok(rest) => given.join(rest),
        Err(_) => path,
    };
    printable(&shown.to_string_lossy())
}
