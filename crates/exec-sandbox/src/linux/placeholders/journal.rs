//! What must be cleared away if the server is killed: one journal for each server, locked for its
//! life, all in one directory. A journal without a lock belongs to nobody any more.
//!
//! Written before and after a placeholder is made. A kill loses nothing of it; after a loss of power
//! a placeholder may stay, which costs an empty directory and no more.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use rustix::fs::FlockOperation;
use rustix::io::Errno;

use super::object::Identity;
use crate::plan::PlaceholderKind;

/// Longer, and it is written anew with what is still true.
const BYTES_MAX: u64 = 256 * 1024;
/// Read of another's journal. Longer ones are not ours.
const READ_BYTES_MAX: u64 = 2 * BYTES_MAX;
/// Journals looked at.
const JOURNALS_MAX: usize = 1024;
/// Others hold the directory for a few milliseconds.
const LOCK_PATIENCE: Duration = Duration::from_secs(2);
const LOCK_INTERVAL: Duration = Duration::from_millis(5);
const ENDING: &str = "journal";

/// One line. It ends with a NUL, since a path may contain everything else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Record {
    /// Is going to be made.
    Intent { path: PathBuf, kind: PlaceholderKind, when: i64 },
    /// Was made, or found as another server's.
    Made { path: PathBuf, kind: PlaceholderKind, identity: Identity },
    /// Is no more, or not ours any more.
    Forgotten { path: PathBuf },
}

impl Record {
    pub(super) fn intent(path: &Path, kind: PlaceholderKind) -> Record {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let when = i64::try_from(since.as_nanos()).unwrap_or(i64::MAX);
        Record::Intent { path: path.to_owned(), kind, when }
    }

    pub(super) fn made(path: &Path, kind: PlaceholderKind, identity: Identity) -> Record {
        Record::Made { path: path.to_owned(), kind, identity }
    }

    pub(super) fn forgotten(path: &Path) -> Record {
        Record::Forgotten { path: path.to_owned() }
    }

    fn path(&self) -> &Path {
        match self {
            Record::Intent { path, .. }
            | Record::Made { path, .. }
            | Record::Forgotten { path } => path,
        }
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = match self {
            Record::Intent { kind, when, .. } => format!("intent {} {when} ", letter(*kind)),
            Record::Made { kind, identity: Identity { device, inode, born }, .. } => {
                format!("made {} {device} {inode} {born} ", letter(*kind))
            }
            Record::Forgotten { .. } => "forgotten ".to_owned(),
        }
        .into_bytes();
        bytes.extend_from_slice(self.path().as_os_str().as_bytes());
        bytes.push(0);
        bytes
    }

    /// None for what was cut off or is not from us.
    fn decode(line: &[u8]) -> Option<Record> {
        let (words, path) = line.split_at(line.iter().position(|byte| *byte == b'/')?);
        let path = PathBuf::from(OsStr::from_bytes(path));
        let words: Vec<&str> = str::from_utf8(words).ok()?.split_ascii_whitespace().collect();
        match words.as_slice() {
            ["intent", kind, when] => {
                Some(Record::Intent { path, kind: from_letter(kind)?, when: when.parse().ok()? })
            }
            ["made", kind, device, inode, born] => {
                let (device, inode) = (device.parse().ok()?, inode.parse().ok()?);
                let identity = Identity { device, inode, born: born.parse().ok()? };
                Some(Record::Made { path, kind: from_letter(kind)?, identity })
            }
            ["forgotten"] => Some(Record::Forgotten { path }),
            _ => None,
        }
    }
}

fn letter(kind: PlaceholderKind) -> char {
    match kind {
        PlaceholderKind::Directory => 'd',
        PlaceholderKind::File => 'f',
    }
}

fn from_letter(letter: &str) -> Option<PlaceholderKind> {
    match letter {
        "d" => Some(PlaceholderKind::Directory),
        "f" => Some(PlaceholderKind::File),
        _ => None,
    }
}

