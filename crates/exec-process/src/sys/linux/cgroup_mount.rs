//! Where this process stands in the cgroup v2 hierarchy, as a directory.

use std::path::{Path, PathBuf};

/// The directories through which this process can reach its own cgroup: one for each mount of the
/// hierarchy that shows it. Empty where there is no cgroup v2.
pub(super) fn own_directories() -> Vec<PathBuf> {
    let read = |path| std::fs::read(path).map(|text| String::from_utf8_lossy(&text).into_owned());
    match (read("/proc/self/mountinfo"), read("/proc/self/cgroup")) {
        (Ok(mounts), Ok(cgroups)) => directories(&mounts, &cgroups),
        _ => Vec::new(),
    }
}

fn directories(mounts: &str, cgroups: &str) -> Vec<PathBuf> {
    // The unified hierarchy is number 0 and names no controllers.
    let Some(own) = cgroups.lines().find_map(|line| line.strip_prefix("0::")) else {
        return Vec::new();
    };
    mounts.lines().filter_map(mount).filter_map(|(root, point)| below(&root, &point, own)).collect()
}

/// The root and the mount point of a writable cgroup v2 mount: the fourth and fifth field. The type
/// is the first one after a lone dash, since a varying number of fields precedes that.
fn mount(line: &str) -> Option<(String, String)> {
    let (before, after) = line.split_once(" - ")?;
    let mut fields = before.split(' ').skip(3);
    let (root, point, options) = (fields.next()?, fields.next()?, fields.next()?);
    let is_writable = options.split(',').any(|option| option == "rw");
    (after.split(' ').next() == Some("cgroup2") && is_writable)
        .then(|| (unescape(root), unescape(point)))
}

/// The directory of cgroup `own` under a mount that shows the hierarchy from `root` on.
fn below(root: &str, point: &str, own: &str) -> Option<PathBuf> {
    // Either starts with /.. when it lies outside the cgroup namespace.
    if root.starts_with("/..") || own.starts_with("/..") {
        return None;
    }
    let inside = Path::new(own).strip_prefix(root).ok()?;
    Some(Path::new(point).join(inside))
}

/// Undoes the octal escapes for space, tab, newline and backslash.
fn unescape(field: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .iter()
        .fold(field.to_owned(), |text, (from, to)| text.replace(from, to))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(mounts: &str, cgroups: &str, expected: &[&str]) {
        let expected: Vec<_> = expected.iter().map(PathBuf::from).collect();
        assert_eq!(directories(mounts, cgroups), expected, "{mounts} {cgroups}");
    }

    #[test]
    fn own_cgroup_is_found_on_every_kind_of_host() {
        let unified = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n";
        check(unified, "0::/\n", &["/sys/fs/cgroup"]);
        check(unified, "0::/a.slice/b.service\n", &["/sys/fs/cgroup/a.slice/b.service"]);
        check(unified, "0::/../outside\n", &[]);
        let hybrid = "40 31 0:37 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd\n\
                      41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        check(hybrid, "4:memory:/x\n0::/\n", &["/sys/fs/cgroup/unified"]);
        check(hybrid, "4:memory:/x\n", &[]);
        let bound = "9 8 0:26 /a/b /run/own\\040cgroup rw - cgroup2 cgroup rw\n";
        check(bound, "0::/a/b/c\n", &["/run/own cgroup/c"]);
        check(bound, "0::/a/bc\n", &[]);
        check("9 8 0:26 / /sys/fs/cgroup ro - cgroup2 cgroup2 rw\n", "0::/\n", &[]);
        check("nonsense\n", "0::/\n", &[]);
    }
}
