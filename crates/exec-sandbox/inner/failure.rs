//! What went wrong, and at what.

use crate::format::Deed;
use crate::sys::Errno;

/// A failed step.
pub struct Failure {
    pub deed: Deed,
    pub errno: Errno,
}

pub type Result<T> = core::result::Result<T, Failure>;

/// Says what a system call was for.
pub trait At<T> {
    fn at(self, deed: Deed) -> Result<T>;
}

impl<T> At<T> for core::result::Result<T, Errno> {
    fn at(self, deed: Deed) -> Result<T> {
        self.map_err(|errno| Failure { deed, errno })
    }
}
