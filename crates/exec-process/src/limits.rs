//! What one command may use at most. Without a limit it may use what the server may.

use std::time::Duration;

/// Limits of one command. `None` sets none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limits {
    /// Memory: of all its processes together where it has a cgroup with that controller, else of
    /// each of them, as far as it is private and writable.
    pub memory_bytes: Option<u64>,
    /// Processes and threads: where it has a cgroup with that controller, or a user namespace of its
    /// own. Elsewhere the kernel could only count all processes of the user.
    pub processes: Option<u64>,
    /// Time on a processor of each process, in whole seconds and one at least.
    pub cpu: Option<Duration>,
    /// The size of a file that it writes.
    pub file_bytes: Option<u64>,
    /// Open descriptors of each process.
    pub open_files: Option<u64>,
}

/// Whose processes the kernel counts for a limit on them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counted {
    /// Those of the command's own user namespace.
    OwnNamespace,
    /// All of the user.
    User,
}

impl Limits {
    /// Those that are set as resource limits: resource, soft, hard.
    pub fn as_resource_limits(&self, counted: Counted) -> Vec<(u32, u64, u64)> {
        let both = |resource, limit: Option<u64>| limit.map(|limit| (resource, limit, limit));
        let processes = self.processes.filter(|_| counted == Counted::OwnNamespace);
        // SIGXCPU at the soft limit can be caught; the hard one kills.
        let cpu = self.cpu.map(|cpu| cpu.as_secs().max(1));
        let cpu = cpu.map(|seconds| (libc::RLIMIT_CPU, seconds, seconds.saturating_add(1)));
        [
            both(libc::RLIMIT_DATA, self.memory_bytes),
            both(libc::RLIMIT_NPROC, processes),
            cpu,
            both(libc::RLIMIT_FSIZE, self.file_bytes),
            both(libc::RLIMIT_NOFILE, self.open_files),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_limit_sets_nothing_and_processes_are_counted_only_where_they_can_be() {
        assert_eq!(Limits::default().as_resource_limits(Counted::OwnNamespace), []);
        let limits = Limits {
            processes: Some(5),
            cpu: Some(Duration::from_millis(10)),
            ..Limits::default()
        };
        let cpu = (libc::RLIMIT_CPU, 1, 2);
        assert_eq!(limits.as_resource_limits(Counted::User), [cpu]);
        let processes = (libc::RLIMIT_NPROC, 5, 5);
        assert_eq!(limits.as_resource_limits(Counted::OwnNamespace), [processes, cpu]);
    }
}
