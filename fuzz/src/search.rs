//! What must hold for any search. Panics when it does not.

#![allow(unreachable_pub, reason = "public to the fuzz targets, private to the tests")]

use std::fs;

use exec_fs::Cancel;
use exec_protocol::fs::SearchParams;

/// Matches that are given when the parameters do not say.
const MATCHES_DEFAULT: usize = 1000;

/// A search is refused in words, or gives no more than was asked for.
pub fn search(data: &[u8]) {
    thread_local!(static TREE: tempfile::TempDir = tree());
    let Ok(params) = serde_json::from_slice::<SearchParams>(data) else { return };
    let most = params.max_matches.map_or(MATCHES_DEFAULT, |most| most as usize);
    TREE.with(|tree| match exec_fs::search(tree.path(), &params, &Cancel::new()) {
        Ok(found) => assert!(found.matches.len() <= most, "{} matches", found.matches.len()),
        Err(error) => assert!(!error.to_string().is_empty(), "a refusal says why"),
    });
}

fn tree() -> tempfile::TempDir {
    let tree = tempfile::tempdir().expect("a place for files");
    let write = |name: &str, text: &str| {
        let path = tree.path().join(name);
        fs::create_dir_all(path.parent().expect("it is below the tree")).expect("a directory");
        fs::write(path, text).expect("a file");
    };
    write("a.rs", "fn needle() {}\nNEEDLE\n\n");
    write("sub/b.txt", &"needle aaaaaaaaaaaaaaaaaaaaaaaa\n".repeat(50));
    write(".hidden/c", "needle");
    write(".gitignore", "*.log\n!keep.log\n");
    write("x.log", "needle\u{e9}\0");
    tree
}
