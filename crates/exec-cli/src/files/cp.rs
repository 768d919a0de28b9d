//! `exec-server cp`: here to there, there to here, and there to there.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use exec_client::ExecServerError;
use exec_client::files::{Links, Progress, Recursion, Report, Resume, TreeOptions};
use exec_protocol::path_uri::PathUri;
use serde_json::json;

use super::explain::{explain, reason};
use super::progress::Bar;
use super::{Complaints, Remote, print_json};
use crate::args::CpArgs;
use crate::exit::{Outcome, Plain};

/// A side of a copy, as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Place {
    Here(PathBuf),
    There(PathBuf),
}

impl Place {
    fn parse(text: &OsStr) -> Self {
        match text.as_bytes().strip_prefix(b":") {
            Some(path) => Place::There(PathBuf::from(OsStr::from_bytes(path))),
            None => Place::Here(PathBuf::from(text)),
        }
    }

    fn path(&self) -> &Path {
        match self {
            Place::Here(path) | Place::There(path) => path,
        }
    }
}

pub(super) async fn cp(remote: &Remote, args: &CpArgs) -> anyhow::Result<Outcome> {
    let Some((destination, sources)) = args.paths.split_last() else {
        anyhow::bail!("a copy needs a source and a destination");
    };
    let destination = Place::parse(destination);
    if let Place::Here(_) = destination {
        let here = |source: &OsString| matches!(Place::parse(source), Place::Here(_));
        anyhow::ensure!(
            !sources.iter().any(here),
            "both paths are here (put a colon before the one on the executor)"
        );
    }
    let into = is_directory(remote, &destination).await?;
    anyhow::ensure!(
        into || sources.len() == 1,
        "{} is not a directory, and only one source fits (mkdir makes one)",
        destination.path().display()
    );
    let bar = Bar::new(args.quiet);
    let mut complaints = Complaints::default();
    let mut total = Report::default();
    for source in sources {
        let source = Place::parse(source);
        let outcome = copy(remote, args, &source, &destination, into, &bar).await;
        bar.clear();
        match outcome {
            Ok(report) => {
                for failure in &report.failures {
                    let lost = failure.error.is_connection_lost();
                    let text = format!("cannot copy {}: {}", failure.path, words(failure));
                    complaints.add(&Plain::new(text, lost).into());
                }
                add(&mut total, report);
            }
            Err(error) => complaints.add(&error),
        }
    }
    if args.json {
        print_json(&as_json(&total))?;
    }
    Ok(complaints.outcome())
}

/// Why, without the path if it is the same.
fn words(failure: &exec_client::files::Failure) -> String {
    if let ExecServerError::Local { path, reason } = &failure.error
        && *path == failure.path
    {
        return reason.clone();
    }
    reason(&failure.error)
}

async fn copy(
    remote: &Remote,
    args: &CpArgs,
    source: &Place,
    destination: &Place,
    into: bool,
    bar: &Bar,
) -> anyhow::Result<Report> {
    let shown = source.path().display().to_string();
    let cannot = |error: ExecServerError| explain(&format!("copy {shown}"), &error);
    if is_source_directory(remote, source).await? && !args.recursive {
        anyhow::bail!("cannot copy {shown}: it is a directory (-r copies it with all it holds)");
    }
    let name = source.path().file_name().filter(|_| into).unwrap_or_default();
    let target =
        if name.is_empty() { destination.path().to_owned() } else { destination.path().join(name) };
    let options = TreeOptions {
        resume: if args.resume { Resume::Yes } else { Resume::No },
        links: if args.follow_links { Links::Follow } else { Links::Keep },
    };
    let tell = |progress: &Progress<'_>| bar.show(progress);
    let resolve = |path: &Path| remote.connected.resolve(path);
    match (source, destination) {
        (Place::Here(source), Place::There(_)) => {
            let target = resolve(&target)?;
            remote.files.upload(source, &target, options, &tell).await.map_err(cannot)
        }
        (Place::There(source), Place::Here(_)) => {
            let source = resolve(source)?;
            remote.files.download(&source, &target, options, &tell).await.map_err(cannot)
        }
        (Place::There(source), Place::There(_)) => {
            let (source, target): (PathUri, PathUri) = (resolve(source)?, resolve(&target)?);
            let recursion = if args.recursive { Recursion::Tree } else { Recursion::Single };
            remote.files.copy(&source, &target, recursion).await.map_err(cannot)?;
            Ok(Report { files: 1, ..Report::default() })
        }
        (Place::Here(_), Place::Here(_)) => anyhow::bail!("both paths are here"),
    }
}

async fn is_directory(remote: &Remote, place: &Place) -> anyhow::Result<bool> {
    Ok(match place {
        Place::Here(path) => path.is_dir(),
        Place::There(path) => {
            let place = remote.connected.resolve(path)?;
            remote.files.metadata(&place).await.is_ok_and(|metadata| metadata.is_directory)
        }
    })
}

async fn is_source_directory(remote: &Remote, source: &Place) -> anyhow::Result<bool> {
    let shown = source.path().display().to_string();
    match source {
        Place::Here(path) => {
            let found = std::fs::metadata(path);
            let cannot = |error| format!("cannot copy {shown}: {error}");
            Ok(found.map_err(|error| Plain::new(cannot(error), false))?.is_dir())
        }
        Place::There(path) => {
            let place = remote.connected.resolve(path)?;
            let metadata = remote.files.metadata(&place).await;
            Ok(metadata.map_err(|error| explain(&format!("copy {shown}"), &error))?.is_directory)
        }
    }
}

fn add(total: &mut Report, report: Report) {
    total.files += report.files;
    total.bytes += report.bytes;
    total.bytes_resumed += report.bytes_resumed;
    total.directories += report.directories;
    total.links += report.links;
    total.failures_total += report.failures_total;
    total.failures.extend(report.failures);
}

fn as_json(report: &Report) -> serde_json::Value {
    let failures: Vec<_> = report
        .failures
        .iter()
        .map(|failure| json!({"path": failure.path, "error": words(failure)}))
        .collect();
    json!({
        "files": report.files,
        "bytes": report.bytes,
        "bytesResumed": report.bytes_resumed,
        "directories": report.directories,
        "links": report.links,
        "failures": failures,
        "failuresTotal": report.failures_total,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_colon_is_the_executor() {
        let check = |text: &str, expected: Place| {
            assert_eq!(Place::parse(OsStr::new(text)), expected, "{text}");
        };
        check(":/srv/a", Place::There("/srv/a".into()));
        check(":a:b", Place::There("a:b".into()));
        check(":", Place::There("".into()));
        check("./:a", Place::Here("./:a".into()));
        check("a:b", Place::Here("a:b".into()));
    }
}
