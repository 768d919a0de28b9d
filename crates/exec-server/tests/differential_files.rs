//! The same long script of file calls, played to our server and to the real codex in two equal
//! trees: the same answers all along, and equal trees at the end.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use exec_server::Server;
use exec_testkit::codex::{CodexHome, codex_binary};
use exec_testkit::peer::RawPeer;
use serde_json::{Value, json};

use support::{Failing, Random, config, encode, link};

const SCRIPTS: u64 = 12;
/// Calls of one script.
const CALLS: usize = 250;
/// A tree that has grown beyond this is not copied any more.
const ENTRIES_MAX: usize = 200;

/// As they stand in a URI. What begins with `l` is a link at first, `fifo` a FIFO.
const NAMES: &[&str] = &[
    "a",
    "b",
    "c",
    "d%20e",
    "%C3%A9",
    "%FF",
    "100%25",
    ".h",
    "ld",
    "lf",
    "lb",
    "ll",
    "fifo",
    "none",
    "a/../b",
    "a%2Fb",
    "lx%2F..%2Fc",
    "./a",
    "a//b",
];

#[tokio::test]
async fn files_are_served_as_by_codex() {
    let binary = match codex_binary() {
        Ok(binary) => binary,
        Err(skip) => return exec_testkit::skip(skip.0),
    };
    let server = Server::new(config(|_| {}));
    let home = CodexHome::new().unwrap();
    for seed in 0..SCRIPTS {
        let failing = Failing(seed);
        let (mut ours, _served) = link(&server, 1 << 16);
        let mut command = tokio::process::Command::from(home.exec_server(&binary));
        command.args(["--listen", "stdio"]).stderr(Stdio::null());
        let mut theirs = RawPeer::stdio(command).unwrap();
        ours.handshake().await.unwrap();
        theirs.handshake().await.unwrap();
        compare(seed, &mut ours, &mut theirs).await;
        drop(failing);
    }
    server.shut_down().await;
}

async fn compare(seed: u64, ours: &mut RawPeer, theirs: &mut RawPeer) {
    let (our_tree, their_tree) = (Tree::new(), Tree::new());
    let mut writer = Writer { random: Random::new(seed) };
    let mut answers = BTreeMap::new();
    for number in 0..CALLS {
        let call = writer.call();
        if is_corrected(&call, &their_tree) {
            continue;
        }
        let answer = our_tree.ask(ours, &call).await;
        let expected = their_tree.ask(theirs, &call).await;
        assert_eq!(answer, expected, "call {number}: {} {}", call.method, call.params);
        *answers.entry(expected["error"]["code"].to_string()).or_insert(0) += 1;
    }
    assert_eq!(our_tree.listing(), their_tree.listing());
    println!("seed {seed}: {answers:?}");
    for code in ["null", "-32004", "-32600", "-32603"] {
        assert!(answers.contains_key(code), "no answer with {code}: {answers:?}");
    }
}

/// Calls that we answer otherwise on purpose, or that the reference hangs in.
fn is_corrected(call: &Call, tree: &Tree) -> bool {
    let path = |name| call.params[name].as_str().map(|path| tree.native(path));
    let is_fifo = |path: &Path| path.metadata().is_ok_and(|it| it.file_type().is_fifo());
    match call.method {
        // The reference waits for a reader of the FIFO.
        "fs/writeFile" => path("path").is_some_and(|path| is_fifo(&path)),
        "fs/copy" => {
            let (from, to) = (path("sourcePath").unwrap(), path("destinationPath").unwrap());
            let identity = |path: &Path| path.metadata().ok().map(|it| (it.dev(), it.ino()));
            // The reference empties a file that is copied onto itself, be it by way of a link.
            let onto_itself = identity(&from).is_some() && identity(&from) == identity(&to);
            let large = tree.listing().len() > ENTRIES_MAX;
            onto_itself || (to.is_dir() && conflict(&from, &to)) || is_fifo(&to) || large
        }
        // The reference mistakes a name that is not text for another, and repeats odd spellings.
        "fs/walk" => {
            let odd = call.params["path"]
                .as_str()
                .is_some_and(|path| path.contains("//") || path.contains("%2F"));
            odd || tree.listing().keys().any(|name| std::str::from_utf8(name).is_err())
        }
        _ => false,
    }
}

