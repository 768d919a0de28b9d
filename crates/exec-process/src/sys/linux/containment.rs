//! Groups of processes that can be killed whole, and the server-wide promise that all of them are.
//!
//! ```text
//! Containment ── cgroup (or tags) ── ContainedGroup, one for each child
//!      └── guardian: does the same when the server is killed
//! ```
//!
//! | | cgroup | tag |
//! |---|---|---|
//! | needs | writable cgroup v2, Linux 5.14 | a hard RLIMIT_RTTIME that is high, `/proc` |
//! | kill | one write, complete when it returns | passes over `/proc` until one finds nobody |
//! | escape | being moved to another cgroup | lowering the limit oneself |

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::limits::{Controllers, GroupLimits};

use super::cgroup::CgroupTree;
use super::cgroup_mount;
use super::guardian::Guardian;
use super::raw::raw_result;
use super::sweep;
use super::tag::{self, TagSpace, Tags};

/// Empty cgroup directories kept to be used again. Each costs the kernel a few kilobytes.
const IDLE_MAX: usize = 64;

/// How the members of a group are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mechanism {
    /// By their cgroup.
    Cgroup,
    /// By a resource limit that they inherit.
    Tag,
}

impl Mechanism {
    /// Its name, in lower case.
    pub fn as_str(self) -> &'static str {
        match self {
            Mechanism::Cgroup => "cgroup",
            Mechanism::Tag => "tag",
        }
    }

    /// Whether [`ContainedGroup::kill`] is done within microseconds, and so fit for any thread.
    pub fn is_instant(self) -> bool {
        match self {
            Mechanism::Cgroup => true,
            Mechanism::Tag => false,
        }
    }
}

/// The server's hold on everything it started. Dropped, it kills all of it; should the server be
/// killed before that, its guardian does so.
pub struct Containment {
    shared: Arc<Shared>,
    /// `None` if it could not be forked. Dropped after the end of `drop`.
    _guardian: Option<Guardian>,
}

struct Shared {
    cgroups: Option<CgroupTree>,
    tags: Option<TagSpace>,
    next_tag: AtomicU32,
    has_tagged: AtomicBool,
}

impl Containment {
    /// Uses cgroups if they really work here, else tags. Forks the guardian, so it is to be called
    /// when the server starts, while it is small. Takes about a millisecond.
    pub fn detect() -> Containment {
        Self::detect_with_idle(IDLE_MAX)
    }

    /// As [`detect`](Self::detect), with another bound on the directories kept for reuse.
    pub fn detect_with_idle(idle_max: usize) -> Containment {
        let mut cgroups = None;
        for own in cgroup_mount::own_directories() {
            match CgroupTree::create(&own, random(), idle_max) {
                Ok(tree) => {
                    cgroups = Some(tree);
                    break;
                }
                Err(error) => tracing::debug!(%error, ?own, "cannot contain processes in cgroups"),
            }
        }
        Self::new(cgroups)
    }

    /// Uses tags, whatever this host has.
    pub fn tag_only() -> Containment {
        Self::new(None)
    }

    fn new(cgroups: Option<CgroupTree>) -> Containment {
        let tags = TagSpace::choose(random());
        let guardian = Guardian::start(cgroups.as_ref().map(CgroupTree::path), tags)
            .inspect_err(|error| tracing::warn!(%error, "no guardian: a killed server leaks"))
            .ok();
        let (next_tag, has_tagged) = (AtomicU32::new(0), AtomicBool::new(false));
        let shared = Arc::new(Shared { cgroups, tags, next_tag, has_tagged });
        Containment { shared, _guardian: guardian }
    }

    /// What groups can limit for all their members together.
    pub fn controllers(&self) -> Controllers {
        self.shared.cgroups.as_ref().map(CgroupTree::controllers).unwrap_or_default()
    }

    /// What new groups are made with. A group says itself if it had to do with less.
    pub fn mechanism(&self) -> Mechanism {
        match self.shared.cgroups {
            Some(_) => Mechanism::Cgroup,
            None => Mechanism::Tag,
        }
    }

    /// Kills everything this server started, and waits until it has died, at most two seconds for
    /// each mechanism in use. Children started meanwhile may be missed.
    pub fn kill_all(&self) {
        if let Some(tree) = &self.shared.cgroups {
            tree.kill_all()
                .inspect_err(|error| tracing::warn!(%error, "cannot end every cgroup"))
                .ok();
        }
        if let Some(tags) = self.shared.tags
            && self.shared.has_tagged.load(Ordering::Relaxed)
        {
            raw_result(sweep::kill(tags.all()))
                .inspect_err(|error| tracing::warn!(%error, "cannot end every tagged process"))
                .ok();
        }
    }

