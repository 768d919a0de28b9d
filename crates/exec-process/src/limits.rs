//! What one command may use at most, and who enforces which part of it. Without a limit it may use
//! what the server may.
//!
//! | | a cgroup with the controller | elsewhere |
//! |---|---|---|
//! | memory | `memory.max`, of all together | RLIMIT_DATA, of each |
//! | processes | `pids.max` | RLIMIT_NPROC in a user namespace of its own, unless root; else nobody |
//! | processor time, file size, descriptors | resource limits, of each | the same |
//! | deadline | the server's clock | the same |

use std::time::Duration;

/// Limits of one command. `None` sets none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limits {
    /// Memory: of all its processes together where it has a cgroup with that controller, else of
    /// each of them, as far as it is private and writable.
    pub memory_bytes: Option<u64>,
    /// Processes and threads.
    pub processes: Option<u64>,
    /// Time on a processor of each process, in whole seconds and one at least.
    pub cpu: Option<Duration>,
    /// The size of a file that it writes.
    pub file_bytes: Option<u64>,
    /// Open descriptors of each process.
    pub open_files: Option<u64>,
    /// How long it and its descendants may live.
    pub deadline: Option<Duration>,
}

/// Whose processes the kernel counts for a limit on them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counted {
    /// Those of the command's own user namespace.
    OwnNamespace,
    /// All of the user; or, for root, none.
    User,
}

impl Counted {
    /// For a command that gets a user namespace of its own: even there the kernel lets root pass.
    pub fn in_own_namespace() -> Self {
        // SAFETY: asks for a number, cannot fail.
        if unsafe { libc::geteuid() } == 0 { Counted::User } else { Counted::OwnNamespace }
    }
}

/// What a cgroup of its own can limit for all processes of a command together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Controllers {
    /// Their memory.
    pub memory: bool,
    /// Their number.
    pub processes: bool,
}

/// The part that the command's cgroup takes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GroupLimits {
    /// For `memory.max`.
    pub memory_bytes: Option<u64>,
    /// For `pids.max`.
    pub processes: Option<u64>,
}

impl GroupLimits {
    /// Whether there is nothing to limit.
    pub fn is_empty(&self) -> bool {
        self.memory_bytes.is_none() && self.processes.is_none()
    }
}

/// A resource limit: which, soft, hard.
pub type ResourceLimit = (u32, u64, u64);

/// A limit that nobody here could enforce.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the number of processes cannot be limited: this executor has no cgroup with the controller \
     `pids`{}",
    match .0 {
        Counted::User => ", and without it only a sandboxed command of an ordinary user can be counted",
        Counted::OwnNamespace => "",
    }
)]
pub struct Unenforceable(Counted);

impl Limits {
    /// The stricter of both, one by one.
    pub fn and(self, other: Limits) -> Limits {
        fn least<T: Ord>(one: Option<T>, other: Option<T>) -> Option<T> {
            match (one, other) {
                (Some(one), Some(other)) => Some(one.min(other)),
                (one, other) => one.or(other),
            }
        }
        Limits {
            memory_bytes: least(self.memory_bytes, other.memory_bytes),
            processes: least(self.processes, other.processes),
            cpu: least(self.cpu, other.cpu),
            file_bytes: least(self.file_bytes, other.file_bytes),
            open_files: least(self.open_files, other.open_files),
            deadline: least(self.deadline, other.deadline),
        }
    }

    /// What the command's cgroup takes.
    pub fn of_group(&self, controllers: Controllers) -> GroupLimits {
        GroupLimits {
            memory_bytes: self.memory_bytes.filter(|_| controllers.memory),
            processes: self.processes.filter(|_| controllers.processes),
        }
    }

