//! A file system as a table, for tests and fuzzing: it never changes by itself and costs nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io;
use std::ops::Bound;
use std::path::{Path, PathBuf};

use super::host::{Host, Kind, Object};

/// Names and what they stand for. Parents are made as needed.
#[derive(Debug, Clone, Default)]
pub struct Table {
    nodes: BTreeMap<PathBuf, (Node, u64)>,
    foreign: BTreeSet<PathBuf>,
}

#[derive(Debug, Clone)]
enum Node {
    Directory,
    File(Vec<u8>),
    Link(PathBuf),
    Socket,
}

impl Table {
    /// Only `/`.
    pub fn new() -> Self {
        Self::default().with(Path::new("/"), Node::Directory)
    }

    /// With a directory.
    pub fn directory(self, path: impl AsRef<Path>) -> Self {
        self.with(path.as_ref(), Node::Directory)
    }

    /// With a file.
    pub fn file(self, path: impl AsRef<Path>, content: impl Into<Vec<u8>>) -> Self {
        self.with(path.as_ref(), Node::File(content.into()))
    }

    /// With a link.
    pub fn link(self, path: impl AsRef<Path>, target: impl Into<PathBuf>) -> Self {
        self.with(path.as_ref(), Node::Link(target.into()))
    }

    /// With a socket.
    pub fn socket(self, path: impl AsRef<Path>) -> Self {
        self.with(path.as_ref(), Node::Socket)
    }

    /// Marks a directory as one in which nothing can be made.
    pub fn foreign(mut self, path: impl Into<PathBuf>) -> Self {
        self.foreign.insert(path.into());
        self
    }

    /// All names.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.nodes.keys().map(PathBuf::as_path)
    }

    fn with(mut self, path: &Path, node: Node) -> Self {
        for parent in path.ancestors().skip(1) {
            let inode = self.nodes.len() as u64 + 1;
            self.nodes.entry(parent.to_owned()).or_insert((Node::Directory, inode));
        }
        let inode = self.nodes.len() as u64 + 1;
        let known = self.nodes.get(path).map_or(inode, |(_, inode)| *inode);
        self.nodes.insert(path.to_owned(), (node, known));
        self
    }

    fn node(&self, path: &Path) -> io::Result<&Node> {
        self.nodes.get(path).map(|(node, _)| node).ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl Node {
    fn kind(&self) -> Kind {
        match self {
            Node::Directory => Kind::Directory,
            Node::File(_) => Kind::File,
            Node::Link(_) => Kind::Link,
            Node::Socket => Kind::Other,
        }
    }
}

impl Host for Table {
    fn look(&self, path: &Path) -> io::Result<Option<Object>> {
        let object =
            |(node, inode): &(Node, u64)| Object { kind: node.kind(), device: 1, inode: *inode };
        Ok(self.nodes.get(path).map(object))
    }

    fn read_link(&self, path: &Path) -> io::Result<PathBuf> {
        match self.node(path)? {
            Node::Link(target) => Ok(target.clone()),
            Node::Directory | Node::File(_) | Node::Socket => {
                Err(io::ErrorKind::InvalidInput.into())
            }
        }
    }

    fn read_file(&self, path: &Path, bytes_max: usize) -> io::Result<Vec<u8>> {
        match self.node(path)? {
            Node::File(content) => Ok(content[..content.len().min(bytes_max)].to_vec()),
            Node::Directory | Node::Link(_) | Node::Socket => {
                Err(io::ErrorKind::InvalidInput.into())
            }
        }
    }

    fn list(&self, path: &Path, entries_max: usize) -> io::Result<Vec<(OsString, Kind)>> {
        let inside: Vec<_> = self
            .nodes
            .range::<Path, _>((Bound::Included(path), Bound::Unbounded))
            .take_while(|(name, _)| name.starts_with(path))
            .filter(|(name, _)| name.parent() == Some(path))
            .filter_map(|(name, (node, _))| Some((name.file_name()?.to_owned(), node.kind())))
            .take(entries_max.saturating_add(1))
            .collect();
        if inside.len() > entries_max {
            return Err(io::ErrorKind::QuotaExceeded.into());
        }
        Ok(inside)
    }

    fn may_add(&self, directory: &Path) -> bool {
        !self.foreign.contains(directory)
    }
}
