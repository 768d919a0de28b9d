//! How many handshakes may fail before none is answered for a while: each costs ML-KEM operations and
//! a call of the registry.

use std::time::Instant;

use crate::limits::Limits;

/// Neither time nor success lowers the count; only the pause does.
#[derive(Debug, Default)]
pub(super) struct Budget {
    failures: u32,
    paused_until: Option<Instant>,
}

impl Budget {
    pub(super) fn charge(&mut self, limits: &Limits, now: Instant) {
        self.failures += 1;
        if self.failures >= limits.failures_max && self.paused_until.is_none() {
            self.paused_until = Some(now + limits.failure_pause);
        }
    }

    pub(super) fn is_spent(&mut self, now: Instant) -> bool {
        match self.paused_until {
            Some(until) if now < until => true,
            Some(_) => {
                *self = Self::default();
                false
            }
            None => false,
        }
    }
}