/// What a journal still says at its end: for each path, what was written last.
fn remaining(bytes: &[u8]) -> Vec<Record> {
    let mut left: Vec<Record> = Vec::new();
    // Behind the last NUL is nothing, or a line that was cut off.
    let lines = bytes.split_inclusive(|byte| *byte == 0).filter_map(|line| line.strip_suffix(&[0]));
    for record in lines.filter_map(Record::decode) {
        left.retain(|before| before.path() != record.path());
        if !matches!(record, Record::Forgotten { .. }) {
            left.push(record);
        }
    }
    left
}

/// This server's journal. Removed when it is dropped, if nothing is left in it.
#[derive(Debug)]
pub(super) struct Journal {
    directory: PathBuf,
    path: PathBuf,
    file: File,
    length: u64,
}

impl Journal {
    /// A new journal, and what the journals of dead servers still say; those are removed.
    pub(super) fn open(directory: &Path) -> io::Result<(Journal, Vec<Record>)> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        let _others_wait = lock_directory(directory)?;
        let others = journals(directory)?;
        let (path, file) = new_file(directory)?;
        let mut journal = Journal { directory: directory.to_owned(), path, file, length: 0 };
        let mut left = Vec::new();
        for other in others {
            let Ok(mut old) = open_existing(&other) else { continue };
            if rustix::fs::flock(&old, FlockOperation::NonBlockingLockExclusive).is_err() {
                continue;
            }
            // Taken over before it is gone: we may be killed too.
            for record in remaining(&read(&mut old)?) {
                journal.write(&record)?;
                left.push(record);
            }
            fs::remove_file(&other)?;
        }
        Ok((journal, left))
    }

    pub(super) fn write(&mut self, record: &Record) -> io::Result<()> {
        let bytes = record.encode();
        // One write: a kill leaves a whole line, or none.
        self.file.write_all(&bytes)?;
        self.length += bytes.len() as u64;
        Ok(())
    }

    /// Whether another server that is alive says that it made this, uses it, or is just making it.
    pub(super) fn others_have(&self, path: &Path, identity: Identity) -> bool {
        let says_so = |record: &Record| match record {
            Record::Made { path: at, identity: it, .. } => at == path && *it == identity,
            Record::Intent { path: at, when, .. } => at == path && identity.was_born_at(*when),
            Record::Forgotten { .. } => false,
        };
        let others = journals(&self.directory).unwrap_or_default();
        others.into_iter().filter(|other| *other != self.path).any(|other| {
            let bytes = open_existing(&other).and_then(|mut file| read(&mut file));
            remaining(&bytes.unwrap_or_default()).iter().any(says_so)
        })
    }

    /// Begins anew with what is true, if nothing is or the journal has become long.
    pub(super) fn shorten(&mut self, held: impl Iterator<Item = Record>) -> io::Result<()> {
        let held: Vec<Record> = held.collect();
        if self.length == 0 || (!held.is_empty() && self.length < BYTES_MAX) {
            return Ok(());
        }
        let written = remaining(&read(&mut open_existing(&self.path)?)?);
        let is_held = |record: &Record| held.iter().any(|other| other.path() == record.path());
        // What could not be removed stays written down.
        let stuck: Vec<Record> = written.into_iter().filter(|record| !is_held(record)).collect();
        let bytes: Vec<u8> = stuck.iter().chain(&held).flat_map(Record::encode).collect();
        if bytes.len() as u64 == self.length {
            return Ok(());
        }
        if bytes.is_empty() {
            self.file.set_len(0)?;
        } else {
            self.replace(&bytes)?;
        }
        self.length = bytes.len() as u64;
        Ok(())
    }

    /// Complete and locked before it takes the old one's name, so that a kill leaves either.
    fn replace(&mut self, bytes: &[u8]) -> io::Result<()> {
        let _others_wait = lock_directory(&self.directory)?;
        let path = self.path.with_extension("new");
        let mut file = created(&path)?;
        file.write_all(bytes)?;
        fs::rename(&path, &self.path)?;
        self.file = file;
        Ok(())
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        let empty = self.file.metadata().is_ok_and(|metadata| metadata.len() == 0);
        if empty && let Err(error) = fs::remove_file(&self.path) {
            tracing::debug!(%error, "cannot remove the journal of placeholders");
        }
    }
}

