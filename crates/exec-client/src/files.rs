//! Files on the executor: one typed call for each `fs/*` method, and what is built from them.
//!
//! | module | what |
//! | --- | --- |
//! | [`read`](ReadStream), [`write`](WriteStream) | files of any size, several blocks on their way |
//! | `watch` | changes, as a stream that survives a cut |
//! | `transfer`, `part` | one file, there or back, resumable |
//! | `tree`, `download`, `upload`, `names` | many files |

mod download;
mod names;
mod part;
mod read;
mod transfer;
mod tree;
mod upload;
mod watch;
mod write;

use exec_protocol::bytes::{self, Base64Bytes};
use exec_protocol::environment::Capabilities;
use exec_protocol::fs::*;
use exec_protocol::methods::*;
use exec_protocol::path_uri::PathUri;

use crate::limits::WHOLE_FILE_BYTES_MAX;
use crate::{ExecServerClient, ExecServerError};

pub use read::{ByteRange, ReadStream};
pub use transfer::{Copied, Resume};
pub use tree::{Failure, Links, Progress, Report, TreeOptions};
pub use watch::{Changes, MissingWatch, Watch};
pub use write::{WriteFrom, WriteStream};

/// The files of an executor. Paths are URIs; [`PathUri::from_native`] makes one.
///
/// Calls that look, and those whose effect is the same however often they are made, are sent again
/// after a lost connection. The others ([`Files::copy`], [`Files::remove`], [`Files::rename`],
/// [`Files::create_directory`] without parents) fail with [`ExecServerError::ConnectionLost`].
///
/// Every method fails with [`ExecServerError::Rpc`] if the server refuses, and with
/// [`ExecServerError::Unsupported`] where the server is known to lack what is asked for.
#[derive(Debug, Clone)]
pub struct Files {
    client: ExecServerClient,
}

/// Replace the file, or first make another and give it the name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replacement {
    /// Emptied, then written: owner, mode and links stay.
    InPlace,
    /// After a crash it has its old content or its new one. Codex cannot.
    Atomic,
}

/// Of a directory: itself only, or with all it holds and needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recursion {
    /// One entry.
    Single,
    /// Everything below; when creating, the parents.
    Tree,
}

/// What to say if something is missing, or there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tolerance {
    /// It is an error.
    Refuse,
    /// It is fine.
    Accept,
}

impl ExecServerClient {
    /// The files of the executor.
    pub fn files(&self) -> Files {
        Files { client: self.clone() }
    }
}

impl Files {
    /// The whole of a file that fits a message: up to about 48 MiB.
    pub async fn read(&self, path: &PathUri) -> Result<Vec<u8>, ExecServerError> {
        let params = ReadFileParams { path: path.clone(), follow_symlinks: None, sandbox: None };
        Ok(self.client.call::<FsReadFile>(params).await?.data_base64.0)
    }

    /// Gives a file its content, of up to 8 MiB; [`Files::write_stream`] takes more.
    pub async fn write(
        &self,
        path: &PathUri,
        content: &[u8],
        replacement: Replacement,
    ) -> Result<(), ExecServerError> {
        let atomic = replacement == Replacement::Atomic;
        if atomic {
            self.require("atomic writes", |can| can.fs_atomic_write)?;
        }
        if content.len() > WHOLE_FILE_BYTES_MAX {
            let reason = format!("a content of {} bytes is for a stream", content.len());
            return Err(ExecServerError::Protocol(reason));
        }
        let data_base64 = encode(content)?;
        let path = path.clone();
        let params =
            WriteFileParams { path, data_base64, follow_symlinks: None, atomic, sandbox: None };
        self.client.call::<FsWriteFile>(params).await?;
        Ok(())
    }

    /// What is known of a path; of a link, what is known of its target.
    pub async fn metadata(&self, path: &PathUri) -> Result<Metadata, ExecServerError> {
        let params = GetMetadataParams { path: path.clone(), follow_symlinks: None, sandbox: None };
        self.client.call::<FsGetMetadata>(params).await
    }

    /// The same place without any symbolic link.
    pub async fn canonicalize(&self, path: &PathUri) -> Result<PathUri, ExecServerError> {
        let params = CanonicalizeParams { path: path.clone(), sandbox: None };
        Ok(self.client.call::<FsCanonicalize>(params).await?.path)
    }

    /// What a directory holds, in no order. Links are described by their target, and left out when
    /// it does not exist.
    pub async fn list(&self, path: &PathUri) -> Result<Vec<DirectoryEntry>, ExecServerError> {
        let params = ReadDirectoryParams { path: path.clone(), sandbox: None };
        Ok(self.client.call::<FsReadDirectory>(params).await?.entries)
    }

    /// Directories and files below a directory, breadth first; links are not listed.
    pub async fn walk(
        &self,
        path: &PathUri,
        options: WalkOptions,
    ) -> Result<WalkResult, ExecServerError> {
        let params = WalkParams { path: path.clone(), options, sandbox: None };
        self.client.call::<FsWalk>(params).await
    }

    /// Makes a directory; with [`Recursion::Tree`] its parents too, and it may exist.
    pub async fn create_directory(
        &self,
        path: &PathUri,
        recursion: Recursion,
    ) -> Result<(), ExecServerError> {
        let params = CreateDirectoryParams {
            path: path.clone(),
            recursive: Some(recursion == Recursion::Tree),
            follow_symlinks: None,
            sandbox: None,
        };
        self.client.call::<FsCreateDirectory>(params).await?;
        Ok(())
    }