/// Whether a copy may fail half-way: what is there by then depends on the order of the directory.
fn conflict(from: &Path, to: &Path) -> bool {
    if !from.is_dir() || from.is_symlink() {
        return false;
    }
    let there = listing(to);
    let kind = |entry: &str| entry.split(' ').nth(1).unwrap_or_default().to_owned();
    listing(from).iter().any(|(name, entry)| {
        let other = there.get(name).map(|other| kind(other));
        other.is_some_and(|other| other == "link" || other != kind(entry))
    })
}

struct Call {
    method: &'static str,
    /// With `@` for the tree.
    params: Value,
}

/// Draws calls.
struct Writer {
    random: Random,
}

impl Writer {
    fn call(&mut self) -> Call {
        let path = self.path();
        let (method, mut params) = match self.random.below(15) {
            0 | 1 => ("fs/readFile", json!({"path": path})),
            2 | 3 => {
                let length = *self.random.pick(&[0, 1, 100, 5000]);
                let data = encode(&vec![b'x'; length]);
                ("fs/writeFile", json!({"path": path, "dataBase64": data}))
            }
            4 => ("fs/createDirectory", json!({"path": path, "recursive": self.flag()})),
            5 => ("fs/getMetadata", json!({"path": path})),
            6 => ("fs/canonicalize", json!({"path": path})),
            7 => ("fs/readDirectory", json!({"path": path})),
            8 => ("fs/walk", json!({"path": path, "options": self.walk_options()})),
            9 => {
                let recursive = if self.random.one_in(3) { json!(true) } else { json!(false) };
                ("fs/remove", json!({"path": path, "recursive": recursive, "force": self.flag()}))
            }
            10 | 11 => {
                let (to, recursive) = (self.path(), !self.random.one_in(4));
                let params = json!({"sourcePath": path, "destinationPath": to,
                    "recursive": recursive});
                ("fs/copy", params)
            }
            12 => {
                let mode = *self.random.pick(&["read", "replace"]);
                ("fs/open", json!({"handleId": self.handle(), "path": path, "mode": mode}))
            }
            13 => {
                let (offset, len) = (self.random.below(200), self.random.below(200));
                ("fs/readBlock", json!({"handleId": self.handle(), "offset": offset, "len": len}))
            }
            _ if self.random.one_in(3) => ("fs/close", json!({"handleId": self.handle()})),
            _ => {
                let (offset, length) = (self.random.below(200), self.random.below(50));
                let chunk = encode(&vec![b'y'; length]);
                let params = json!({"handleId": self.handle(), "offset": offset, "chunk": chunk});
                ("fs/writeBlock", params)
            }
        };
        if params.get("path").is_some() {
            params["followSymlinks"] = self.flag();
        }
        if !self.random.one_in(3) {
            params["sandbox"] = if self.random.one_in(2) {
                Value::Null
            } else {
                json!({"permissions": {"type": "disabled"}, "cwd": null,
                    "windowsSandboxLevel": "disabled", "useLegacyLandlock": false})
            };
        }
        Call { method, params }
    }

    fn path(&mut self) -> String {
        let depth = *self.random.pick(&[0, 1, 1, 1, 2, 2, 3]);
        let mut path = "@".to_owned();
        for _ in 0..depth {
            path.push('/');
            let name: &&str = self.random.pick(NAMES);
            path.push_str(name);
        }
        if self.random.one_in(40) {
            path.push_str(&format!("/{}", "n".repeat(256)));
        }
        if self.random.one_in(20) {
            path.push('/');
        }
        // The tree itself is looked at, and never replaced.
        if depth == 0 { format!("@/{}", self.random.pick(&["a", "b", "ld"])) } else { path }
    }