    /// What is set for each process; or what can be limited by nobody.
    pub fn of_each(
        &self,
        controllers: Controllers,
        counted: Counted,
    ) -> Result<Vec<ResourceLimit>, Unenforceable> {
        let both = |resource, limit: Option<u64>| limit.map(|limit| (resource, limit, limit));
        let memory = self.memory_bytes.filter(|_| !controllers.memory);
        let processes = self.processes.filter(|_| !controllers.processes);
        if processes.is_some() && counted == Counted::User {
            return Err(Unenforceable(counted));
        }
        // SIGXCPU at the soft limit can be caught; the hard one kills.
        let cpu = self.cpu.map(|cpu| cpu.as_secs().max(1));
        let cpu = cpu.map(|seconds| (libc::RLIMIT_CPU, seconds, seconds.saturating_add(1)));
        let limits = [
            both(libc::RLIMIT_DATA, memory),
            both(libc::RLIMIT_NPROC, processes),
            cpu,
            both(libc::RLIMIT_FSIZE, self.file_bytes),
            both(libc::RLIMIT_NOFILE, self.open_files),
        ];
        Ok(limits.into_iter().flatten().map(within_own).collect())
    }
}

/// A limit above the server's own is the server's own: only root could raise it, and nobody asked
/// for more than there is.
fn within_own((resource, soft, hard): ResourceLimit) -> ResourceLimit {
    let mut own = libc::rlimit64 { rlim_cur: 0, rlim_max: libc::RLIM64_INFINITY };
    // SAFETY: the call writes one limit; should it fail, the value stays as it is.
    unsafe { libc::getrlimit64(resource, &raw mut own) };
    (resource, soft.min(own.rlim_max), hard.min(own.rlim_max))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Controllers = Controllers { memory: false, processes: false };
    const ALL: Controllers = Controllers { memory: true, processes: true };

    #[test]
    fn each_limit_has_exactly_one_who_enforces_it() {
        assert_eq!(Limits::default().of_each(NONE, Counted::User), Ok(vec![]));
        assert!(Limits::default().of_group(ALL).is_empty());
        let limits = Limits {
            memory_bytes: Some(1 << 20),
            processes: Some(5),
            cpu: Some(Duration::from_millis(10)),
            ..Limits::default()
        };
        let cpu = (libc::RLIMIT_CPU, 1, 2);
        let memory = (libc::RLIMIT_DATA, 1 << 20, 1 << 20);
        let processes = (libc::RLIMIT_NPROC, 5, 5);
        assert_eq!(limits.of_each(NONE, Counted::OwnNamespace), Ok(vec![memory, processes, cpu]));
        assert!(limits.of_group(NONE).is_empty());
        for counted in [Counted::OwnNamespace, Counted::User] {
            assert_eq!(limits.of_each(ALL, counted), Ok(vec![cpu]));
        }
        let group = GroupLimits { memory_bytes: Some(1 << 20), processes: Some(5) };
        assert_eq!(limits.of_group(ALL), group);
        let only_memory = Controllers { memory: true, processes: false };
        assert_eq!(limits.of_each(only_memory, Counted::OwnNamespace), Ok(vec![processes, cpu]));
    }

    #[test]
    fn processes_that_nobody_counts_are_refused_with_the_reason() {
        let limits = Limits { processes: Some(5), ..Limits::default() };
        let refused = limits.of_each(NONE, Counted::User).unwrap_err().to_string();
        assert!(refused.contains("controller `pids`"), "{refused}");
        assert!(limits.of_each(ALL, Counted::User).is_ok());
    }

    #[test]
    fn the_stricter_limit_holds_and_none_is_raised() {
        let one = Limits { processes: Some(5), open_files: Some(9), ..Limits::default() };
        let other = Limits { processes: Some(7), file_bytes: Some(1), ..Limits::default() };
        let both = Limits {
            processes: Some(5),
            open_files: Some(9),
            file_bytes: Some(1),
            ..Limits::default()
        };
        assert_eq!(one.and(other), both);
        assert_eq!(other.and(one), both);
        let (_, own) = crate::sys::descriptor_limit();
        let much = Limits { open_files: Some(u64::MAX), ..Limits::default() };
        let set = much.of_each(NONE, Counted::User).unwrap();
        assert!(set[0].2 >= own && set[0].1 <= set[0].2 && set[0].2 < u64::MAX, "{set:?}");
    }
}