    /// Removes a file, a link or a directory.
    pub async fn remove(
        &self,
        path: &PathUri,
        recursion: Recursion,
        missing: Tolerance,
    ) -> Result<(), ExecServerError> {
        let params = RemoveParams {
            path: path.clone(),
            recursive: Some(recursion == Recursion::Tree),
            force: Some(missing == Tolerance::Accept),
            follow_symlinks: None,
            sandbox: None,
        };
        self.client.call::<FsRemove>(params).await?;
        Ok(())
    }

    /// Copies from one place on the executor to another.
    pub async fn copy(
        &self,
        source: &PathUri,
        destination: &PathUri,
        recursion: Recursion,
    ) -> Result<(), ExecServerError> {
        let params = CopyParams {
            source_path: source.clone(),
            destination_path: destination.clone(),
            recursive: recursion == Recursion::Tree,
            sandbox: None,
        };
        self.client.call::<FsCopy>(params).await?;
        Ok(())
    }

    /// Gives a file, a link or a directory another name on the same file system. Codex cannot.
    pub async fn rename(
        &self,
        source: &PathUri,
        destination: &PathUri,
        existing: Tolerance,
    ) -> Result<(), ExecServerError> {
        self.require("fs/rename", |can| can.fs_rename)?;
        let params = RenameParams {
            source_path: source.clone(),
            destination_path: destination.clone(),
            overwrite: existing == Tolerance::Accept,
            sandbox: None,
        };
        self.client.call::<FsRename>(params).await?;
        Ok(())
    }

    /// Looks for text in files. Codex cannot.
    pub async fn search(&self, params: SearchParams) -> Result<SearchResult, ExecServerError> {
        self.require("fs/search", |can| can.fs_search)?;
        self.client.call::<FsSearch>(params).await
    }

    /// Whether blocks can be written: if not, only [`Files::write`] can.
    pub fn can_write_streams(&self) -> bool {
        self.capabilities().file_write_streaming
    }

    /// Whether writing can go on in a file that has content. Codex cannot.
    pub fn can_continue_writes(&self) -> bool {
        self.capabilities().fs_open_update
    }

    fn capabilities(&self) -> Capabilities {
        self.client.environment().map(|info| info.capabilities).unwrap_or_default()
    }

    fn require(
        &self,
        what: &'static str,
        has: impl Fn(&Capabilities) -> bool,
    ) -> Result<(), ExecServerError> {
        if has(&self.capabilities()) { Ok(()) } else { Err(ExecServerError::Unsupported(what)) }
    }

    async fn open(&self, path: &PathUri, mode: OpenMode) -> Result<Handle, ExecServerError> {
        let handle_id = format!("h{}", self.client.next_number());
        // Made first: an open whose caller is dropped meanwhile is closed as well.
        let handle = Handle { client: self.client.clone(), id: handle_id.clone() };
        let params = OpenParams { handle_id, path: path.clone(), mode, sandbox: None };
        self.client.call::<FsOpen>(params).await?;
        Ok(handle)
    }
}

fn encode(content: &[u8]) -> Result<String, ExecServerError> {
    let mut out = Vec::with_capacity(bytes::encoded_len(content.len()));
    bytes::encode_into(&mut out, content);
    String::from_utf8(out).map_err(|error| ExecServerError::Protocol(error.to_string()))
}

/// A file that the server holds open for this connection. Dropped, it is closed there.
#[derive(Debug)]
struct Handle {
    client: ExecServerClient,
    id: String,
}

impl Handle {
    fn read_block(
        &self,
        offset: u64,
        len: usize,
    ) -> impl Future<Output = Result<ReadBlockResult, ExecServerError>> + Send + use<> {
        let client = self.client.clone();
        let params = ReadBlockParams { handle_id: self.id.clone(), offset, len: len as u64 };
        async move { client.call::<FsReadBlock>(params).await }
    }

    fn write_block(
        &self,
        offset: u64,
        chunk: Vec<u8>,
    ) -> impl Future<Output = Result<(), ExecServerError>> + Send + use<> {
        let client = self.client.clone();
        let handle_id = self.id.clone();
        async move {
            let params = WriteBlockParams { handle_id, offset, chunk: Base64Bytes(chunk) };
            client.call::<FsWriteBlock>(params).await.map(drop)
        }
    }

    /// Closes it and waits for that.
    async fn close(self) -> Result<(), ExecServerError> {
        // Dropped afterwards, it is closed once more, which is no error.
        let handle_id = self.id.clone();
        self.client.call::<FsClose>(HandleRef { handle_id }).await.map(drop)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let (client, handle_id) = (self.client.clone(), std::mem::take(&mut self.id));
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            // A connection that is gone has closed it already.
            runtime.spawn(async move { client.call::<FsClose>(HandleRef { handle_id }).await });
        }
    }
}

/// The handle is gone: with its connection, or because the server closed it after a failure.
fn is_handle_lost(error: &ExecServerError) -> bool {
    use exec_protocol::jsonrpc::code::NOT_FOUND;
    error.is_connection_lost() || error.code() == Some(NOT_FOUND)
}

/// A path for a person: native if it is one of ours.
pub(crate) fn shown(path: &PathUri) -> String {
    path.to_native()
        .map_or_else(|_| path.as_str().to_owned(), |native| native.display().to_string())
}
