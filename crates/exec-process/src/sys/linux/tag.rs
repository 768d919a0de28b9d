//! Tags: how descendants are known where there is no cgroup for them.
//!
//! A child sets its limit on uninterrupted real-time CPU (RLIMIT_RTTIME) to a number of microseconds
//! so large, tens of thousands of years, that it limits nothing, and that nobody else uses. Fork,
//! exec, setsid and a change of user all keep it; anyone may read it.
//!
//! What a tag does not hold: a process that lowers this limit itself, and the children of another
//! tagging server that runs inside a tagged process, as they wear its tags instead. Cgroups nest.

use std::io;

use super::raw::{self, Errno};

/// The numbers of one server's tags: the lowest bits name the process, the rest the server.
const PROCESS_BITS: u32 = 30;
/// Where tags begin when nothing limits them.
const FLOOR: u64 = 1 << 61;
/// Below this a limit might be meant as one.
const LOWEST: u64 = 1 << 59;

/// The tags of one server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TagSpace {
    first: u64,
}

/// Tags to look for: one, or all of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tags {
    first: u64,
    last: u64,
}

impl TagSpace {
    /// A space for this server, chosen at random. `None` if the server runs under a hard limit so
    /// low that its children cannot wear tags.
    pub(super) fn choose(random: u64) -> Option<Self> {
        let mut limit = libc::rlimit64 { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: the call writes one limit.
        let asked = unsafe { libc::getrlimit64(libc::RLIMIT_RTTIME, &raw mut limit) };
        if asked == 0 { Self::below(limit.rlim_max, random) } else { None }
    }

    /// A hard limit cannot be raised without privilege, so inside one the tags lie just below it.
    /// That is how a server inside another one's tagged process finds its own.
    fn below(hard_limit: u64, random: u64) -> Option<Self> {
        let first = if hard_limit == libc::RLIM64_INFINITY {
            FLOOR + ((random & mask(30)) << PROCESS_BITS)
        } else {
            let spaces_below = hard_limit.min(FLOOR << 1) >> PROCESS_BITS;
            spaces_below.checked_sub(1 + (random & mask(28)))? << PROCESS_BITS
        };
        (first >= LOWEST).then_some(TagSpace { first })
    }

    /// The tag of the process with this number. Numbers come round again after a thousand million.
    pub(super) fn tag(self, number: u32) -> u64 {
        self.first + (u64::from(number) & mask(PROCESS_BITS))
    }

    /// Every tag of this server.
    pub(super) fn all(self) -> Tags {
        Tags { first: self.first, last: self.first + mask(PROCESS_BITS) }
    }
}

impl Tags {
    /// Just this one.
    pub(super) fn one(tag: u64) -> Self {
        Tags { first: tag, last: tag }
    }

    pub(super) fn contain(self, tag: u64) -> bool {
        (self.first..=self.last).contains(&tag)
    }
}

/// Puts a tag on the calling process. Runs in the child: allocates and locks nothing.
pub(super) fn wear(tag: u64) -> Result<(), Errno> {
    let limit = libc::rlimit64 { rlim_cur: tag, rlim_max: tag };
    let args = [0, libc::RLIMIT_RTTIME as usize, (&raw const limit).addr(), 0, 0, 0];
    // SAFETY: the call reads one limit.
    unsafe { raw::syscall(libc::SYS_prlimit64, args) }.map(drop)
}

/// Why a child cannot be tagged, for the answer to its client.
pub(super) fn forbidden() -> io::Error {
    let reason = "cannot contain the process: no cgroup, and the hard limit RLIMIT_RTTIME is low";
    io::Error::new(io::ErrorKind::PermissionDenied, reason)
}

const fn mask(bits: u32) -> u64 {
    (1 << bits) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_stay_below_the_hard_limit_and_above_any_real_one() {
        for random in [0, 1, 0x1234_5678_9abc_def0, u64::MAX] {
            for hard in [libc::RLIM64_INFINITY, u64::MAX >> 1, FLOOR + 12345, FLOOR, LOWEST * 2] {
                let all = TagSpace::below(hard, random).unwrap().all();
                assert!(all.last <= hard && all.first >= LOWEST, "{random} {hard} {all:?}");
            }
            for hard in [0, 200_000, LOWEST] {
                assert_eq!(TagSpace::below(hard, random), None);
            }
        }
    }

    #[test]
    fn a_space_holds_its_tags_and_no_other() {
        let space = TagSpace::below(libc::RLIM64_INFINITY, 7).unwrap();
        let other = TagSpace::below(libc::RLIM64_INFINITY, 8).unwrap();
        for number in [0, 1, 1 << 29, (1 << 30) - 1, u32::MAX] {
            assert!(space.all().contain(space.tag(number)));
            assert!(!other.all().contain(space.tag(number)));
            assert!(Tags::one(space.tag(number)).contain(space.tag(number)));
        }
        assert!(!Tags::one(space.tag(1)).contain(space.tag(2)));
        assert!(!space.all().contain(libc::RLIM64_INFINITY));
    }
}
