//! Changes that are still to be told: each path once, for a short while, up to a number of paths.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use exec_protocol::fs::{ChangeEvent, ChangeKind, ChangedParams};
use exec_protocol::path_uri::PathUri;

/// What is to be told, by watch.
#[derive(Debug)]
pub struct Gathering {
    pending: BTreeMap<String, Pending>,
    window: Duration,
    paths_max: usize,
}

#[derive(Debug)]
struct Pending {
    since: Instant,
    changes: BTreeMap<PathBuf, ChangeKind>,
    rescan: bool,
}

impl Gathering {
    /// Nothing yet. A change is told `window` after the first one of its batch, and a batch has at
    /// most `paths_max` paths.
    pub fn new(window: Duration, paths_max: usize) -> Self {
        Self { pending: BTreeMap::new(), window, paths_max }
    }

    /// A path changed.
    pub fn add(&mut self, id: &str, path: PathBuf, kind: ChangeKind, now: Instant) {
        let paths_max = self.paths_max;
        let pending = self.pending(id, now);
        if pending.rescan {
            return;
        }
        let full = pending.changes.len() >= paths_max;
        match pending.changes.get_mut(&path) {
            Some(before) => *before = merge(*before, kind),
            None if full => {
                pending.changes.clear();
                pending.rescan = true;
            }
            None => {
                pending.changes.insert(path, kind);
            }
        }
    }

    /// Changes were lost.
    pub fn rescan(&mut self, id: &str, now: Instant) {
        let pending = self.pending(id, now);
        pending.changes.clear();
        pending.rescan = true;
    }

    /// The watch has ended.
    pub fn forget(&mut self, id: &str) {
        self.pending.remove(id);
    }

    /// When something is to be told.
    pub fn deadline(&self) -> Option<Instant> {
        self.pending.values().map(|pending| pending.since + self.window).min()
    }

    /// What is to be told by now.
    pub fn take(&mut self, now: Instant) -> Vec<ChangedParams> {
        let due = |pending: &Pending| pending.since + self.window <= now;
        let ids: Vec<String> = self
            .pending
            .iter()
            .filter(|(_, pending)| due(pending))
            .map(|(id, _)| id.clone())
            .collect();
        ids.into_iter()
            .filter_map(|id| self.pending.remove(&id).map(|pending| pending.into_message(id)))
            .collect()
    }

    fn pending(&mut self, id: &str, now: Instant) -> &mut Pending {
        self.pending.entry(id.to_owned()).or_insert_with(|| Pending {
            since: now,
            changes: BTreeMap::new(),
            rescan: false,
        })
    }
}

impl Pending {
    fn into_message(self, watch_id: String) -> ChangedParams {
        let mut rescan = self.rescan;
        let mut events = Vec::with_capacity(self.changes.len());
        for (path, kind) in self.changes {
            match PathUri::from_native(&path) {
                Ok(path) => events.push(ChangeEvent { path, kind }),
                Err(_) => rescan = true,
            }
        }
        ChangedParams { watch_id, events, rescan }
    }
}

/// Two changes of one path as one.
fn merge(before: ChangeKind, after: ChangeKind) -> ChangeKind {
    use ChangeKind::{Created, Modified, Other, Removed, Renamed};
    match (before, after) {
        // Still new to the client.
        (Created, Modified | Other) => Created,
        // Another file under the same name.
        (Removed, Created) => Modified,
        (Renamed, Modified | Other) => Renamed,
        (Modified, Other) => Modified,
        (Created | Modified | Removed | Renamed | Other, after) => after,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ChangeKind::{Created, Modified, Removed, Renamed};

    const WINDOW: Duration = Duration::from_millis(50);

    fn check(kinds: &[ChangeKind], expected: ChangeKind) {
        let now = Instant::now();
        let mut gathering = Gathering::new(WINDOW, 8);
        for kind in kinds {
            gathering.add("w", "/x".into(), *kind, now);
        }
        let told = gathering.take(now + WINDOW);
        assert_eq!(told[0].events.len(), 1);
        assert_eq!(told[0].events[0].kind, expected, "for {kinds:?}");
    }

    #[test]
    fn changes_of_one_path_are_told_as_one() {
        check(&[Created, Modified, Modified], Created);
        check(&[Modified, Removed], Removed);
        check(&[Removed, Created], Modified);
        check(&[Created, Removed], Removed);
        check(&[Modified, Renamed], Renamed);
    }

    #[test]
    fn a_batch_is_told_after_its_window_and_not_before() {
        let now = Instant::now();
        let mut gathering = Gathering::new(WINDOW, 8);
        assert_eq!(gathering.deadline(), None);
        gathering.add("w", "/x".into(), Created, now);
        gathering.add("v", "/y".into(), Created, now + WINDOW / 2);
        assert_eq!(gathering.deadline(), Some(now + WINDOW));
        assert_eq!(gathering.take(now + WINDOW / 2), []);
        assert_eq!(gathering.take(now + WINDOW)[0].watch_id, "w");
        assert_eq!(gathering.deadline(), Some(now + WINDOW / 2 + WINDOW));
        gathering.forget("v");
        assert_eq!(gathering.deadline(), None);
    }

    #[test]
    fn too_many_paths_become_a_rescan() {
        let now = Instant::now();
        let mut gathering = Gathering::new(WINDOW, 3);
        for number in 0..4 {
            gathering.add("w", format!("/{number}").into(), Created, now);
        }
        let told = gathering.take(now + WINDOW);
        assert!(told[0].rescan && told[0].events.is_empty());
    }
}
