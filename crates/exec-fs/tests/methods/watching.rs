//! `fs/watch` with `fs/changed`, and `fs/watchMissing` with `fs/missingChanged`.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use exec_fs::watch::table::Depth::{Entries, Tree};
use exec_fs::watch::{Full, WatchLimits, Watches};
use exec_fs::{MissingHub, MissingWatch};
use exec_protocol::fs::{ChangeKind, ChangedParams, WatchMissingParams};
use exec_protocol::path_uri::PathUri;

use crate::support::*;

/// Long enough for any event that comes at all.
const PATIENCE: Duration = Duration::from_secs(10);

fn watches(max: usize) -> (Watches, Receiver<ChangedParams>) {
    let (sender, receiver) = sync_channel(1000);
    let deliver = move |changed| sender.try_send(changed).map_err(|_| Full);
    let limits = WatchLimits { watches_max: max, ..WatchLimits::default() };
    (Watches::new(limits, Box::new(deliver)), receiver)
}

fn uri(path: &Path) -> PathUri {
    PathUri::from_native(path).unwrap()
}

/// Waits until that was told, whatever comes before.
fn expect(receiver: &Receiver<ChangedParams>, id: &str, path: &Path, kind: ChangeKind) {
    let until = Instant::now() + PATIENCE;
    let mut seen = Vec::new();
    while let Ok(changed) = receiver.recv_timeout(until.saturating_duration_since(Instant::now())) {
        let hit =
            |event: &exec_protocol::fs::ChangeEvent| event.path == uri(path) && event.kind == kind;
        if changed.watch_id == id && changed.events.iter().any(hit) {
            return;
        }
        seen.push(changed);
    }
    panic!("no {kind:?} of {} for {id}, but {seen:?}", path.display());
}

#[test]
fn changes_are_told_once_and_by_the_path_that_was_given() {
    let fixture = Fixture::new();
    let (watches, receiver) = watches(8);
    watches.watch("dir", &fixture.at("ld"), Entries).unwrap();
    fs::write(fixture.at("dir/new"), "1").unwrap();
    expect(&receiver, "dir", &fixture.at("ld/new"), ChangeKind::Created);
    fs::write(fixture.at("dir/x"), "changed").unwrap();
    expect(&receiver, "dir", &fixture.at("ld/x"), ChangeKind::Modified);
    fs::rename(fixture.at("dir/new"), fixture.at("dir/newer")).unwrap();
    expect(&receiver, "dir", &fixture.at("ld/newer"), ChangeKind::Renamed);
    fs::remove_file(fixture.at("dir/newer")).unwrap();
    expect(&receiver, "dir", &fixture.at("ld/newer"), ChangeKind::Removed);
    // Reading is no change, and below an entry nothing is seen.
    fs::create_dir(fixture.at("dir/sub")).unwrap();
    expect(&receiver, "dir", &fixture.at("ld/sub"), ChangeKind::Created);
    fs::read(fixture.at("dir/x")).unwrap();
    fs::write(fixture.at("dir/sub/deep"), "").unwrap();
    fs::write(fixture.at("dir/end"), "").unwrap();
    let told = receiver.recv_timeout(PATIENCE).unwrap();
    assert!(told.events.iter().all(|event| event.path == uri(&fixture.at("ld/end"))), "{told:?}");
}

#[test]
fn a_tree_is_watched_as_it_grows_and_overlapping_watches_live_together() {
    let fixture = Fixture::new();
    let (watches, receiver) = watches(8);
    watches.watch("entries", &fixture.at("dir"), Entries).unwrap();
    watches.watch("tree", fixture.root(), Tree).unwrap();
    watches.watch("file", &fixture.at("f"), Entries).unwrap();
    fs::create_dir(fixture.at("dir/sub")).unwrap();
    expect(&receiver, "tree", &fixture.at("dir/sub"), ChangeKind::Created);
    // Whether the new directory is watched yet is not told, so something happens until it is.
    let until = Instant::now() + PATIENCE;
    let deep = uri(&fixture.at("dir/sub/deep"));
    let seen = std::iter::from_fn(|| (Instant::now() < until).then_some(())).any(|()| {
        fs::write(fixture.at("dir/sub/deep"), "x").unwrap();
        let changed = receiver.recv_timeout(Duration::from_millis(200));
        changed.is_ok_and(|changed| {
            changed.watch_id == "tree" && changed.events.iter().any(|event| event.path == deep)
        })
    });
    assert!(seen, "the new directory was never watched");
    watches.unwatch("tree").unwrap();
    // The others were watched anew for it, and are told so.
    for changed in &receiver {
        if changed.watch_id == "file" && changed.rescan {
            break;
        }
    }
    fs::write(fixture.at("dir/after"), "").unwrap();
    expect(&receiver, "entries", &fixture.at("dir/after"), ChangeKind::Created);
    fs::write(fixture.at("f"), "changed").unwrap();
    expect(&receiver, "file", &fixture.at("f"), ChangeKind::Modified);
}

