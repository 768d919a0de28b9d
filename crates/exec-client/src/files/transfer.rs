//! One file, there or back. A later run can go on after what an earlier one has left: if it is not
//! longer than the source and its last block is the same.

use std::io::{Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::SystemTime;

use exec_protocol::path_uri::PathUri;

use super::part::{OwnLink, Part, local, local_io};
use super::tree::Meter;
use super::{ByteRange, Files, Replacement, WriteFrom, shown};
use crate::ExecServerError;
use crate::limits::{BLOCK_BYTES, REOPENS_MAX, WHOLE_FILE_BYTES_MAX};

/// Whether to go on after what is there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Resume {
    /// Begin anew.
    #[default]
    No,
    /// Go on, if what is there can be the beginning.
    Yes,
}

/// A file that was copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Copied {
    /// Its size.
    pub bytes: u64,
    /// How much of that was there already.
    pub resumed: u64,
}

impl Files {
    /// Fetches a file. It appears under its name when it is complete.
    pub(crate) async fn fetch_file(
        &self,
        remote: &PathUri,
        destination: &Path,
        link: OwnLink,
        resume: Resume,
        meter: &Meter<'_>,
    ) -> Result<Copied, ExecServerError> {
        let metadata = self.metadata(remote).await?;
        if !metadata.is_file {
            let how = "it is not a regular file".to_owned();
            return Err(ExecServerError::FileChanged { path: shown(remote), how });
        }
        meter.found_bytes(metadata.size);
        if resume == Resume::Yes && self.is_complete(remote, destination, metadata.size).await? {
            meter.moved(&shown(remote), metadata.size);
            return Ok(Copied { bytes: metadata.size, resumed: metadata.size });
        }
        let part = blocking(destination, {
            let destination = destination.to_owned();
            move || Part::open(&destination, link)
        })
        .await?;
        match self.fetch_into(&part, remote, metadata.size, resume, meter).await {
            Ok(copied) => {
                blocking(destination, move || part.finish()).await?;
                Ok(copied)
            }
            Err(error) => {
                // What was begun with a wish to resume is kept for the next time, and so is what
                // the network, not the file, has ended.
                if resume == Resume::No && !error.is_connection_lost() {
                    part.discard();
                }
                Err(error)
            }
        }
    }

    async fn fetch_into(
        &self,
        part: &Part,
        remote: &PathUri,
        size: u64,
        resume: Resume,
        meter: &Meter<'_>,
    ) -> Result<Copied, ExecServerError> {
        let path = shown(remote);
        let mut offset = part.len()?;
        if offset > 0 {
            let usable = resume == Resume::Yes
                && offset <= size
                && self.has_block(remote, offset, &last_block(part.file(), offset, &path)?).await?;
            if !usable {
                part.empty()?;
                offset = 0;
            }
        }
        let resumed = offset;
        meter.moved(&path, resumed);
        let io = |error: std::io::Error| local_io(Path::new(&path), &error);
        let mut file = part.file();
        file.seek(SeekFrom::Start(offset)).map_err(io)?;
        if offset == 0 && size <= BLOCK_BYTES as u64 {
            // One call instead of three. The file may have grown, and then this is all of it.
            let content = self.read(remote).await?;
            file.write_all(&content).map_err(io)?;
            meter.moved(&path, content.len() as u64);
            return Ok(Copied { bytes: content.len() as u64, resumed });
        }
        let mut stream = self.read_stream(remote, ByteRange::from(offset)).await?;
        while let Some(block) = stream.next().await? {
            // A block goes to the page cache; what is slow is the network.
            file.write_all(&block).map_err(io)?;
            meter.moved(&path, block.len() as u64);
        }
        Ok(Copied { bytes: stream.position(), resumed })
    }

    /// Whether the destination has the size already, and the same end.
    async fn is_complete(
        &self,
        remote: &PathUri,
        destination: &Path,
        size: u64,
    ) -> Result<bool, ExecServerError> {
        let Ok(file) = std::fs::File::open(destination) else { return Ok(false) };
        let found = file.metadata().map_err(|error| local_io(destination, &error))?;
        if !found.is_file() || found.len() != size {
            return Ok(false);
        }
        let block = last_block(&file, size, &destination.display().to_string())?;
        self.has_block(remote, size, &block).await
    }

    /// Whether the file has these bytes before that offset.
    async fn has_block(
        &self,
        remote: &PathUri,
        end: u64,
        block: &[u8],
    ) -> Result<bool, ExecServerError> {
        if block.is_empty() {
            return Ok(true);
        }
        let length = block.len() as u64;
        let range = ByteRange { offset: end - length, length: Some(length) };
        let mut stream = self.read_stream(remote, range).await?;
        let mut compared = 0;
        while let Some(bytes) = stream.next().await? {
            if block.get(compared..compared + bytes.len()) != Some(&bytes[..]) {
                return Ok(false);
            }
            compared += bytes.len();
        }
        Ok(compared == block.len())
    }

