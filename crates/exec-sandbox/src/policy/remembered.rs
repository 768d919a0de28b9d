//! A host that is asked each question once. What it is for a policy then does not change while the
//! policy is resolved, and looking costs a fraction.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use super::host::{Host, Kind, Object};

/// A host and what it said. Errors are not remembered.
#[derive(Debug)]
pub struct Remembered<H> {
    host: H,
    objects: RefCell<HashMap<PathBuf, Option<Object>>>,
    addable: RefCell<HashMap<PathBuf, bool>>,
}

impl<H: Host> Remembered<H> {
    /// Nothing is remembered yet.
    pub fn new(host: H) -> Self {
        Self { host, objects: RefCell::default(), addable: RefCell::default() }
    }
}

impl<H: Host> Host for Remembered<H> {
    fn look(&self, path: &Path) -> io::Result<Option<Object>> {
        if let Some(object) = self.objects.borrow().get(path) {
            return Ok(*object);
        }
        let object = self.host.look(path)?;
        self.objects.borrow_mut().insert(path.to_owned(), object);
        Ok(object)
    }

    fn read_link(&self, path: &Path) -> io::Result<PathBuf> {
        self.host.read_link(path)
    }

    fn read_file(&self, path: &Path, bytes_max: usize) -> io::Result<Vec<u8>> {
        self.host.read_file(path, bytes_max)
    }

    fn list(&self, path: &Path, entries_max: usize) -> io::Result<Vec<(OsString, Kind)>> {
        self.host.list(path, entries_max)
    }

    fn may_add(&self, directory: &Path) -> bool {
        if let Some(addable) = self.addable.borrow().get(directory) {
            return *addable;
        }
        let addable = self.host.may_add(directory);
        self.addable.borrow_mut().insert(directory.to_owned(), addable);
        addable
    }

    fn out_of_time(&self) -> bool {
        self.host.out_of_time()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Disk;

    #[test]
    fn what_was_seen_once_stays() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().canonicalize().unwrap().join("f");
        let host = Remembered::new(Disk::patient());
        assert_eq!(host.look(&path).unwrap(), None);
        std::fs::write(&path, "").unwrap();
        assert_eq!(host.look(&path).unwrap(), None);
        let kind = Remembered::new(Disk::patient()).look(&path).unwrap().map(|object| object.kind);
        assert_eq!(kind, Some(Kind::File));
    }
}
