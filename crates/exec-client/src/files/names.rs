//! What a server says a directory holds, checked: only plain names of that directory, each once.
//! A server that answers with anything else must not make us write anywhere else.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

use exec_protocol::fs::{DirectoryEntry, WalkEntry, WalkKind};
use exec_protocol::path_uri::PathUri;

/// One entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Child {
    pub(crate) name: OsString,
    pub(crate) kind: ChildKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChildKind {
    Directory,
    File,
    /// A link, or something that is neither.
    Other,
}

/// What [`children`] found: entries, and names that were refused, with the reason.
#[derive(Debug, Default)]
pub(crate) struct Children {
    pub(crate) accepted: Vec<Child>,
    pub(crate) refused: Vec<(String, &'static str)>,
}

/// Puts together what a walk lists, whose names are exact, and what a listing has besides: links
/// and special files.
pub(crate) fn children(
    directory: &Path,
    walked: &[WalkEntry],
    listed: &[DirectoryEntry],
) -> Children {
    let mut found = Children::default();
    let mut seen: HashSet<OsString> = HashSet::new();
    // As the listing would show them.
    let mut shown: HashSet<String> = HashSet::new();
    for entry in walked {
        let Some(name) = name_in(directory, &entry.path) else {
            let reason = "the executor lists it, but it is not in the directory";
            found.refused.push((entry.path.as_str().to_owned(), reason));
            continue;
        };
        shown.insert(name.to_string_lossy().into_owned());
        if !seen.insert(name.clone()) {
            let reason = "the executor lists it twice";
            found.refused.push((name.to_string_lossy().into_owned(), reason));
            continue;
        }
        let kind = match entry.kind {
            WalkKind::Directory => ChildKind::Directory,
            WalkKind::File => ChildKind::File,
        };
        found.accepted.push(Child { name, kind });
    }
    for entry in listed {
        if !shown.insert(entry.file_name.clone()) {
            continue;
        }
        let name = OsString::from(&entry.file_name);
        if !is_plain(&name) {
            let reason = "the executor lists it, but it is not a name";
            found.refused.push((entry.file_name.clone(), reason));
        } else if entry.file_name.contains('\u{fffd}') {
            let reason = "its name is not UTF-8 and it is a link or a special file";
            found.refused.push((entry.file_name.clone(), reason));
        } else {
            found.accepted.push(Child { name, kind: ChildKind::Other });
        }
    }
    found
}

/// The name of a path that is directly in the directory.
fn name_in(directory: &Path, path: &PathUri) -> Option<OsString> {
    let native = path.to_native().ok()?.into_os_string().into_vec();
    let prefix = directory.as_os_str().as_bytes();
    let rest = native.strip_prefix(prefix)?;
    let name = if prefix == b"/" { rest } else { rest.strip_prefix(b"/")? };
    let name = OsStr::from_bytes(name);
    is_plain(name).then(|| name.to_owned())
}

fn is_plain(name: &OsStr) -> bool {
    let bytes = name.as_bytes();
    !bytes.is_empty()
        && bytes != b"."
        && bytes != b".."
        && !bytes.iter().any(|b| matches!(b, b'/' | 0))
}

/// The way from the directory of `link` to `target`, both below one root and given relative to it.
/// `None` if one of them leaves the root.
pub(crate) fn relative_target(link: &Path, target: &Path) -> Option<PathBuf> {
    let normal = |path: &Path| path.components().all(|part| matches!(part, Component::Normal(_)));
    if !normal(link) || !normal(target) {
        return None;
    }
    let up = link.components().count().checked_sub(1)?;
    let mut way: PathBuf = std::iter::repeat_n("..", up).collect();
    way.push(target);
    if way.as_os_str().is_empty() {
        way.push(".");
    }
    Some(way)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uri(text: &str) -> PathUri {
        serde_json::from_str(&format!("{text:?}")).unwrap()
    }

    fn walked(path: &str) -> WalkEntry {
        WalkEntry { path: uri(path), kind: WalkKind::File }
    }

    fn listed(name: &str) -> DirectoryEntry {
        DirectoryEntry { file_name: name.to_owned(), is_directory: false, is_file: true }
    }

    #[test]
    fn only_plain_names_of_the_directory_are_accepted() {
        for bad in [
            "file:///srv/t/../x",
            "file:///srv/t/%2e%2e/x",
            "file:///srv/t/a/b",
            "file:///srv/t/a%2Fb",
            "file:///srv/t",
            "file:///srv/t/",
            "file:///srv/tx",
            "file:///etc/passwd",
            "file:///",
            "/srv/t/../x",
            "file://host/srv/t/a",
        ] {
            let found = children(Path::new("/srv/t"), &[walked(bad)], &[]);
            assert_eq!((found.accepted.len(), found.refused.len()), (0, 1), "{bad}");
        }
        for bad in ["", ".", "..", "../x", "/etc/passwd", "a/b", "a\0b", "x\u{fffd}"] {
            let found = children(Path::new("/srv/t"), &[], &[listed(bad)]);
            assert_eq!((found.accepted.len(), found.refused.len()), (0, 1), "{bad:?}");
        }
        let dots = PathUri::from_native(Path::new("/srv/t/../x")).unwrap();
        let entry = WalkEntry { path: dots, kind: WalkKind::File };
        assert_eq!(children(Path::new("/srv/t"), &[entry], &[]).refused.len(), 1);
    }

    #[test]
    fn names_are_exact_and_what_only_the_listing_has_is_something_else() {
        let walk =
            [walked("file:///srv/t/a"), walked("file:///srv/t/b%FF"), walked("file:///srv/t/a")];
        let list = [listed("a"), listed("b\u{fffd}"), listed("link")];
        let found = children(Path::new("/srv/t"), &walk, &list);
        let names: Vec<_> =
            found.accepted.iter().map(|one| (one.name.as_bytes(), one.kind)).collect();
        let expected: [(&[u8], _); 3] =
            [(b"a", ChildKind::File), (b"b\xff", ChildKind::File), (b"link", ChildKind::Other)];
        assert_eq!(names, expected);
        assert_eq!(found.refused, [("a".to_owned(), "the executor lists it twice")]);
        let root = children(Path::new("/"), &[walked("file:///etc")], &[]);
        assert_eq!(root.accepted[0].name, "etc");
    }

    #[test]
    fn links_stay_below_the_root() {
        let check = |link: &str, target: &str, expected: Option<&str>| {
            let way = relative_target(Path::new(link), Path::new(target));
            assert_eq!(way.as_deref(), expected.map(Path::new), "{link} {target}");
        };
        check("l", "f", Some("f"));
        check("a/b/l", "c/d", Some("../../c/d"));
        check("a/l", "", Some(".."));
        check("l", "", Some("."));
        check("l", "../x", None);
        check("l", "/etc", None);
        check("../l", "f", None);
    }
}
