//! The read buffer that all connections of a thread share, so that an idle one needs none.

use std::cell::Cell;
use std::ops::{Deref, DerefMut};

use crate::limits::SCRATCH_BYTES;

thread_local! {
    static SPARE: Cell<Option<Box<[u8]>>> = const { Cell::new(None) };
}

/// A buffer of [`SCRATCH_BYTES`], taken from the thread and given back on drop. Should a pipe itself
/// read from another connection, the inner one gets a buffer of its own.
pub(crate) struct Scratch(Box<[u8]>);

impl Scratch {
    pub(crate) fn take() -> Self {
        Self(SPARE.take().unwrap_or_else(|| vec![0; SCRATCH_BYTES].into_boxed_slice()))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Not `with`: a connection may be dropped while the thread's locals are being destroyed.
        SPARE.try_with(|spare| spare.set(Some(std::mem::take(&mut self.0)))).ok();
    }
}

impl Deref for Scratch {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl DerefMut for Scratch {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}