    /// A place in a cgroup, and the directory to start the child in. `None` if there is none to have.
    pub(super) fn admit_to_cgroup(&self) -> Option<(ContainedGroup, OwnedFd)> {
        let (number, directory) = self
            .shared
            .cgroups
            .as_ref()?
            .take()
            .inspect_err(|error| tracing::warn!(%error, "cannot make a cgroup"))
            .ok()?;
        Some((self.group(Place::Cgroup(number)), directory))
    }

    /// A tag for the child to wear.
    pub(super) fn admit_by_tag(&self) -> io::Result<(ContainedGroup, u64)> {
        let space = self.shared.tags.ok_or_else(tag::forbidden)?;
        let tag = space.tag(self.shared.next_tag.fetch_add(1, Ordering::Relaxed));
        self.shared.has_tagged.store(true, Ordering::Relaxed);
        Ok((self.group(Place::Tag(tag)), tag))
    }

    fn group(&self, place: Place) -> ContainedGroup {
        let shared = Arc::clone(&self.shared);
        ContainedGroup { shared, place, is_spent: AtomicBool::new(false) }
    }
}

impl Drop for Containment {
    fn drop(&mut self) {
        self.kill_all();
        if let Some(tree) = &self.shared.cgroups {
            tree.remove()
                .inspect_err(|error| tracing::warn!(%error, "cannot remove the server's cgroup"))
                .ok();
        }
    }
}

impl fmt::Debug for Containment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Containment").field("mechanism", &self.mechanism()).finish()
    }
}

/// One child and every descendant of it. Dropping it kills nobody; what is left alive then ends with
/// the server.
pub struct ContainedGroup {
    shared: Arc<Shared>,
    place: Place,
    /// Its cgroup must not be used again: kernels since 6.13 compare the number of kills it has seen
    /// with that of the parent's cgroup, and kill a child that is born into it.
    is_spent: AtomicBool,
}

#[derive(Debug, Clone, Copy)]
enum Place {
    Cgroup(u32),
    Tag(u64),
}

impl ContainedGroup {
    /// How its members are known.
    pub fn mechanism(&self) -> Mechanism {
        match self.place {
            Place::Cgroup(_) => Mechanism::Cgroup,
            Place::Tag(_) => Mechanism::Tag,
        }
    }

    /// Sends SIGKILL to every member, forks in flight included. With a cgroup this takes some
    /// microseconds and does not wait for the deaths. With a tag it returns when nobody is left, a
    /// millisecond in general and two seconds at most: not a thing for a thread that others wait on.
    pub fn kill(&self) -> io::Result<()> {
        match (self.place, &self.shared.cgroups) {
            (Place::Cgroup(number), Some(tree)) => {
                self.is_spent.store(true, Ordering::Relaxed);
                tree.kill(number)
            }
            (Place::Cgroup(_), None) => Ok(()),
            (Place::Tag(tag), _) => raw_result(sweep::kill(Tags::one(tag))),
        }
    }

    /// Whether nobody is left alive in it. A zombie is not alive.
    pub fn is_empty(&self) -> bool {
        match (self.place, &self.shared.cgroups) {
            (Place::Cgroup(number), Some(tree)) => tree.is_empty(number),
            (Place::Cgroup(_), None) => true,
            (Place::Tag(tag), _) => sweep::is_empty(Tags::one(tag)),
        }
    }

    /// Limits its members together. It is not used again.
    pub(super) fn limit(&self, limits: &GroupLimits) -> io::Result<()> {
        let (Place::Cgroup(number), Some(tree)) = (self.place, &self.shared.cgroups) else {
            return Ok(());
        };
        let all = [("/memory.max", limits.memory_bytes), ("/pids.max", limits.processes)];
        for (file, limit) in all {
            if let Some(limit) = limit {
                self.is_spent.store(true, Ordering::Relaxed);
                tree.set(number, file, limit)?;
            }
        }
        if limits.memory_bytes.is_some() {
            // The file is missing where swap is not counted, or there is none.
            tree.set(number, "/memory.swap.max", 0).ok();
        }
        Ok(())
    }

    /// Gives up a place in which no process could be started.
    pub(super) fn discard(self) {
        self.is_spent.store(true, Ordering::Relaxed);
    }
}

impl Drop for ContainedGroup {
    fn drop(&mut self) {
        if let (Place::Cgroup(number), Some(tree)) = (self.place, &self.shared.cgroups) {
            tree.give_back(number, self.is_spent.load(Ordering::Relaxed));
        }
    }
}

impl fmt::Debug for ContainedGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ContainedGroup").field(&self.place).finish()
    }
}

/// A number that no other server has. Not a secret: the clock will do where the kernel has no better.
fn random() -> u64 {
    getrandom::u64().unwrap_or_else(|_| {
        let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        u64::from(std::process::id()) << 32 ^ u64::from(now.subsec_nanos()) ^ now.as_secs()
    })
}
