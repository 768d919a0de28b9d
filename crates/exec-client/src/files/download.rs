//! A tree of the executor, brought here. Nothing is written outside of the destination, whatever
//! the server says: names are checked, directories are made here and are no links, files are
//! written under a name of ours first, and links come last and lead to the inside.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use exec_protocol::fs::WalkOptions;
use exec_protocol::path_uri::PathUri;

use super::names::{ChildKind, children, relative_target};
use super::part::{OwnLink, local, local_io};
use super::transfer::blocking;
use super::tree::{Meter, run_jobs};
use super::{Files, Links, Progress, Report, TreeOptions, shown};
use crate::ExecServerError;
use crate::limits::TREE_DEPTH_MAX;

/// Only the directory itself, as much of it as a server lists.
const ONE_DIRECTORY: WalkOptions = WalkOptions {
    max_depth: 0,
    max_directories: 1,
    max_entries: 50_000,
    follow_directory_symlinks: false,
    prune_hidden_directories: false,
};

struct Download<'a> {
    files: &'a Files,
    options: TreeOptions,
    meter: Meter<'a>,
    local_root: &'a Path,
    /// Without links, to tell what is inside.
    remote_root: PathBuf,
    /// To be made when everything else is there: where, relative to the root, and to what.
    links: Mutex<Vec<(PathBuf, PathBuf)>>,
}

enum Job {
    /// The remote path has no links, because a server does not walk a link. `via` are the
    /// directories from which links led here.
    Directory {
        remote: PathUri,
        below: PathBuf,
        via: Vec<PathBuf>,
    },
    File {
        remote: PathUri,
        below: PathBuf,
    },
}

