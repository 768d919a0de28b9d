//! What a fresh `/proc` shows that no command should change or see.
//!
//! Most of it is closed to ordinary users anyway. When the server runs as root it is not: files of
//! `/proc/sys` belong to root, and to write one needs no capability.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// The parts of `/proc` and `/sys` that are covered, as far as this kernel has them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ProcCovers {
    /// Stay visible but cannot be changed. Always with `/proc/sys`.
    pub read_only: Vec<PathBuf>,
    /// Files that are hidden.
    pub hidden_files: Vec<PathBuf>,
    /// Directories that are hidden.
    pub hidden_directories: Vec<PathBuf>,
}

const HIDDEN: &[&str] = &[
    "/proc/acpi",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/scsi",
    "/proc/timer_list",
    "/sys/firmware",
];
const SETTINGS: &str = "/proc/sys";

/// Looked at in search of files that can be written, per directory and in depth. What has more is
/// covered without looking further.
const ENTRIES_MAX: usize = 256;
const DEPTH_MAX: usize = 2;

impl ProcCovers {
    /// For this kernel, from what the host's own `/proc` has. Ask once: it does not change.
    pub fn of_host() -> ProcCovers {
        let mut covers =
            ProcCovers { read_only: vec![PathBuf::from(SETTINGS)], ..ProcCovers::default() };
        for path in HIDDEN.iter().map(PathBuf::from) {
            match fs::symlink_metadata(&path) {
                Ok(metadata) if metadata.is_dir() => covers.hidden_directories.push(path),
                Ok(_) => covers.hidden_files.push(path),
                Err(_) => {}
            }
        }
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let mut names: Vec<PathBuf> = entries
            .map(|entry| entry.path())
            // Processes, of which the new `/proc` has its own.
            .filter(|path| !is_number(path))
            .filter(|path| !HIDDEN.iter().any(|hidden| path == Path::new(hidden)))
            .filter(|path| path != Path::new(SETTINGS) && can_be_changed(path, 0))
            .collect();
        names.sort();
        covers.read_only.extend(names);
        covers
    }
}

fn is_number(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().iter().all(u8::is_ascii_digit))
}

/// Whether the file, or one below the directory, lets anyone write. Links lead to processes.
fn can_be_changed(path: &Path, depth: usize) -> bool {
    let Ok(metadata) = fs::symlink_metadata(path) else { return false };
    if !metadata.is_dir() {
        return !metadata.is_symlink() && metadata.permissions().mode() & 0o222 != 0;
    }
    let entries: Vec<_> =
        fs::read_dir(path).into_iter().flatten().flatten().take(ENTRIES_MAX + 1).collect();
    depth == DEPTH_MAX
        || entries.len() > ENTRIES_MAX
        || entries.iter().any(|entry| can_be_changed(&entry.path(), depth + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_written_is_found_and_settings_always() {
        let dir = tempfile::tempdir().unwrap();
        let under = |name: &str| dir.path().join(name);
        let mode = |name: &str, mode| {
            fs::write(under(name), "").unwrap();
            fs::set_permissions(under(name), fs::Permissions::from_mode(mode)).unwrap();
        };
        fs::create_dir_all(under("deep/er")).unwrap();
        fs::create_dir_all(under("still/er")).unwrap();
        fs::create_dir_all(under("very/deep/indeed")).unwrap();
        mode("fixed", 0o444);
        mode("trigger", 0o200);
        mode("deep/er/knob", 0o644);
        mode("still/er/fact", 0o400);
        std::os::unix::fs::symlink("trigger", under("link")).unwrap();
        for (name, expected) in [
            ("fixed", false),
            ("trigger", true),
            ("deep", true),
            ("still", false),
            ("still/er/fact", false),
            ("very", true),
            ("link", false),
            ("missing", false),
        ] {
            assert_eq!(can_be_changed(&under(name), 0), expected, "{name}");
        }
        let covers = ProcCovers::of_host();
        assert_eq!(covers.read_only[0], Path::new("/proc/sys"));
        assert!(covers.read_only.iter().all(|path| !is_number(path)));
        assert!(covers.read_only.len() < 20, "{covers:?}");
    }
}
