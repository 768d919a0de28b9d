//! A directory that becomes a link to the outside and back, as fast as a thread can do it, while
//! calls that refuse links, or never follow them, work on it. What is outside stays unseen and
//! untouched. Calls that follow links by their nature (`fs/open`, `fs/canonicalize`,
//! `fs/readDirectory`, `fs/rename`'s parents) have nothing to keep here.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use exec_fs::Links::{Follow, Refuse};
use exec_fs::{
    Cancel, Missing, Parents, Recursion, Replacement, copy, create_directory, get_metadata,
    metadata_cached, read_file, read_file_cached, remove, search, walk, write_file,
};
use exec_protocol::fs::{SearchParams, WalkOptions};
use rustix::fs::{CWD, RenameFlags};

use crate::support::memory_directory;

/// Of each call; a release build makes it more than 100 000 over all of them.
const ROUNDS: usize = if cfg!(debug_assertions) { 1500 } else { 15_000 };
/// Of the calls that work on a tree.
const TREE_ROUNDS: usize = ROUNDS / 10;

const SECRET: &[u8] = b"the secret outside";

struct Arena {
    directory: tempfile::TempDir,
    stop: AtomicBool,
    swaps: AtomicU64,
}

impl Arena {
    /// `in/d/f`, and `outside/f` and more, with `in/alt` leading there.
    fn new() -> Self {
        let directory = memory_directory();
        let at = |name: &str| directory.path().join(name);
        for name in ["in/d/sub", "outside/sub"] {
            fs::create_dir_all(at(name)).unwrap();
        }
        fs::write(at("in/d/f"), "inside").unwrap();
        for name in ["outside/f", "outside/secret", "outside/sub/deep", "outside/victim"] {
            fs::write(at(name), SECRET).unwrap();
        }
        symlink(at("outside"), at("in/alt")).unwrap();
        Self { directory, stop: AtomicBool::new(false), swaps: AtomicU64::new(0) }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Runs with the swapping thread beside it.
    fn race(&self, one: &str, other: &str, run: impl FnOnce()) {
        let (one, other) = (self.at(one), self.at(other));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !self.stop.load(Ordering::Relaxed) {
                    let flags = RenameFlags::EXCHANGE;
                    // Gone for a moment, when the call removes it.
                    if rustix::fs::renameat_with(CWD, &one, CWD, &other, flags).is_ok() {
                        self.swaps.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
            // Also when the call panics, or the test would never end.
            let _stop = Stop(&self.stop);
            run();
        });
        assert!(self.swaps.load(Ordering::Relaxed) > 0, "there was no race");
    }

    /// That many, or more if the other thread has hardly had its turn yet.
    fn rounds(&self, count: usize) -> impl Iterator<Item = usize> {
        let patience = Instant::now() + Duration::from_secs(10);
        (0..).take_while(move |round| {
            let raced = self.swaps.load(Ordering::Relaxed) > 100;
            *round < count || (!raced && Instant::now() < patience)
        })
    }

    fn outside_is_untouched(&self) {
        let mut names: Vec<_> = fs::read_dir(self.at("outside"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names, ["f", "secret", "sub", "victim"]);
        for name in ["outside/f", "outside/secret", "outside/sub/deep", "outside/victim"] {
            assert_eq!(fs::read(self.at(name)).unwrap(), SECRET, "{name}");
        }
        assert_eq!(fs::read_dir(self.at("outside/sub")).unwrap().count(), 1);
    }
}

struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn looking_and_reading_stay_inside() {
    let arena = Arena::new();
    let path = arena.at("in/d/f");
    let (mut inside, mut refused) = (0, 0);
    arena.race("in/d", "in/alt", || {
        for _ in arena.rounds(ROUNDS) {
            match read_file(&path, Refuse, 1000) {
                Ok(content) => {
                    assert_eq!(content, b"inside");
                    inside += 1;
                }
                Err(_) => refused += 1,
            }
            if let Ok(metadata) = get_metadata(&path, Refuse) {
                assert_eq!(metadata.size, 6);
            }
            if let Some(Ok(metadata)) = metadata_cached(&path, Refuse) {
                assert_eq!(metadata.size, 6);
            }
            if let Some(Ok(content)) = read_file_cached(&path, Refuse, 1000) {
                assert_eq!(content, b"inside");
            }
        }
    });
    println!("{inside} times inside, {refused} times refused");
    arena.outside_is_untouched();
}

#[test]
fn a_file_that_becomes_a_link_is_not_read_and_not_written() {
    let arena = Arena::new();
    symlink(arena.at("outside/f"), arena.at("in/link")).unwrap();
    let path = arena.at("in/d/f");
    arena.race("in/d/f", "in/link", || {
        for round in arena.rounds(ROUNDS) {
            if let Ok(content) = read_file(&path, Refuse, 1000) {
                assert_eq!(content, b"inside");
            }
            let replacement =
                if round % 8 == 0 { Replacement::Atomic } else { Replacement::InPlace };
            // It may be refused; what matters is what is outside.
            write_file(&path, b"inside", Refuse, replacement).ok();
        }
    });
    arena.outside_is_untouched();
}

#[test]
fn writing_making_and_removing_stay_inside() {
    let arena = Arena::new();
    let (file, atomic) = (arena.at("in/d/new"), arena.at("in/d/atomic"));
    let (made, victim) = (arena.at("in/d/made/deep"), arena.at("in/d/victim"));
    arena.race("in/d", "in/alt", || {
        for round in arena.rounds(ROUNDS) {
            write_file(&file, b"x", Refuse, Replacement::InPlace).ok();
            if round % 8 == 0 {
                write_file(&atomic, b"x", Refuse, Replacement::Atomic).ok();
            }
            create_directory(&made, Parents::Create, Refuse).ok();
            create_directory(made.parent().unwrap(), Parents::Require, Refuse).ok();
            remove(&victim, Recursion::Single, Missing::Accept, Refuse, &Cancel::new()).ok();
            remove(&made, Recursion::Single, Missing::Accept, Refuse, &Cancel::new()).ok();
        }
    });
    arena.outside_is_untouched();
}

#[test]
fn walking_and_searching_stay_inside() {
    let arena = Arena::new();
    let options = WalkOptions {
        max_depth: 8,
        max_directories: 100,
        max_entries: 1000,
        follow_directory_symlinks: false,
        prune_hidden_directories: false,
    };
    let params: SearchParams =
        serde_json::from_str(r#"{"path":"/","pattern":"secret outside","noIgnore":true}"#).unwrap();
    arena.race("in/d", "in/alt", || {
        for _ in arena.rounds(TREE_ROUNDS) {
            let listed = walk(&arena.at("in"), &options, &Cancel::new()).unwrap();
            for entry in &listed.entries {
                let path = entry.path.as_str();
                assert!(!path.ends_with("/secret") && !path.ends_with("/deep"), "{path}");
            }
            let found = search(&arena.at("in"), &params, &Cancel::new()).unwrap();
            assert_eq!(found.matches, []);
        }
    });
    arena.outside_is_untouched();
}

#[test]
fn copying_takes_nothing_from_outside() {
    let arena = Arena::new();
    let destination = arena.at("copy");
    arena.race("in/d", "in/alt", || {
        for _ in arena.rounds(TREE_ROUNDS) {
            copy(&arena.at("in"), &destination, Recursion::Tree, &Cancel::new()).ok();
            for name in ["d", "alt"] {
                let copied = destination.join(name);
                // A link that was copied as a link leads there by right.
                if !copied.is_symlink() {
                    assert!(!copied.join("secret").exists());
                    let content = fs::read(copied.join("f")).unwrap_or_default();
                    assert_ne!(content, SECRET);
                }
            }
            fs::remove_dir_all(&destination).ok();
        }
    });
    arena.outside_is_untouched();
}

#[test]
fn removing_a_tree_leaves_what_its_links_name() {
    let arena = Arena::new();
    let grow = |root: &Path| {
        for name in ["d/sub", "e"] {
            fs::create_dir_all(root.join(name)).unwrap();
        }
        for name in ["d/f", "d/sub/g", "e/h"] {
            fs::write(root.join(name), "").unwrap();
        }
        symlink(arena.at("outside"), root.join("alt")).unwrap();
    };
    let tree = arena.at("tree");
    arena.race("tree/d", "tree/alt", || {
        for _ in arena.rounds(TREE_ROUNDS) {
            if !tree.exists() {
                grow(&tree);
            }
            remove(&tree, Recursion::Tree, Missing::Accept, Follow, &Cancel::new()).ok();
        }
    });
    arena.outside_is_untouched();
}
