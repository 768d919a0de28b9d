//! The `fs/*` handlers. What is in memory already is answered at once; everything else runs where
//! blocking delays nobody, in a bounded number, and is cancelled when nobody waits for it any more.

use std::path::PathBuf;

use exec_fs::watch::Depth;
use exec_fs::{Cancel, Existing, FileReader, Links, Missing, Parents, Recursion, Replacement};
use exec_protocol::fs::*;
use exec_protocol::path_uri::PathUri;
use exec_protocol::process::Empty;
use tokio::sync::mpsc;

use crate::blocking::blocking;
use crate::dispatch::{Caller, FileCaller};
use crate::error::Error;
use crate::limits::{CACHED_READ_BYTES, FILE_PIECE_BYTES, read_file_bytes_max};
use crate::reply::{Piece, Pieces, RawResult};

pub(crate) async fn read_file(
    caller: FileCaller,
    params: ReadFileParams,
) -> Result<RawResult, Error> {
    let path = native(&params.path)?;
    let links = Links::from_wire(params.follow_symlinks);
    if let Some(read) = exec_fs::read_file_cached(&path, links, CACHED_READ_BYTES) {
        return Ok(whole(read?));
    }
    let limit = read_file_bytes_max(caller.message_bytes_max);
    send_file(&caller, move || Ok(FileReader::open(&path, links, limit)?)).await
}

/// The name of a file's content in the answer.
const MEMBER: &str = "dataBase64";

fn whole(content: Vec<u8>) -> RawResult {
    RawResult::Content { member: MEMBER, content, rest: "" }
}

/// The answer with a file's content, in pieces if it is large.
pub(crate) async fn send_file(
    caller: &FileCaller,
    open: impl FnOnce() -> Result<FileReader, Error> + Send + 'static,
) -> Result<RawResult, Error> {
    let (first, file) = blocking(caller, move |_| {
        let mut file = open()?;
        Ok((next_piece(&mut file)?, file))
    })
    .await?;
    if first.last {
        return Ok(whole(first.content));
    }
    Ok(RawResult::Pieces { member: MEMBER, pieces: read_on(caller, first, file) })
}

/// Reads the rest of a file as fast as the connection takes it.
fn read_on(caller: &FileCaller, first: Piece, mut file: FileReader) -> Pieces {
    let (to_connection, pieces) = mpsc::channel(1);
    let reader = caller.clone();
    caller.scope.spawn(async move {
        let mut piece = first;
        loop {
            let last = piece.last;
            if to_connection.send(piece).await.is_err() || last {
                return;
            }
            let read = blocking(&reader, move |_| Ok((next_piece(&mut file)?, file))).await;
            match read {
                Ok((next, rest)) => (piece, file) = (next, rest),
                // Without a last piece the connection knows.
                Err(error) => return tracing::warn!(%error, "cannot read on"),
            }
        }
    });
    pieces
}

fn next_piece(file: &mut FileReader) -> Result<Piece, Error> {
    let mut content = vec![0; file.left().min(FILE_PIECE_BYTES)];
    let got = file.read(&mut content)?;
    let last = got < FILE_PIECE_BYTES || file.left() == 0;
    content.truncate(got);
    Ok(Piece { content, last })
}

pub(crate) async fn write_file(
    caller: FileCaller,
    params: WriteFileParams,
) -> Result<Empty, Error> {
    let path = native(&params.path)?;
    let links = Links::from_wire(params.follow_symlinks);
    let replacement = if params.atomic { Replacement::Atomic } else { Replacement::InPlace };
    blocking(&caller, move |_| {
        let data = exec_fs::decode_data(&params.data_base64)?;
        exec_fs::write_file(&path, &data, links, replacement)?;
        Ok(Empty {})
    })
    .await
}

pub(crate) async fn open(caller: FileCaller, params: OpenParams) -> Result<HandleRef, Error> {
    let path = native(&params.path)?;
    let scope = caller.scope.clone();
    blocking(&caller, move |_| {
        scope.files.open(&params.handle_id, &path, params.mode)?;
        Ok(HandleRef { handle_id: params.handle_id })
    })
    .await
}

pub(crate) async fn read_block(
    caller: Caller,
    params: ReadBlockParams,
) -> Result<RawResult, Error> {
    let ReadBlockParams { handle_id, offset, len } = params;
    let answer = |block: exec_fs::handles::Block, mut content: Vec<u8>| {
        content.truncate(block.bytes);
        let rest = if block.eof { ",\"eof\":true" } else { ",\"eof\":false" };
        RawResult::Content { member: "chunk", content, rest }
    };
    let mut buffer = Vec::new();
    if let Some(read) = caller.scope.files.read_block_cached(&handle_id, offset, len, &mut buffer) {
        return Ok(answer(read?, buffer));
    }
    let scope = caller.scope.clone();
    blocking(&caller, move |_| {
        let block = scope.files.read_block(&handle_id, offset, len, &mut buffer)?;
        Ok(answer(block, buffer))
    })
    .await
}

pub(crate) async fn write_block(caller: Caller, params: WriteBlockParams) -> Result<Empty, Error> {
    let scope = caller.scope.clone();
    blocking(&caller, move |_| {
        scope.files.write_block(&params.handle_id, params.offset, &params.chunk.0)?;
        Ok(Empty {})
    })
    .await
}

