//! What the calls cost, in nanoseconds: `cargo run --release --example fs_bench [directory]`.

use std::fs;
use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

use exec_fs::Links::Follow;
use exec_fs::{
    Cancel, FileReader, Handles, Recursion, Replacement, copy, get_metadata, metadata_cached,
    read_directory, read_directory_json, read_file, read_file_cached, walk, walk_json, write_file,
};
use exec_protocol::fs::{OpenMode, WalkOptions};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let base = std::env::args().nth(1).unwrap_or_else(|| "/dev/shm".to_owned());
    let dir = tempfile::tempdir_in(base)?;
    small(dir.path())?;
    large(dir.path())?;
    trees(dir.path())?;
    Ok(())
}

/// Prints the best of several runs of `count` calls.
fn measure<T>(name: &str, count: u32, mut call: impl FnMut() -> T) {
    let best = (0..7)
        .map(|_| {
            let start = Instant::now();
            for _ in 0..count {
                black_box(call());
            }
            start.elapsed() / count
        })
        .min()
        .unwrap_or_default();
    println!("{name:32} {:>12} ns", best.as_nanos());
}

fn small(dir: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let (file, missing) = (dir.join("1k"), dir.join("missing"));
    fs::write(&file, [7; 1024])?;
    measure("metadata", 20_000, || get_metadata(&file, Follow));
    measure("metadata cached", 20_000, || metadata_cached(&file, Follow));
    measure("metadata missing", 20_000, || get_metadata(&missing, Follow));
    measure("metadata missing cached", 20_000, || metadata_cached(&missing, Follow));
    measure("readFile 1 KiB", 20_000, || read_file(&file, Follow, 1 << 20));
    measure("readFile 1 KiB cached", 20_000, || read_file_cached(&file, Follow, 64 << 10));
    measure("std::fs::read 1 KiB", 20_000, || fs::read(&file));
    let hits = (0..1000).filter(|_| read_file_cached(&file, Follow, 64 << 10).is_some()).count();
    println!("{:32} {hits:>12} of 1000", "answered from the cache");
    measure("a thread's hop and back", 2000, || std::thread::spawn(|| ()).join());
    measure("writeFile 1 KiB", 5000, || {
        write_file(&file, &[7; 1024], Follow, Replacement::InPlace)
    });
    measure("writeFile 1 KiB atomic", 500, || {
        write_file(&file, &[7; 1024], Follow, Replacement::Atomic)
    });
    Ok(())
}

fn large(dir: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let file = dir.join("64m");
    fs::write(&file, vec![7; 64 << 20])?;
    let one = dir.join("1m");
    fs::write(&one, vec![7; 1 << 20])?;
    measure("readFile 1 MiB", 300, || read_file(&one, Follow, 1 << 30));
    measure("readFile 64 MiB", 3, || read_file(&file, Follow, 1 << 30));
    let mut piece = vec![0; 192 << 10];
    measure("readFile 64 MiB in pieces", 3, || {
        let mut reader = FileReader::open(&file, Follow, 1 << 30)?;
        while reader.read(&mut piece)? > 0 {}
        Ok::<_, exec_fs::Error>(())
    });
    let handles = Handles::new(1);
    handles.open("h", &file, OpenMode::Read)?;
    let mut buffer = Vec::new();
    measure("readBlock 1 MiB", 300, || handles.read_block("h", 5 << 20, 1 << 20, &mut buffer));
    measure("readBlock 1 MiB cached", 300, || {
        handles.read_block_cached("h", 5 << 20, 1 << 20, &mut buffer)
    });
    measure("writeFile 1 MiB", 100, || write_file(&one, &buffer, Follow, Replacement::InPlace));
    let target = dir.join("copy");
    measure("copy 64 MiB", 3, || copy(&file, &target, Recursion::Single, &Cancel::new()));
    measure("std::fs::copy 64 MiB", 3, || fs::copy(&file, &target));
    Ok(())
}

fn trees(dir: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let (flat, deep) = (dir.join("d10k"), dir.join("w"));
    fs::create_dir(&flat)?;
    for n in 0..10_000 {
        fs::write(flat.join(format!("file-{n:05}.txt")), "")?;
    }
    for a in 0..500 {
        let sub = deep.join(format!("d{a:03}"));
        fs::create_dir_all(&sub)?;
        for b in 0..100 {
            fs::write(sub.join(format!("f{b:02}")), "")?;
        }
    }
    let cancel = Cancel::new();
    measure("readDirectory 10k", 20, || read_directory(&flat, &cancel));
    measure("readDirectory 10k, serde", 20, || {
        read_directory(&flat, &cancel).map(|listed| serde_json::to_vec(&listed))
    });
    measure("readDirectory 10k, JSON", 20, || {
        let mut out = Vec::new();
        read_directory_json(&flat, &cancel, &mut out).map(|()| out)
    });
    let options = WalkOptions {
        max_depth: 8,
        max_directories: 10_000,
        max_entries: 50_000,
        follow_directory_symlinks: false,
        prune_hidden_directories: false,
    };
    let listed = walk(&deep, &options, &cancel)?;
    println!("{:32} {:>12} entries", "walk", listed.entries.len());
    measure("walk", 3, || walk(&deep, &options, &cancel));
    measure("walk, serde", 3, || {
        walk(&deep, &options, &cancel).map(|listed| serde_json::to_vec(&listed))
    });
    measure("walk, JSON", 3, || {
        let mut out = Vec::new();
        walk_json(&deep, &options, &cancel, &mut out).map(|()| out)
    });
    let follow = WalkOptions { follow_directory_symlinks: true, ..options };
    measure("walk following, JSON", 3, || {
        let mut out = Vec::new();
        walk_json(&deep, &follow, &cancel, &mut out).map(|()| out)
    });
    Ok(())
}
