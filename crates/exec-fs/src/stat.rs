//! `fs/getMetadata` and `fs/canonicalize`.

use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use exec_protocol::fs::Metadata;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, StatxFlags, StatxTimestamp};

use crate::error::Error;
use crate::resolve::{self, Links, Status, retry};

/// Tells what a path names. Following links, kind, size and times are the target's.
pub fn get_metadata(path: &Path, links: Links) -> Result<Metadata, Error> {
    match links {
        Links::Follow => {
            let name: &OsStr = path.as_os_str();
            let own = resolve::status_at(CWD, name, AtFlags::SYMLINK_NOFOLLOW)?;
            if own.file_type() != FileType::Symlink {
                return Ok(describe(&own, false));
            }
            Ok(describe(&resolve::status_at(CWD, name, AtFlags::empty())?, true))
        }
        Links::Refuse => {
            let fd = match resolve::open(path, links, OFlags::PATH) {
                // The root has no name to be opened by.
                Err(Error::NoEntry) => {
                    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                    retry(|| rustix::fs::open(path, flags, Mode::empty()))?
                }
                other => other?,
            };
            let status = resolve::status(fd.as_fd())?;
            if status.file_type() == FileType::Symlink {
                return Err(Error::SymbolicLink);
            }
            Ok(describe(&status, false))
        }
    }
}

/// [`get_metadata`], following links.
pub fn metadata(path: &Path) -> Result<Metadata, Error> {
    get_metadata(path, Links::Follow)
}

/// The same place, without any link; it has to exist.
pub fn canonicalize(path: &Path) -> Result<PathBuf, Error> {
    Ok(std::fs::canonicalize(path)?)
}

pub(crate) fn describe(status: &Status, is_symlink: bool) -> Metadata {
    let raw = &status.0;
    let born = StatxFlags::from_bits_retain(raw.stx_mask).contains(StatxFlags::BTIME);
    Metadata {
        is_directory: status.is_directory(),
        is_file: status.is_file(),
        is_symlink,
        size: raw.stx_size,
        created_at_ms: if born { millis(&raw.stx_btime) } else { 0 },
        modified_at_ms: millis(&raw.stx_mtime),
    }
}

fn millis(time: &StatxTimestamp) -> i64 {
    time.tv_sec.saturating_mul(1000).saturating_add(i64::from(time.tv_nsec / 1_000_000))
}