pub(crate) async fn close(caller: Caller, params: HandleRef) -> Result<Empty, Error> {
    caller.scope.files.close(&params.handle_id)?;
    Ok(Empty {})
}

pub(crate) async fn create_directory(
    caller: FileCaller,
    params: CreateDirectoryParams,
) -> Result<Empty, Error> {
    let path = native(&params.path)?;
    let parents = if params.recursive.unwrap_or(true) { Parents::Create } else { Parents::Require };
    let links = Links::from_wire(params.follow_symlinks);
    blocking(&caller, move |_| {
        exec_fs::create_directory(&path, parents, links)?;
        Ok(Empty {})
    })
    .await
}

pub(crate) async fn get_metadata(
    caller: FileCaller,
    params: GetMetadataParams,
) -> Result<Metadata, Error> {
    let path = native(&params.path)?;
    let links = Links::from_wire(params.follow_symlinks);
    if let Some(metadata) = exec_fs::metadata_cached(&path, links) {
        return Ok(metadata?);
    }
    blocking(&caller, move |_| Ok(exec_fs::get_metadata(&path, links)?)).await
}

pub(crate) async fn canonicalize(
    caller: FileCaller,
    params: CanonicalizeParams,
) -> Result<CanonicalizeResult, Error> {
    let path = native(&params.path)?;
    let path = blocking(&caller, move |_| Ok(exec_fs::canonicalize(&path)?)).await?;
    Ok(CanonicalizeResult { path: PathUri::from_native(&path)? })
}

pub(crate) async fn read_directory(
    caller: FileCaller,
    params: ReadDirectoryParams,
) -> Result<RawResult, Error> {
    let path = native(&params.path)?;
    blocking(&caller, move |stop| {
        let cancel = &Cancel::from(stop);
        let mut out = Vec::new();
        exec_fs::read_directory_json(&path, cancel, &mut out)?;
        Ok(RawResult::Json(out))
    })
    .await
}

pub(crate) async fn walk(caller: FileCaller, params: WalkParams) -> Result<RawResult, Error> {
    let path = native(&params.path)?;
    blocking(&caller, move |stop| {
        let cancel = &Cancel::from(stop);
        let mut out = Vec::new();
        exec_fs::walk_json(&path, &params.options, cancel, &mut out)?;
        Ok(RawResult::Json(out))
    })
    .await
}

pub(crate) async fn remove(caller: FileCaller, params: RemoveParams) -> Result<Empty, Error> {
    let path = native(&params.path)?;
    let missing = if params.force.unwrap_or(true) { Missing::Accept } else { Missing::Refuse };
    let recursion = recursion(params.recursive.unwrap_or(true));
    let links = Links::from_wire(params.follow_symlinks);
    blocking(&caller, move |stop| {
        let cancel = &Cancel::from(stop);
        exec_fs::remove(&path, recursion, missing, links, cancel)?;
        Ok(Empty {})
    })
    .await
}

fn recursion(recursive: bool) -> Recursion {
    if recursive { Recursion::Tree } else { Recursion::Single }
}

pub(crate) async fn copy(caller: FileCaller, params: CopyParams) -> Result<Empty, Error> {
    let source = native(&params.source_path)?;
    let destination = native(&params.destination_path)?;
    blocking(&caller, move |stop| {
        let cancel = &Cancel::from(stop);
        exec_fs::copy(&source, &destination, recursion(params.recursive), cancel)?;
        Ok(Empty {})
    })
    .await
}

pub(crate) async fn rename(caller: FileCaller, params: RenameParams) -> Result<Empty, Error> {
    let source = native(&params.source_path)?;
    let destination = native(&params.destination_path)?;
    let existing = if params.overwrite { Existing::Replace } else { Existing::Keep };
    blocking(&caller, move |_| {
        exec_fs::rename(&source, &destination, existing)?;
        Ok(Empty {})
    })
    .await
}

pub(crate) async fn search(
    caller: FileCaller,
    params: SearchParams,
) -> Result<SearchResult, Error> {
    let path = native(&params.path)?;
    blocking(&caller, move |stop| Ok(exec_fs::search(&path, &params, &Cancel::from(stop))?)).await
}

pub(crate) async fn watch(caller: FileCaller, params: WatchParams) -> Result<Empty, Error> {
    let path = native(&params.path)?;
    let depth = if params.recursive { Depth::Tree } else { Depth::Entries };
    let scope = caller.scope.clone();
    blocking(&caller, move |_| {
        scope.watches().watch(&params.watch_id, &path, depth)?;
        Ok(Empty {})
    })
    .await
}

pub(crate) async fn unwatch(caller: Caller, params: UnwatchParams) -> Result<Empty, Error> {
    let scope = caller.scope.clone();
    blocking(&caller, move |_| {
        scope.watches().unwatch(&params.watch_id)?;
        Ok(Empty {})
    })
    .await
}

pub(crate) async fn watch_missing(
    caller: Caller,
    params: WatchMissingParams,
) -> Result<WatchMissingResult, Error> {
    let scope = caller.scope.clone();
    blocking(&caller, move |_| Ok(WatchMissingResult { watching: scope.missing().watch(&params) }))
        .await
}

/// The path on this machine.
fn native(path: &PathUri) -> Result<PathBuf, Error> {
    Ok(path.to_native()?)
}