impl Files {
    /// Brings a file or a whole directory here, to be `destination` (not: to be in it). Modes are
    /// not in the protocol, so files get the usual one, or keep that of the file they replace.
    ///
    /// # Errors
    /// Only when nothing can be begun. Whatever fails on the way is in the report.
    pub async fn download(
        &self,
        source: &PathUri,
        destination: &Path,
        options: TreeOptions,
        progress: &(dyn Fn(&Progress<'_>) + Send + Sync),
    ) -> Result<Report, ExecServerError> {
        let metadata = self.metadata(source).await?;
        let meter = Meter::new(progress);
        let remote_root = if metadata.is_directory {
            native(&self.canonicalize(source).await?)?
        } else {
            PathBuf::new()
        };
        let below = PathBuf::new();
        let first = if metadata.is_directory {
            Job::Directory { remote: uri(&remote_root)?, below, via: Vec::new() }
        } else {
            meter.found_files(1);
            Job::File { remote: source.clone(), below }
        };
        let links = Mutex::default();
        let download =
            Download { files: self, options, meter, local_root: destination, remote_root, links };
        run_jobs(first, |job| download.step(job)).await;
        download.make_links();
        Ok(download.meter.into_report())
    }
}

fn native(path: &PathUri) -> Result<PathBuf, ExecServerError> {
    path.to_native().map_err(|error| ExecServerError::Protocol(error.to_string()))
}

impl Download<'_> {
    async fn step(&self, job: Job) -> Vec<Job> {
        match job {
            Job::File { remote, below } => {
                let destination = self.here(&below);
                let is_root = below.as_os_str().is_empty();
                let link = if is_root { OwnLink::Follow } else { OwnLink::Replace };
                let (resume, meter) = (self.options.resume, &self.meter);
                match self.files.fetch_file(&remote, &destination, link, resume, meter).await {
                    Ok(copied) => self.meter.file_done(&shown(&remote), copied),
                    Err(error) => self.meter.file_failed(&shown(&remote), error),
                }
                Vec::new()
            }
            Job::Directory { remote, below, via } => {
                self.directory(&remote, &below, &via).await.unwrap_or_else(|error| {
                    self.meter.failed(&shown(&remote), error);
                    Vec::new()
                })
            }
        }
    }

    fn here(&self, below: &Path) -> PathBuf {
        if below.as_os_str().is_empty() {
            return self.local_root.to_owned();
        }
        self.local_root.join(below)
    }

    async fn directory(
        &self,
        remote: &PathUri,
        below: &Path,
        via: &[PathBuf],
    ) -> Result<Vec<Job>, ExecServerError> {
        let here = self.here(below);
        if below.components().count() > TREE_DEPTH_MAX {
            return Err(local(&here, "is too deep"));
        }
        let is_root = below.as_os_str().is_empty();
        blocking(&here.clone(), move || make_directory(&here, is_root)).await?;
        self.meter.directory_done();
        let walk = self.files.walk(remote, ONE_DIRECTORY);
        let (walked, listed) = tokio::try_join!(walk, self.files.list(remote))?;
        for error in walked.errors {
            self.meter.refused(&shown(&error.path), &error.message);
        }
        if walked.truncated {
            self.meter.refused(&shown(remote), "has more entries than the executor lists");
        }
        let there = native(remote)?;
        let mut found = children(&there, &walked.entries, &listed);
        for (name, reason) in found.refused {
            self.meter.refused(&name, reason);
        }
        let admitted = self.meter.admit(found.accepted.len());
        if admitted < found.accepted.len() {
            self.meter.refused(&shown(remote), "the tree has too many entries");
            found.accepted.truncate(admitted);
        }
        let mut jobs = Vec::new();
        for child in found.accepted {
            let path = there.join(&child.name);
            let below = below.join(&child.name);
            let Ok(remote) = PathUri::from_native(&path) else {
                self.meter.refused(&path.display().to_string(), "cannot be named");
                continue;
            };
            match child.kind {
                ChildKind::Directory => {
                    jobs.push(Job::Directory { remote, below, via: via.to_vec() });
                }
                ChildKind::File => jobs.push(Job::File { remote, below }),
                ChildKind::Other => match self.other(&remote, below, &there, via).await {
                    Ok(job) => jobs.extend(job),
                    Err(error) => self.meter.failed(&path.display().to_string(), error),
                },
            }
        }
        let files = jobs.iter().filter(|job| matches!(job, Job::File { .. })).count();
        self.meter.found_files(files as u64);
        Ok(jobs)
    }

    /// A link in the directory `parent`, or something that cannot be copied.
    async fn other(
        &self,
        remote: &PathUri,
        below: PathBuf,
        parent: &Path,
        via: &[PathBuf],
    ) -> Result<Option<Job>, ExecServerError> {
        let refuse = |reason: &str| Err(local(Path::new(&shown(remote)), reason));
        let metadata = self.files.metadata(remote).await?;
        if !metadata.is_symlink {
            return refuse("is neither a file, a directory nor a link");
        }
        let target = native(&self.files.canonicalize(remote).await?)?;
        if self.options.links == Links::Follow {
            if metadata.is_file {
                return Ok(Some(Job::File { remote: remote.clone(), below }));
            }
            let mut via = via.to_vec();
            via.push(parent.to_owned());
            if via.iter().any(|above| above.starts_with(&target)) {
                return refuse("is a link that leads back to a directory above it");
            }
            return Ok(Some(Job::Directory { remote: uri(&target)?, below, via }));
        }
        let inside = target.strip_prefix(&self.remote_root).ok();
        match inside.and_then(|inside| relative_target(&below, inside)) {
            Some(way) => {
                let mut links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
                links.push((below, way));
                Ok(None)
            }
            None => refuse("is a link to the outside of the tree, which was not copied"),
        }
    }

    fn make_links(&self) {
        let links = std::mem::take(&mut *self.links.lock().unwrap_or_else(PoisonError::into_inner));
        for (below, way) in links {
            let path = self.here(&below);
            match make_link(&path, &way) {
                Ok(()) => self.meter.link_done(),
                Err(error) => self.meter.failed(&path.display().to_string(), error),
            }
        }
    }
}

fn uri(path: &Path) -> Result<PathUri, ExecServerError> {
    PathUri::from_native(path).map_err(|error| ExecServerError::Protocol(error.to_string()))
}

/// Makes a directory, or accepts one; below the root a link to one is not accepted.
fn make_directory(path: &Path, is_root: bool) -> Result<(), ExecServerError> {
    let made = std::fs::create_dir(path);
    if let Err(error) = made {
        let found = if is_root { path.metadata() } else { path.symlink_metadata() };
        if !found.is_ok_and(|found| found.is_dir()) {
            return Err(local_io(path, &error));
        }
    }
    Ok(())
}

/// Makes a link, in place of one that an earlier copy made.
fn make_link(path: &Path, way: &Path) -> Result<(), ExecServerError> {
    let io = |error: std::io::Error| local_io(path, &error);
    if path.symlink_metadata().is_ok_and(|found| found.is_symlink()) {
        std::fs::remove_file(path).map_err(io)?;
    }
    std::os::unix::fs::symlink(way, path).map_err(io)
}
