//! Reading a file of any size: several blocks on their way, given out in order.
//!
//! Handles die with their connection. The stream then opens the file again and goes on where it
//! was, provided the file is still the same.

use std::collections::VecDeque;
use std::pin::Pin;

use exec_protocol::fs::{Metadata, OpenMode, ReadBlockResult};
use exec_protocol::path_uri::PathUri;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesOrdered;

use super::{Files, Handle, is_handle_lost, shown};
use crate::ExecServerError;
use crate::limits::{BLOCK_BYTES, BLOCKS_IN_FLIGHT, REOPENS_MAX};

/// Which bytes of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ByteRange {
    /// From this one on.
    pub offset: u64,
    /// So many, or to the end.
    pub length: Option<u64>,
}

impl ByteRange {
    /// Everything from that byte on.
    pub fn from(offset: u64) -> Self {
        Self { offset, length: None }
    }
}

type Answer = Result<ReadBlockResult, ExecServerError>;
type Asked = Pin<Box<dyn Future<Output = Answer> + Send>>;

/// A file being read. Holds at most eight blocks of 256 KiB.
#[derive(Debug)]
pub struct ReadStream {
    files: Files,
    path: PathUri,
    handle: Handle,
    /// As it was when it was opened.
    metadata: Metadata,
    /// What was given out ends here.
    position: u64,
    /// What was asked for ends here.
    asked: u64,
    /// Nothing is wanted from here on.
    end: Option<u64>,
    answers: FuturesOrdered<Asked>,
    lengths: VecDeque<usize>,
    ended: bool,
    reopens: u32,
}

impl Files {
    /// Reads a regular file in order. A connection that is lost on the way is a delay, unless the
    /// file has changed meanwhile (size or time of modification): then
    /// [`ExecServerError::FileChanged`].
    pub async fn read_stream(
        &self,
        path: &PathUri,
        range: ByteRange,
    ) -> Result<ReadStream, ExecServerError> {
        let (handle, metadata) = self.open_known(path).await?;
        Ok(ReadStream {
            files: self.clone(),
            path: path.clone(),
            handle,
            metadata,
            position: range.offset,
            asked: range.offset,
            end: range.length.map(|length| range.offset.saturating_add(length)),
            answers: FuturesOrdered::new(),
            lengths: VecDeque::new(),
            ended: false,
            reopens: 0,
        })
    }

    /// Opens a file and tells what it is. It is looked at before and after, so that handle and
    /// metadata are of one file also when another takes its place at that moment.
    async fn open_known(&self, path: &PathUri) -> Result<(Handle, Metadata), ExecServerError> {
        let mut tries = 0;
        loop {
            let before = self.metadata(path).await?;
            let handle = self.open(path, OpenMode::Read).await?;
            let after = self.metadata(path).await?;
            if is_same(&before, &after) || tries == REOPENS_MAX {
                return Ok((handle, after));
            }
            tries += 1;
        }
    }
}

/// As far as the protocol can tell.
fn is_same(one: &Metadata, other: &Metadata) -> bool {
    (one.size, one.modified_at_ms, one.is_file) == (other.size, other.modified_at_ms, other.is_file)
}

impl ReadStream {
    /// What the file was when it was opened.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// The byte that comes next.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// The next bytes; `None` after the last. Cancel-safe unless the connection is being
    /// recovered, and then the next call goes on with that.
    pub async fn next(&mut self) -> Result<Option<Vec<u8>>, ExecServerError> {
        loop {
            self.ask();
            let Some(answer) = self.answers.next().await else { return Ok(None) };
            let asked = self.lengths.pop_front().unwrap_or_default();
            match answer {
                Ok(block) => {
                    let bytes = self.take(block, asked)?;
                    if self.ended && self.position < self.metadata.size {
                        self.check_short().await?;
                    }
                    if bytes.is_some() {
                        return Ok(bytes);
                    }
                }
                Err(error) if is_handle_lost(&error) && self.reopens < REOPENS_MAX => {
                    self.reopen(&error).await?;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Asks for blocks until enough are on their way. Beyond the size that the file had, one at a
    /// time: it may have grown, and some files do not know their size.
    fn ask(&mut self) {
        while !self.ended && self.answers.len() < BLOCKS_IN_FLIGHT {
            let wanted = self.end.map_or(u64::MAX, |end| end.saturating_sub(self.asked));
            let len = usize::try_from(wanted).unwrap_or(usize::MAX).min(BLOCK_BYTES);
            if len == 0 || (self.asked >= self.metadata.size && !self.answers.is_empty()) {
                return;
            }
            self.answers.push_back(Box::pin(self.handle.read_block(self.asked, len)));
            self.lengths.push_back(len);
            self.asked += len as u64;
        }
    }

    fn take(
        &mut self,
        block: ReadBlockResult,
        asked: usize,
    ) -> Result<Option<Vec<u8>>, ExecServerError> {
        let bytes = block.chunk.0;
        if bytes.len() > asked || (bytes.len() < asked && !block.eof) {
            let reason = format!("asked for {asked} bytes, got {}", bytes.len());
            return Err(ExecServerError::Protocol(reason));
        }
        self.position += bytes.len() as u64;
        self.reopens = 0;
        if block.eof {
            self.ended = true;
            self.answers = FuturesOrdered::new();
            self.lengths.clear();
        }
        Ok((!bytes.is_empty()).then_some(bytes))
    }

    /// The file ended early. Some always say more than they have; others were cut off just now.
    async fn check_short(&self) -> Result<(), ExecServerError> {
        let size = self.files.metadata(&self.path).await?.size;
        if size == self.metadata.size {
            return Ok(());
        }
        Err(self.changed(format!("it had {} bytes and now {size}", self.metadata.size)))
    }

    async fn reopen(&mut self, cause: &ExecServerError) -> Result<(), ExecServerError> {
        tracing::debug!(%cause, position = self.position, "opening the file again");
        self.answers = FuturesOrdered::new();
        self.lengths.clear();
        self.asked = self.position;
        loop {
            self.reopens += 1;
            match self.files.open_known(&self.path).await {
                Ok((_, metadata)) if !is_same(&metadata, &self.metadata) => {
                    return Err(self.changed("it is another than before the cut".to_owned()));
                }
                Ok((handle, _)) => {
                    self.handle = handle;
                    return Ok(());
                }
                Err(error)
                    if error.is_connection_lost()
                        && self.reopens < REOPENS_MAX
                        && !self.files.client.is_closed() => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn changed(&self, how: String) -> ExecServerError {
        ExecServerError::FileChanged { path: shown(&self.path), how }
    }
}