#[test]
fn too_much_at_once_or_no_room_becomes_a_rescan() {
    let fixture = Fixture::new();
    let open = Arc::new(AtomicBool::new(true));
    let (sender, receiver) = sync_channel(100);
    let deliver = {
        let open = Arc::clone(&open);
        move |changed| match open.load(Ordering::SeqCst) {
            true => sender.try_send(changed).map_err(|_| Full),
            false => Err(Full),
        }
    };
    let window = Duration::from_millis(200);
    let limits = WatchLimits { paths_max: 10, window, ..WatchLimits::default() };
    let watches = Watches::new(limits, Box::new(deliver));
    watches.watch("w", &fixture.at("dir"), Entries).unwrap();
    let rescan = || {
        let until = Instant::now() + PATIENCE;
        while let Ok(changed) =
            receiver.recv_timeout(until.saturating_duration_since(Instant::now()))
        {
            if changed.rescan {
                return;
            }
        }
        panic!("never told to look again");
    };
    for n in 0..100 {
        fs::write(fixture.at("dir").join(format!("{n}")), "").unwrap();
    }
    rescan();
    open.store(false, Ordering::SeqCst);
    fs::write(fixture.at("dir/x"), "y").unwrap();
    std::thread::sleep(window * 2);
    open.store(true, Ordering::SeqCst);
    rescan();
}

#[test]
fn watch_rows() {
    let fixture = Fixture::new();
    let (watches, _receiver) = watches(2);
    let check = |id: &str, name: &str, expected: &str| {
        assert_eq!(
            outcome(watches.watch(id, &fixture.at(name), Tree)),
            expected,
            "for {id}, {name}"
        );
    };
    check("a", "none", MISSING);
    check("a", "br", MISSING);
    check("a", "dir", "ok");
    check("a", "f", "-32600 watch `a` already exists");
    check(&"x".repeat(65), "f", "-32600 watch ID must not exceed 64 bytes");
    check("b", "ld", "ok");
    check("c", "f", "-32600 at most 2 watches may be active per connection");
    assert_eq!(outcome(watches.unwatch("c")), "-32004 unknown watch `c`");
    watches.unwatch("a").unwrap();
    check("c", "f", "ok");
    fs::remove_file(fixture.at("f")).unwrap();
    watches.unwatch("c").unwrap();
}

struct Connection {
    watch: MissingWatch,
    told: Receiver<u64>,
    root: std::path::PathBuf,
    number: u64,
}

impl Connection {
    fn new(fixture: &Fixture, hub: &Arc<MissingHub>) -> Self {
        let (sender, told) = sync_channel(100);
        let sender = Mutex::new(sender);
        let notify = Arc::new(move |id| sender.lock().unwrap().try_send(id).unwrap());
        // Without links above, which would not be watched.
        let root = fs::canonicalize(fixture.root()).unwrap();
        Self { watch: MissingWatch::new(Arc::clone(hub), notify), told, root, number: 0 }
    }

    fn watch(&mut self, number: u64, missing: &[&str], present: Option<&str>) -> bool {
        self.number = number;
        self.watch.watch(&WatchMissingParams {
            watch_id: number,
            missing: missing.iter().map(|name| uri(&self.root.join(name))).collect(),
            present: present.map(|name| uri(&self.root.join(name))),
        })
    }

    /// Watches, acts, and expects to be told exactly once.
    fn fires(&mut self, missing: &[&str], present: Option<&str>, act: impl FnOnce(&Path)) {
        assert!(self.watch(self.number + 1, missing, present), "{missing:?}, {present:?}");
        act(&self.root.clone());
        assert_eq!(self.told.recv_timeout(PATIENCE), Ok(self.number), "{missing:?}, {present:?}");
        let again = self.told.recv_timeout(Duration::from_millis(30));
        assert!(again.is_err(), "told twice of {missing:?}");
    }

    /// Watches, acts, and expects silence until something else shows that the event had passed.
    fn silent(&mut self, missing: &[&str], present: Option<&str>, act: impl FnOnce(&Path)) {
        let sentinel = format!("sentinel{}", self.number);
        let mut all = missing.to_vec();
        all.push(&sentinel);
        assert!(self.watch(self.number + 1, &all, present));
        act(&self.root.clone());
        assert!(self.told.recv_timeout(Duration::from_millis(50)).is_err(), "told of {missing:?}");
        fs::write(self.root.join(&sentinel), "").unwrap();
        assert_eq!(self.told.recv_timeout(PATIENCE), Ok(self.number));
    }
}