    /// Sends a file, in place. Where the server cannot continue a file, a lost connection means to
    /// begin again.
    pub(crate) async fn send_file(
        &self,
        source: &Path,
        remote: &PathUri,
        resume: Resume,
        meter: &Meter<'_>,
    ) -> Result<Copied, ExecServerError> {
        let file = Source::open(source)?;
        let path = source.display().to_string();
        let offset = match resume {
            Resume::Yes => self.sent_before(&file, remote).await?,
            Resume::No => 0,
        };
        meter.moved(&path, offset);
        if offset == file.len && resume == Resume::Yes && offset > 0 {
            return Ok(Copied { bytes: offset, resumed: offset });
        }
        let mut tries = 0;
        loop {
            let mut sent = 0;
            let outcome = self.send_from(&file, remote, offset, meter, &mut sent).await;
            match outcome {
                Err(error)
                    if error.is_connection_lost()
                        && !self.client.is_closed()
                        && tries < REOPENS_MAX =>
                {
                    tries += 1;
                    meter.undone(&path, sent);
                }
                Err(error) => return Err(error),
                Ok(()) => break,
            }
        }
        file.check_unchanged()?;
        Ok(Copied { bytes: file.len, resumed: offset })
    }

    async fn send_from(
        &self,
        source: &Source<'_>,
        remote: &PathUri,
        offset: u64,
        meter: &Meter<'_>,
        sent: &mut u64,
    ) -> Result<(), ExecServerError> {
        let path = source.path.display().to_string();
        let small = source.len <= BLOCK_BYTES as u64;
        let whole = source.len <= WHOLE_FILE_BYTES_MAX as u64 && !self.can_write_streams();
        if offset == 0 && (small || whole) {
            let content = source.read_at(0, usize::try_from(source.len).unwrap_or(usize::MAX))?;
            self.write(remote, &content, Replacement::InPlace).await?;
            meter.moved(&path, content.len() as u64);
            return Ok(());
        }
        let from = if offset == 0 { WriteFrom::Start } else { WriteFrom::Offset(offset) };
        let mut stream = self.write_stream(remote, from).await?;
        let mut at = offset;
        while at < source.len {
            let block = source.read_at(at, BLOCK_BYTES)?;
            if block.is_empty() {
                break;
            }
            stream.write(&block).await?;
            at += block.len() as u64;
            *sent += block.len() as u64;
            meter.moved(&path, block.len() as u64);
        }
        stream.finish().await?;
        Ok(())
    }

    /// How much of the file is there already, as its beginning.
    async fn sent_before(
        &self,
        source: &Source<'_>,
        remote: &PathUri,
    ) -> Result<u64, ExecServerError> {
        let Ok(there) = self.metadata(remote).await else { return Ok(0) };
        let complete = there.size == source.len;
        if !there.is_file || there.size > source.len || !(complete || self.can_continue_writes()) {
            return Ok(0);
        }
        let path = source.path.display().to_string();
        let block = last_block(&source.file, there.size, &path)?;
        Ok(if self.has_block(remote, there.size, &block).await? { there.size } else { 0 })
    }
}

/// A file of this machine, as it was when its copy began.
struct Source<'a> {
    path: &'a Path,
    file: std::fs::File,
    len: u64,
    modified: Option<SystemTime>,
}

impl<'a> Source<'a> {
    fn open(path: &'a Path) -> Result<Self, ExecServerError> {
        let io = |error: std::io::Error| local_io(path, &error);
        // Asked before: opening a FIFO would wait for its other end.
        if !std::fs::metadata(path).map_err(io)?.is_file() {
            return Err(local(path, "is not a regular file"));
        }
        let file = std::fs::File::open(path).map_err(io)?;
        let found = file.metadata().map_err(io)?;
        Ok(Self { path, file, len: found.len(), modified: found.modified().ok() })
    }

    fn read_at(&self, offset: u64, len: usize) -> Result<Vec<u8>, ExecServerError> {
        read_at(&self.file, offset, len).map_err(|error| local_io(self.path, &error))
    }

    fn check_unchanged(&self) -> Result<(), ExecServerError> {
        let now = self.file.metadata().map_err(|error| local_io(self.path, &error))?;
        if now.len() == self.len && now.modified().ok() == self.modified {
            return Ok(());
        }
        let path = self.path.display().to_string();
        let how = "it was written to while it was read".to_owned();
        Err(ExecServerError::FileChanged { path, how })
    }
}

/// Up to a block before that offset.
fn last_block(file: &std::fs::File, end: u64, path: &str) -> Result<Vec<u8>, ExecServerError> {
    let len = end.min(BLOCK_BYTES as u64);
    read_at(file, end - len, usize::try_from(len).unwrap_or(BLOCK_BYTES))
        .map_err(|error| local_io(Path::new(path), &error))
}

/// So many bytes, or fewer at the end of the file.
fn read_at(file: &std::fs::File, offset: u64, len: usize) -> std::io::Result<Vec<u8>> {
    let mut bytes = vec![0; len];
    let mut filled = 0;
    while filled < len {
        match file.read_at(&mut bytes[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(got) => filled += got,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}

/// Runs what may wait for a disk where that delays nobody.
pub(crate) async fn blocking<T: Send + 'static>(
    path: &Path,
    work: impl FnOnce() -> Result<T, ExecServerError> + Send + 'static,
) -> Result<T, ExecServerError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => Err(local(path, &error.to_string())),
    }
}