/// Servers that start, end or rewrite do so one after the other.
fn lock_directory(directory: &Path) -> io::Result<File> {
    let lock = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW)
        .open(directory.join("lock"))?;
    let deadline = Instant::now() + LOCK_PATIENCE;
    while let Err(error) = rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
        if error != Errno::WOULDBLOCK || Instant::now() > deadline {
            return Err(error.into());
        }
        thread::sleep(LOCK_INTERVAL);
    }
    Ok(lock)
}

fn new_file(directory: &Path) -> io::Result<(PathBuf, File)> {
    let pid = std::process::id();
    for number in 0..JOURNALS_MAX {
        let path = directory.join(format!("{pid}-{number}.{ENDING}"));
        match created(&path) {
            Ok(file) => return Ok((path, file)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::other("too many journals of placeholders"))
}

fn created(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.append(true).create_new(true).mode(0o600).custom_flags(libc::O_NOFOLLOW);
    let file = options.open(path)?;
    rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    Ok(file)
}

fn open_existing(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW).open(path)
}

fn read(file: &mut File) -> io::Result<Vec<u8>> {
    file.rewind()?;
    let mut bytes = Vec::new();
    file.take(READ_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn journals(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(directory)?.take(JOURNALS_MAX);
    let paths = entries.filter_map(|entry| entry.ok().map(|entry| entry.path()));
    Ok(paths.filter(|path| path.extension() == Some(OsStr::new(ENDING))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(path: &str, inode: u64) -> Record {
        let identity = Identity { device: 1, inode, born: 5 };
        Record::made(Path::new(path), PlaceholderKind::Directory, identity)
    }

    #[test]
    fn the_last_word_about_a_path_counts() {
        let intent =
            |path: &str| Record::Intent { path: path.into(), kind: PlaceholderKind::File, when: 7 };
        let odd = "/w/a b\n/.git";
        let records = [
            intent("/a"),
            made("/a", 1),
            intent(odd),
            made(odd, 2),
            intent("/b"),
            made("/c", 3),
            Record::forgotten(Path::new("/c")),
            made("/a", 4),
        ];
        let mut bytes: Vec<u8> = records.iter().flat_map(Record::encode).collect();
        let expected = vec![made(odd, 2), intent("/b"), made("/a", 4)];
        assert_eq!(remaining(&bytes), expected);
        // A line that was cut off, and lines that are not ours, say nothing.
        bytes.extend_from_slice(b"hello /a\0made d x y z /a\0\0forgotten\0made d 1 2 3 /zz");
        assert_eq!(remaining(&bytes), expected);
        assert_eq!(remaining(b""), vec![]);
    }

    #[test]
    fn a_long_journal_is_written_anew_and_keeps_what_is_true() {
        let dir = tempfile::tempdir().unwrap();
        let (mut journal, left) = Journal::open(dir.path()).unwrap();
        assert_eq!(left, vec![]);
        let held = made("/held", 1);
        journal.write(&made("/stuck", 2)).unwrap();
        while journal.length < BYTES_MAX {
            journal.write(&held).unwrap();
        }
        journal.shorten([held.clone()].into_iter()).unwrap();
        let length = fs::metadata(&journal.path).unwrap().len();
        assert!(length == journal.length && length < 100, "{length}");
        journal.write(&made("/more", 3)).unwrap();
        // Another server sees it as ours, and not as left behind.
        let (other, left) = Journal::open(dir.path()).unwrap();
        assert_eq!(left, vec![]);
        assert!(other.others_have(Path::new("/more"), Identity { device: 1, inode: 3, born: 5 }));
        assert!(!other.others_have(Path::new("/more"), Identity { device: 1, inode: 4, born: 5 }));
        drop(other);
        drop(journal);
        let (_, left) = Journal::open(dir.path()).unwrap();
        assert_eq!(left, vec![made("/stuck", 2), held, made("/more", 3)]);
    }
}