    fn handle(&mut self) -> &'static str {
        let handle: &&str = self.random.pick(&["", "h", "i"]);
        handle
    }

    fn flag(&mut self) -> Value {
        self.random.pick(&[json!(true), json!(false), Value::Null]).clone()
    }

    fn walk_options(&mut self) -> Value {
        json!({
            "maxDepth": self.random.pick(&[0, 1, 64]),
            "maxDirectories": self.random.pick(&[0, 1, 3, 1000]),
            "maxEntries": self.random.pick(&[1, 5, 1000]),
            "followDirectorySymlinks": self.random.one_in(2),
            "pruneHiddenDirectories": self.random.one_in(2),
        })
    }
}

/// One of the two trees, removed with this value.
struct Tree(tempfile::TempDir);

impl Tree {
    fn new() -> Self {
        let tree = Self(tempfile::tempdir().unwrap());
        let at = |name: &str| tree.root().join(name);
        for name in ["a/b", "b/c", ".h/a"] {
            fs::create_dir_all(at(name)).unwrap();
        }
        for (name, text) in [("c", "content"), ("a/c", "inner"), ("b/c/a", ""), (".h/a/b", "h")] {
            fs::write(at(name), text).unwrap();
        }
        for (target, name) in
            [("a", "ld"), ("c", "lf"), ("nowhere", "lb"), ("ll", "ll"), ("a/b", "lx")]
        {
            symlink(target, at(name)).unwrap();
        }
        symlink("c", at("a/lf")).unwrap();
        for name in ["fifo", "a/fifo"] {
            let made = std::process::Command::new("mkfifo").arg(at(name)).status().unwrap();
            assert!(made.success());
        }
        tree
    }

    /// Some levels down, so that nothing leads out of it.
    fn root(&self) -> PathBuf {
        let root = self.0.path().canonicalize().unwrap().join("1/2/3/4");
        fs::create_dir_all(&root).unwrap();
        root
    }

    fn native(&self, path: &str) -> PathBuf {
        let uri = path.replacen('@', &format!("file://{}", self.root().display()), 1);
        exec_protocol::path_uri::PathUri::try_from(uri).unwrap().to_native().unwrap()
    }

    /// The answer, without the tree's name, times, and what else depends on the file system.
    async fn ask(&self, peer: &mut RawPeer, call: &Call) -> Value {
        let root = self.root().display().to_string();
        let params = call.params.to_string().replace("\"@", &format!("\"file://{root}"));
        let params = serde_json::from_str(&params).unwrap();
        let answer = peer.call(call.method, params).await.unwrap();
        let mut answer: Value =
            serde_json::from_str(&answer.to_string().replace(&root, "@")).unwrap();
        answer.as_object_mut().unwrap().remove("id");
        if call.method == "fs/getMetadata" && answer["result"].is_object() {
            for name in ["createdAtMs", "modifiedAtMs"] {
                answer["result"][name] = Value::Null;
            }
            if answer["result"]["isDirectory"] == true {
                answer["result"]["size"] = Value::Null;
            }
        }
        if call.method == "fs/readDirectory"
            && let Some(entries) = answer.pointer_mut("/result/entries")
            && let Some(entries) = entries.as_array_mut()
        {
            entries.sort_by_key(Value::to_string);
        }
        answer
    }

    fn listing(&self) -> BTreeMap<Vec<u8>, String> {
        listing(self.0.path())
    }
}

/// Every entry below a directory: its kind, its permissions and what is in it.
fn listing(root: &Path) -> BTreeMap<Vec<u8>, String> {
    let mut entries = BTreeMap::new();
    let mut directories = vec![root.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let metadata = path.symlink_metadata().unwrap();
            let described = if metadata.is_dir() {
                directories.push(path.clone());
                "directory".to_owned()
            } else if metadata.is_symlink() {
                format!("link to {}", path.read_link().unwrap().display())
            } else if metadata.is_file() {
                format!("file with {}", fs::read(&path).unwrap().escape_ascii())
            } else {
                "special".to_owned()
            };
            let name = path.strip_prefix(root).unwrap().as_os_str().as_bytes().to_vec();
            entries.insert(name, format!("{:o} {described}", metadata.mode()));
        }
    }
    entries
}
