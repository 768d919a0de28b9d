//! Which events concern which watch. Plain state: descriptors are numbers here.

use std::collections::{BTreeSet, HashMap};
use std::ffi::{OsStr, OsString};

use rustix::fs::inotify::ReadFlags;

/// One thing that ends a watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interest {
    /// Whose.
    pub key: u64,
    /// The name in the watched directory; none for the watched file itself.
    pub name: Option<OsString>,
    /// Of these events.
    pub events: ReadFlags,
}

/// All of them, by watch descriptor and by key.
#[derive(Debug, Default)]
pub struct Interests {
    by_descriptor: HashMap<i32, Vec<Interest>>,
    by_key: HashMap<u64, BTreeSet<i32>>,
}

impl Interests {
    /// Adds one.
    pub fn add(&mut self, descriptor: i32, interest: Interest) {
        self.by_key.entry(interest.key).or_default().insert(descriptor);
        let interests = self.by_descriptor.entry(descriptor).or_default();
        if !interests.contains(&interest) {
            interests.push(interest);
        }
    }

    /// Removes all of a key. Gives the descriptors that nobody is interested in any more.
    pub fn remove(&mut self, key: u64) -> Vec<i32> {
        let mut idle = Vec::new();
        for descriptor in self.by_key.remove(&key).unwrap_or_default() {
            if let Some(interests) = self.by_descriptor.get_mut(&descriptor) {
                interests.retain(|interest| interest.key != key);
                if interests.is_empty() {
                    self.by_descriptor.remove(&descriptor);
                    idle.push(descriptor);
                }
            }
        }
        idle
    }

    /// Whose watch ends with this event.
    pub fn handle(&self, descriptor: i32, events: ReadFlags, name: Option<&OsStr>) -> Vec<u64> {
        // Events were lost: any of them may have been meant.
        if events.contains(ReadFlags::QUEUE_OVERFLOW) {
            return self.by_key.keys().copied().collect();
        }
        let ends = |interest: &&Interest| {
            // The file itself is gone, or its file system.
            let end = ReadFlags::DELETE_SELF
                | ReadFlags::MOVE_SELF
                | ReadFlags::UNMOUNT
                | ReadFlags::IGNORED;
            events.intersects(end)
                || (events.intersects(interest.events) && interest.name.as_deref() == name)
        };
        let interests = self.by_descriptor.get(&descriptor).map_or(&[][..], Vec::as_slice);
        let keys: BTreeSet<u64> =
            interests.iter().filter(ends).map(|interest| interest.key).collect();
        keys.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_ends_the_watches_that_it_concerns_and_no_others() {
        let mut interests = Interests::default();
        let entry =
            |key, name: &str| Interest { key, name: Some(name.into()), events: ReadFlags::CREATE };
        interests.add(1, entry(10, "a"));
        interests.add(1, entry(11, "b"));
        interests.add(2, Interest { key: 11, name: None, events: ReadFlags::MODIFY });
        let handle =
            |wd, events, name: Option<&str>| interests.handle(wd, events, name.map(OsStr::new));
        const NOBODY: [u64; 0] = [];
        assert_eq!(handle(1, ReadFlags::CREATE, Some("a")), [10]);
        assert_eq!(handle(1, ReadFlags::CREATE, Some("c")), NOBODY);
        assert_eq!(handle(1, ReadFlags::MODIFY, Some("a")), NOBODY);
        assert_eq!(handle(2, ReadFlags::MODIFY, None), [11]);
        assert_eq!(handle(1, ReadFlags::DELETE_SELF, None), [10, 11]);
        assert_eq!(handle(9, ReadFlags::CREATE, Some("a")), NOBODY);
        let mut all = handle(-1, ReadFlags::QUEUE_OVERFLOW, None);
        all.sort_unstable();
        assert_eq!(all, [10, 11]);
        assert_eq!(interests.remove(11), [2]);
        assert_eq!(interests.remove(10), [1]);
        assert!(interests.remove(10).is_empty());
    }
}
