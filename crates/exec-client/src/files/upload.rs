//! A tree of this machine, brought to the executor.

use std::path::{Path, PathBuf};

use exec_protocol::path_uri::PathUri;

use super::part::{local, local_io};
use super::transfer::blocking;
use super::tree::{Meter, run_jobs};
use super::{Files, Links, Progress, Recursion, Report, TreeOptions};
use crate::ExecServerError;
use crate::limits::TREE_DEPTH_MAX;

struct Upload<'a> {
    files: &'a Files,
    options: TreeOptions,
    meter: Meter<'a>,
}

enum Job {
    /// `via` are the directories from which links led here.
    Directory {
        source: PathBuf,
        remote: PathUri,
        depth: usize,
        via: Vec<PathBuf>,
    },
    File {
        source: PathBuf,
        remote: PathUri,
    },
}

/// What a directory of this machine holds.
enum Found {
    Directory,
    /// A link to a directory, followed from that one.
    LinkedDirectory(PathBuf),
    File(u64),
    Refused(&'static str),
}

impl Files {
    /// Brings a file or a whole directory to the executor, to be `destination` (not: to be in it).
    /// Files are written in place, so those that exist keep their mode; new ones get the usual one,
    /// as modes are not in the protocol.
    ///
    /// # Errors
    /// Only when nothing can be begun. Whatever fails on the way is in the report.
    pub async fn upload(
        &self,
        source: &Path,
        destination: &PathUri,
        options: TreeOptions,
        progress: &(dyn Fn(&Progress<'_>) + Send + Sync),
    ) -> Result<Report, ExecServerError> {
        let found = std::fs::metadata(source).map_err(|error| local_io(source, &error))?;
        let upload = Upload { files: self, options, meter: Meter::new(progress) };
        let (source, remote) = (source.to_owned(), destination.clone());
        let first = if found.is_dir() {
            Job::Directory { source, remote, depth: 0, via: Vec::new() }
        } else {
            upload.meter.found_files(1);
            upload.meter.found_bytes(found.len());
            Job::File { source, remote }
        };
        run_jobs(first, |job| upload.step(job)).await;
        Ok(upload.meter.into_report())
    }
}

impl Upload<'_> {
    async fn step(&self, job: Job) -> Vec<Job> {
        match job {
            Job::File { source, remote } => {
                let path = source.display().to_string();
                let resume = self.options.resume;
                match self.files.send_file(&source, &remote, resume, &self.meter).await {
                    Ok(copied) => self.meter.file_done(&path, copied),
                    Err(error) => self.meter.file_failed(&path, error),
                }
                Vec::new()
            }
            Job::Directory { source, remote, depth, via } => {
                self.directory(&source, &remote, depth, via).await.unwrap_or_else(|error| {
                    self.meter.failed(&source.display().to_string(), error);
                    Vec::new()
                })
            }
        }
    }

    async fn directory(
        &self,
        source: &Path,
        remote: &PathUri,
        depth: usize,
        via: Vec<PathBuf>,
    ) -> Result<Vec<Job>, ExecServerError> {
        if depth > TREE_DEPTH_MAX {
            return Err(local(source, "is too deep"));
        }
        self.files.create_directory(remote, Recursion::Tree).await?;
        self.meter.directory_done();
        let there =
            remote.to_native().map_err(|error| ExecServerError::Protocol(error.to_string()))?;
        let links = self.options.links;
        let mut entries = blocking(source, {
            let (source, via) = (source.to_owned(), via.clone());
            move || list(&source, links, &via)
        })
        .await?;
        let admitted = self.meter.admit(entries.len());
        if admitted < entries.len() {
            self.meter.refused(&source.display().to_string(), "the tree has too many entries");
            entries.truncate(admitted);
        }
        let mut jobs = Vec::new();
        for (source, found) in entries {
            let path = source.display().to_string();
            let Some(Ok(remote)) =
                source.file_name().map(|name| PathUri::from_native(&there.join(name)))
            else {
                self.meter.refused(&path, "cannot be named");
                continue;
            };
            let (depth, mut via) = (depth + 1, via.clone());
            match found {
                Found::Directory => jobs.push(Job::Directory { source, remote, depth, via }),
                Found::LinkedDirectory(from) => {
                    via.push(from);
                    jobs.push(Job::Directory { source, remote, depth, via });
                }
                Found::File(bytes) => {
                    self.meter.found_files(1);
                    self.meter.found_bytes(bytes);
                    jobs.push(Job::File { source, remote });
                }
                Found::Refused(reason) => self.meter.refused(&path, reason),
            }
        }
        Ok(jobs)
    }
}

fn list(
    directory: &Path,
    links: Links,
    via: &[PathBuf],
) -> Result<Vec<(PathBuf, Found)>, ExecServerError> {
    let io = |error: std::io::Error| local_io(directory, &error);
    let real = directory.canonicalize().map_err(io)?;
    let mut entries = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(io)? {
        let path = entry.map_err(io)?.path();
        let found = look(&path, links, &real, via);
        entries.push((path, found));
    }
    Ok(entries)
}

/// What an entry of the directory `parent` is.
fn look(path: &Path, links: Links, parent: &Path, via: &[PathBuf]) -> Found {
    let Ok(own) = path.symlink_metadata() else { return Found::Refused("cannot be looked at") };
    if own.is_symlink() && links == Links::Keep {
        return Found::Refused("is a link, and the executor has no call to make one");
    }
    let Ok(found) = path.metadata() else { return Found::Refused("is a link to nothing") };
    if found.is_file() {
        return Found::File(found.len());
    }
    if !found.is_dir() {
        return Found::Refused("is neither a file nor a directory");
    }
    if !own.is_symlink() {
        return Found::Directory;
    }
    let Ok(target) = path.canonicalize() else { return Found::Refused("cannot be looked at") };
    if via.iter().any(|above| above.starts_with(&target)) || parent.starts_with(&target) {
        return Found::Refused("is a link that leads back to a directory above it");
    }
    Found::LinkedDirectory(parent.to_owned())
}
