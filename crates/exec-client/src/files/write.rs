//! Writing a file of any size: several blocks on their way, kept until they are confirmed.
//!
//! After a lost connection the file is opened again without emptying it, and what was not confirmed
//! is sent again. A block that arrives twice has the same bytes at the same place.

use std::collections::VecDeque;
use std::pin::Pin;

use exec_protocol::fs::OpenMode;
use exec_protocol::path_uri::PathUri;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesOrdered;

use super::{Files, Handle, is_handle_lost, shown};
use crate::ExecServerError;
use crate::limits::{BLOCK_BYTES, BLOCKS_IN_FLIGHT, REOPENS_MAX};

/// Where writing begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteFrom {
    /// With an empty file.
    Start,
    /// At that byte of a file that stays as it is. Codex cannot.
    Offset(u64),
}

type Sent = Pin<Box<dyn Future<Output = Result<(), ExecServerError>> + Send>>;

/// A file being written, in place. Holds at most nine blocks of 256 KiB.
#[derive(Debug)]
pub struct WriteStream {
    files: Files,
    path: PathUri,
    handle: Handle,
    /// Not enough for a block yet.
    buffer: Vec<u8>,
    /// Sent and not confirmed, from `confirmed` on without gaps.
    unconfirmed: VecDeque<Vec<u8>>,
    answers: FuturesOrdered<Sent>,
    confirmed: u64,
    /// End of what was sent.
    sent: u64,
    reopens: u32,
}

impl Files {
    /// Writes a file in order, in place. Nothing is sure before [`WriteStream::finish`]. A
    /// connection that is lost on the way is a delay where the server can continue writes;
    /// elsewhere it is [`ExecServerError::ConnectionLost`], and the caller begins again.
    pub async fn write_stream(
        &self,
        path: &PathUri,
        from: WriteFrom,
    ) -> Result<WriteStream, ExecServerError> {
        self.require("writing files in blocks", |can| can.file_write_streaming)?;
        let (mode, offset) = match from {
            WriteFrom::Start => (OpenMode::Replace, 0),
            WriteFrom::Offset(offset) => {
                self.require("continuing a file", |can| can.fs_open_update)?;
                (OpenMode::Update, offset)
            }
        };
        Ok(WriteStream {
            files: self.clone(),
            path: path.clone(),
            handle: self.open(path, mode).await?,
            buffer: Vec::new(),
            unconfirmed: VecDeque::new(),
            answers: FuturesOrdered::new(),
            confirmed: offset,
            sent: offset,
            reopens: 0,
        })
    }
}

impl WriteStream {
    /// Everything before this byte is in the file.
    pub fn confirmed(&self) -> u64 {
        self.confirmed
    }

    /// Takes bytes; waits while enough are on their way. Not cancel-safe: a call that was dropped
    /// may have taken a part.
    pub async fn write(&mut self, mut bytes: &[u8]) -> Result<(), ExecServerError> {
        while !bytes.is_empty() {
            let part = bytes.len().min(BLOCK_BYTES - self.buffer.len());
            self.buffer.extend_from_slice(&bytes[..part]);
            bytes = &bytes[part..];
            if self.buffer.len() == BLOCK_BYTES {
                self.send_buffer();
            }
            while self.unconfirmed.len() >= BLOCKS_IN_FLIGHT {
                self.confirm().await?;
            }
        }
        Ok(())
    }

    /// Waits until everything is in the file, closes it, and makes sure that its size is what was
    /// written. Returns that.
    pub async fn finish(mut self) -> Result<u64, ExecServerError> {
        if !self.buffer.is_empty() {
            self.send_buffer();
        }
        while !self.unconfirmed.is_empty() {
            self.confirm().await?;
        }
        let size = self.files.metadata(&self.path).await?.size;
        if size != self.sent {
            let how = format!("{} bytes were written and it has {size}", self.sent);
            return Err(self.changed(how));
        }
        self.handle.close().await?;
        Ok(size)
    }

    fn send_buffer(&mut self) {
        let block = std::mem::take(&mut self.buffer);
        self.answers.push_back(Box::pin(self.handle.write_block(self.sent, block.clone())));
        self.sent += block.len() as u64;
        self.unconfirmed.push_back(block);
    }

    /// Waits for the oldest block.
    async fn confirm(&mut self) -> Result<(), ExecServerError> {
        match self.answers.next().await {
            Some(Ok(())) => {
                let block = self.unconfirmed.pop_front().unwrap_or_default();
                self.confirmed += block.len() as u64;
                self.reopens = 0;
                Ok(())
            }
            Some(Err(error)) if is_handle_lost(&error) && self.reopens < REOPENS_MAX => {
                self.reopen(error).await
            }
            Some(Err(error)) => Err(error),
            None => Err(ExecServerError::Protocol("a block was sent to nobody".to_owned())),
        }
    }

    async fn reopen(&mut self, cause: ExecServerError) -> Result<(), ExecServerError> {
        if !self.files.can_continue_writes() {
            let reason = format!("{cause}; this server cannot continue the file");
            return Err(ExecServerError::ConnectionLost(reason));
        }
        tracing::debug!(%cause, confirmed = self.confirmed, "opening the file again");
        self.answers = FuturesOrdered::new();
        loop {
            self.reopens += 1;
            match self.open_again().await {
                Ok(handle) => {
                    self.handle = handle;
                    break;
                }
                Err(error)
                    if error.is_connection_lost()
                        && self.reopens < REOPENS_MAX
                        && !self.files.client.is_closed() => {}
                Err(error) => return Err(error),
            }
        }
        let mut offset = self.confirmed;
        for block in &self.unconfirmed {
            self.answers.push_back(Box::pin(self.handle.write_block(offset, block.clone())));
            offset += block.len() as u64;
        }
        Ok(())
    }

    /// Opens the file as it stands, and makes sure that nobody else has touched its size.
    async fn open_again(&self) -> Result<Handle, ExecServerError> {
        // Looked at first: to open it would create it.
        let size = self.files.metadata(&self.path).await?.size;
        if size < self.confirmed || size > self.sent {
            let (least, most) = (self.confirmed, self.sent);
            let how = format!("it has {size} bytes and not {least} to {most}");
            return Err(self.changed(how));
        }
        self.files.open(&self.path, OpenMode::Update).await
    }

    fn changed(&self, how: String) -> ExecServerError {
        ExecServerError::FileChanged { path: shown(&self.path), how }
    }
}
