//! Where a walk's findings go: into a value, or as JSON into the answer, which spares an allocation
//! and a copy for each of up to 50 000 entries.

use super::{Error, PathUri, WalkEntry, WalkError, WalkKind, WalkResult};

pub(super) trait Output {
    fn entry(&mut self, uri: &str, kind: WalkKind) -> Result<(), Error>;
    fn error(&mut self, uri: &str, message: &str);
}

impl Output for WalkResult {
    fn entry(&mut self, uri: &str, kind: WalkKind) -> Result<(), Error> {
        self.entries.push(WalkEntry { path: PathUri::try_from(uri.to_owned())?, kind });
        Ok(())
    }

    fn error(&mut self, uri: &str, message: &str) {
        if let Ok(path) = PathUri::try_from(uri.to_owned()) {
            self.errors.push(WalkError { path, message: message.to_owned() });
        }
    }
}

/// The result as it is sent.
pub(super) struct Json<'b> {
    out: &'b mut Vec<u8>,
    start: usize,
    first: bool,
    errors: Vec<u8>,
}

impl<'b> Json<'b> {
    pub(super) fn new(out: &'b mut Vec<u8>) -> Self {
        let start = out.len();
        out.extend_from_slice(b"{\"entries\":[");
        Self { out, start, first: true, errors: Vec::new() }
    }

    pub(super) fn finish(self, truncated: bool) {
        self.out.extend_from_slice(b"],\"errors\":[");
        self.out.extend_from_slice(&self.errors);
        self.out.extend_from_slice(b"],\"truncated\":");
        self.out.extend_from_slice(if truncated { b"true}" } else { b"false}" });
    }

    /// Takes everything back.
    pub(super) fn abandon(self) {
        self.out.truncate(self.start);
    }
}

impl Output for Json<'_> {
    fn entry(&mut self, uri: &str, kind: WalkKind) -> Result<(), Error> {
        let head: &[u8] = if self.first { b"{\"path\":\"" } else { b",{\"path\":\"" };
        self.first = false;
        let tail: &[u8] = match kind {
            WalkKind::Directory => b"\",\"kind\":\"directory\"}",
            WalkKind::File => b"\",\"kind\":\"file\"}",
        };
        self.out.reserve(head.len() + uri.len() + tail.len());
        self.out.extend_from_slice(head);
        self.out.extend_from_slice(uri.as_bytes());
        self.out.extend_from_slice(tail);
        Ok(())
    }

    fn error(&mut self, uri: &str, message: &str) {
        if !self.errors.is_empty() {
            self.errors.push(b',');
        }
        self.errors.extend_from_slice(b"{\"path\":\"");
        self.errors.extend_from_slice(uri.as_bytes());
        self.errors.extend_from_slice(b"\",\"message\":");
        serde_json::to_writer(&mut self.errors, message).expect("a string is written to memory");
        self.errors.push(b'}');
    }
}