#[test]
fn watch_missing_fires_for_what_may_have_appeared() {
    let fixture = Fixture::new();
    let hub = MissingHub::new();
    let mut it = Connection::new(&fixture, &hub);
    it.fires(&["a"], None, |root| fs::write(root.join("a"), "").unwrap());
    it.silent(&["b"], None, |root| fs::write(root.join("c"), "").unwrap());
    it.fires(&["q/r/s"], None, |root| fs::create_dir(root.join("q")).unwrap());
    it.fires(&["q/r/s"], None, |root| fs::create_dir(root.join("q/r")).unwrap());
    it.fires(&["other", "moved"], None, |root| {
        fs::rename(root.join("q"), root.join("moved")).unwrap();
    });
    it.fires(&["dir/none"], None, |root| fs::rename(root.join("dir"), root.join("dir2")).unwrap());
    fs::create_dir_all(it.root.join("up/mid/low")).unwrap();
    it.fires(&["up/mid/low/none"], None, |root| {
        fs::rename(root.join("up"), root.join("up2")).unwrap();
    });
    it.fires(&["up2/mid/low/none"], None, |root| {
        fs::remove_dir(root.join("up2/mid/low")).unwrap();
    });
}

#[test]
fn watch_missing_fires_for_any_change_of_what_is_present() {
    let fixture = Fixture::new();
    let hub = MissingHub::new();
    let mut it = Connection::new(&fixture, &hub);
    let present = Some("f");
    it.fires(&["none"], present, |root| fs::write(root.join("f"), "changed").unwrap());
    it.fires(&["none"], present, |root| {
        fs::set_permissions(root.join("f"), fs::Permissions::from_mode(0o600)).unwrap();
    });
    it.silent(&["none"], present, |root| fs::write(root.join("g"), "").unwrap());
    it.silent(&["none"], Some("dir"), |root| fs::write(root.join("dir/y"), "").unwrap());
    it.fires(&["none"], present, |root| fs::remove_file(root.join("f")).unwrap());
}

#[test]
fn watch_missing_rows() {
    let fixture = Fixture::new();
    let hub = MissingHub::new();
    let mut it = Connection::new(&fixture, &hub);
    let names: Vec<String> = (0..65).map(|n| format!("n{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    assert!(it.watch(1, &names[..64], None));
    assert!(!it.watch(2, &names, None), "more than 64");
    assert!(!it.watch(3, &[], None), "none");
    assert!(!it.watch(4, &["n1", "f"], None), "one exists");
    assert!(!it.watch(5, &["none"], Some("nope")), "not present");
    assert!(!it.watch(6, &["ld/none"], None), "through a link");
    assert!(!it.watch(7, &["br"], None), "a link itself");
    assert!(!it.watch(8, &["f/none"], None), "below a file");
    assert!(it.watch(9, &["n1", "n1"], None));
    assert!(!it.watch(9, &["n2"], None), "not greater");
    assert!(!it.watch(3, &["n2"], None), "smaller");
    // Refused for its number: the watch 9 goes on.
    fs::write(it.root.join("n1"), "").unwrap();
    assert_eq!(it.told.recv_timeout(PATIENCE), Ok(9));
    // Refused for another reason: the watch before is gone.
    assert!(it.watch(10, &["n2"], None));
    assert!(!it.watch(11, &["f"], None));
    fs::write(it.root.join("n2"), "").unwrap();
    it.number = 11;
    it.silent(&["n3"], None, |_| {});
    let foreign: PathUri = PathUri::try_from("file:///C:/x".to_owned()).unwrap();
    let params = WatchMissingParams { watch_id: 99, missing: vec![foreign], present: None };
    assert!(!it.watch.watch(&params));
}

#[test]
fn connections_watch_the_same_paths_without_disturbing_each_other() {
    let fixture = Fixture::new();
    let hub = MissingHub::new();
    let mut one = Connection::new(&fixture, &hub);
    let mut two = Connection::new(&fixture, &hub);
    assert!(one.watch(1, &["a", "dir/b"], None) && two.watch(7, &["a"], Some("dir/x")));
    // A third one that comes and goes takes nothing away.
    assert!(Connection::new(&fixture, &hub).watch(1, &["a", "dir/b"], Some("f")));
    fs::write(one.root.join("dir/b"), "").unwrap();
    assert_eq!(one.told.recv_timeout(PATIENCE), Ok(1));
    assert!(two.told.try_recv().is_err());
    fs::write(one.root.join("dir/x"), "new").unwrap();
    assert_eq!(two.told.recv_timeout(PATIENCE), Ok(7));
    symlink("x", one.root.join("dir/late")).unwrap();
}
