//! Views made by the real bubblewrap, looked at from inside by ordinary programs.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use std::fs::{self, File};
use std::io::{Read as _, Seek as _, Write as _};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use exec_sandbox::linux::bwrap::{self, Bwrap, Places, Surroundings};
use exec_sandbox::linux::proc_covers::ProcCovers;
use exec_sandbox::plan::{Access, MaskMode, Mount, Network, Root, View};

const HOST: Mount = Mount::Root(Root::HostReadOnly);

/// The system's bubblewrap, if namespaces can be made here at all.
fn system() -> Option<Bwrap> {
    let found = match bwrap::find(&Places::default(), Duration::from_secs(20)) {
        Ok(found) => found,
        Err(rejected) => {
            let why: Vec<String> = rejected.iter().map(ToString::to_string).collect();
            exec_testkit::skip(format!("no bubblewrap: {}", why.join("; ")));
            return None;
        }
    };
    let simple = ["--unshare-user", "--unshare-pid", "--unshare-net", "--ro-bind", "/", "/"];
    let ends = Command::new(&found.path).args(simple).args(["--", "/bin/true"]).output().unwrap();
    if !ends.status.success() {
        exec_testkit::skip(format!("bubblewrap: {}", String::from_utf8_lossy(&ends.stderr)));
        return None;
    }
    Some(found)
}

/// A workspace to be seen from inside, and the file for masks beside it.
struct Scene {
    bwrap: Bwrap,
    /// Keeps the directory; not below the workspace.
    directory: tempfile::TempDir,
    empty_file: PathBuf,
}

impl Scene {
    fn new() -> Option<Scene> {
        let bwrap = system()?;
        let directory = tempfile::tempdir().unwrap();
        let state = directory.path().join("state");
        fs::create_dir(&state).unwrap();
        fs::create_dir(directory.path().join("w")).unwrap();
        let empty_file = bwrap::empty_file(&state).unwrap();
        Some(Scene { bwrap, directory, empty_file })
    }

    /// A path in the workspace.
    fn path(&self, below: &str) -> PathBuf {
        self.directory.path().canonicalize().unwrap().join("w").join(below)
    }

    fn workspace(&self) -> Mount {
        let path = self.directory.path().canonicalize().unwrap().join("w");
        Mount::Bind { path, access: Access::Writable }
    }

    /// Runs the script in the workspace, with the view.
    fn run(&self, mounts: Vec<Mount>, network: Network, script: &str) -> Output {
        let view = View { mounts, placeholders: vec![], witnesses: vec![], writable: vec![] };
        let covers = ProcCovers::of_host();
        let around = Surroundings {
            network,
            disable_user_namespaces: self.bwrap.disable_userns,
            empty_file: &self.empty_file,
            covers: &covers,
            info_descriptor: Some(6),
        };
        let arguments = memory_file(&bwrap::arguments(&view, &around).unwrap());
        let info = memory_file(b"");
        let mut command = Command::new(&self.bwrap.path);
        command.args(["--args", "5", "--", "/bin/sh", "-c", script]);
        command.env_clear().current_dir(self.path("")).stdin(Stdio::null());
        let (from, to) = (arguments.as_raw_fd(), info.as_raw_fd());
        // SAFETY: two bare system calls on descriptors that live until the child has executed.
        unsafe {
            command.pre_exec(move || {
                if libc::dup2(from, 5) < 0 || libc::dup2(to, 6) < 0 {
                    return Err(std::io::Error::last_os_error());
                }
                Ok(())
            });
        }
        let output = command.output().unwrap();
        let mut told = String::new();
        let mut info = info;
        info.rewind().unwrap();
        info.read_to_string(&mut told).unwrap();
        assert!(told.contains("\"child-pid\""), "{told:?} {output:?}");
        output
    }

    /// What the script prints, errors included.
    fn says(&self, mounts: Vec<Mount>, script: &str) -> String {
        let output = self.run(mounts, Network::Isolated, &format!("exec 2>&1; {script}"));
        String::from_utf8(output.stdout).unwrap() + &String::from_utf8_lossy(&output.stderr)
    }
}

/// Above the numbers that the child's descriptors get.
fn memory_file(content: &[u8]) -> File {
    // SAFETY: makes a new descriptor; the name is a constant string.
    let low = unsafe { libc::memfd_create(c"arguments".as_ptr(), libc::MFD_CLOEXEC) };
    // SAFETY: as above; the copy is the one that is kept.
    let high = unsafe { libc::fcntl(low, libc::F_DUPFD_CLOEXEC, 20) };
    // SAFETY: both were just made and belong to nobody else.
    let (low, high) = unsafe { (OwnedFd::from_raw_fd(low), OwnedFd::from_raw_fd(high)) };
    drop(low);
    let mut file = File::from(high);
    file.write_all(content).unwrap();
    file.rewind().unwrap();
    file
}

#[test]
fn a_workspace_is_writable_and_nothing_else() {
    let Some(scene) = Scene::new() else { return };
    fs::create_dir(scene.path(".git")).unwrap();
    fs::create_dir(scene.path(".codex")).unwrap();
    fs::write(scene.path("secret"), "s3cret").unwrap();
    let mounts = vec![
        HOST,
        Mount::Devices,
        scene.workspace(),
        Mount::Bind { path: scene.path(".git"), access: Access::ReadOnly },
        Mount::MaskDirectory {
            path: scene.path(".codex"),
            mode: MaskMode::Listed,
            passages: vec![],
            files: vec![],
        },
        Mount::MaskFile(scene.path("secret")),
        Mount::Processes,
    ];
    let script = "echo new > made && cat made
        touch .git/x; mkdir .codex/x; ls -A .codex; cat secret; echo x > secret; rm secret
        mv .git g; touch ../beside; touch /usr/x; echo x > /dev/null && echo null
        echo x > /dev/shm/x && echo shm; ls /dev | wc -l; hostname other; echo $$";
    let said = scene.says(mounts, script);
    let lines: Vec<&str> = said.lines().collect();
    let expect = |part: &str| assert!(lines.iter().any(|l| l.contains(part)), "{part}: {said}");
    expect("new");
    expect("'.git/x': Read-only file system");
    expect("Read-only file system");
    expect("secret: Permission denied");
    expect("busy");
    expect("'../beside': Read-only file system");
    expect("'/usr/x': Read-only file system");
    expect("null");
    expect("shm");
    assert_eq!(lines.last(), Some(&"1"), "{said}");
    assert_eq!(fs::read_to_string(scene.path("made")).unwrap(), "new\n");
    assert_eq!(fs::read_to_string(scene.path("secret")).unwrap(), "s3cret");
    for absent in [".git/x", ".codex/x", "g", "../beside"] {
        assert!(!scene.path(absent).exists(), "{absent}");
    }
}

#[test]
fn something_open_below_something_closed() {
    let Some(scene) = Scene::new() else { return };
    fs::create_dir_all(scene.path("a/b/c/d")).unwrap();
    fs::write(scene.path("a/hidden"), "x").unwrap();
    fs::write(scene.path("a/note"), "to be read").unwrap();
    fs::create_dir_all(scene.path("shut/inner")).unwrap();
    let bind = |below: &str, access| Mount::Bind { path: scene.path(below), access };
    let mounts = vec![
        HOST,
        Mount::Devices,
        scene.workspace(),
        Mount::MaskDirectory {
            path: scene.path("a"),
            mode: MaskMode::Passage,
            passages: vec![scene.path("a/b")],
            files: vec![scene.path("a/note")],
        },
        bind("a/b", Access::Writable),
        Mount::Pin(scene.path("a/b/c")),
        bind("a/b/c/d", Access::ReadOnly),
        bind("a/note", Access::ReadOnly),
        Mount::MaskDirectory {
            path: scene.path("shut"),
            mode: MaskMode::Closed,
            passages: vec![],
            files: vec![],
        },
        Mount::Processes,
    ];
    let script = "touch a/b/made a/b/c/made; cat a/hidden; cat a/note; echo; ls a; touch a/new; touch a/b/c/d/x
        mv a/b/c a/b/moved; ls shut; cat shut/inner; cd a/b && pwd";
    let said = scene.says(mounts, script);
    assert!(scene.path("a/b/made").exists() && scene.path("a/b/c/made").exists(), "{said}");
    assert!(scene.path("a/b/c").exists() && !scene.path("a/b/c/d/x").exists(), "{said}");
    for part in [
        "a/hidden: No such file or directory",
        "to be read",
        "cannot open directory 'a': Permission denied",
        "'a/new': Read-only file system",
        "'a/b/c/d/x': Read-only file system",
        "Device or resource busy",
        "cannot open directory 'shut': Permission denied",
        "shut/inner: Permission denied",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(said.ends_with(&format!("{}\n", scene.path("a/b").display())), "{said}");
}

#[test]
fn an_empty_root_holds_what_was_put_there_and_cannot_be_written() {
    let Some(scene) = Scene::new() else { return };
    let mut mounts = vec![Mount::Root(Root::Empty)];
    let system = ["/bin", "/lib", "/lib64", "/etc", "/usr"].map(PathBuf::from);
    let (links, directories): (Vec<_>, Vec<_>) =
        system.into_iter().filter(|path| path.exists()).partition(|path| path.is_symlink());
    for path in links {
        let target = fs::read_link(&path).unwrap();
        mounts.push(Mount::Link { path, target });
    }
    mounts.push(Mount::Devices);
    for path in directories {
        mounts.push(Mount::Bind { path, access: Access::ReadOnly });
    }
    mounts.extend([scene.workspace(), Mount::Processes, Mount::SealRoot]);
    let said = scene.says(mounts, "touch here && echo made; echo x > /foo; ls -d /sys /var; ls /");
    assert!(said.contains("made") && said.contains("Read-only file system"), "{said}");
    for missing in ["/sys", "/var"] {
        assert!(said.contains(&format!("cannot access '{missing}'")), "{said}");
    }
    assert!(!said.lines().any(|line| line == "foo"), "{said}");
}

#[test]
fn proc_is_of_the_inside_and_changes_nothing() {
    let Some(scene) = Scene::new() else { return };
    let hostname = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let mounts = vec![HOST, Mount::Devices, scene.workspace(), Mount::Processes];
    let script = "echo /proc/[0-9]*; echo x > /proc/sys/kernel/hostname; ls -A /sys/firmware
        for f in /proc/sysrq-trigger /proc/mtrr; do [ -e $f ] && echo x > $f; done
        grep -E '^(Cap|NoNewPrivs)' /proc/self/status; unshare -U true; cat /proc/1/cmdline";
    let said = scene.says(mounts, script);
    assert!(said.starts_with("/proc/1 ") || said.starts_with("/proc/1\n"), "{said}");
    assert!(said.contains("/proc/sys/kernel/hostname: Read-only file system"), "{said}");
    let capabilities: Vec<&str> = said.lines().filter(|line| line.starts_with("Cap")).collect();
    assert_eq!(capabilities.len(), 5, "{said}");
    assert!(capabilities.iter().all(|line| line.ends_with("\t0000000000000000")), "{said}");
    assert!(said.contains("NoNewPrivs:\t1"), "{said}");
    if scene.bwrap.disable_userns {
        assert!(said.contains("unshare failed: No space left on device"), "{said}");
    }
    assert!(!said.contains("--ro-bind"), "the policy is not to be seen: {said}");
    assert_eq!(fs::read_to_string("/proc/sys/kernel/hostname").unwrap(), hostname);
    for path in ProcCovers::of_host().read_only {
        let mounts = vec![HOST, Mount::Devices, Mount::Processes];
        let said = scene.says(mounts, &format!("grep ' {} ' /proc/self/mountinfo", path.display()));
        let options = said.split(' ').nth(5).unwrap_or_default();
        assert!(options.split(',').any(|option| option == "ro"), "{path:?}: {said}");
    }
}

#[test]
fn the_network_is_the_hosts_or_none() {
    let Some(scene) = Scene::new() else { return };
    let script = "readlink /proc/self/ns/net /proc/self/ns/uts /proc/self/ns/ipc";
    let host = Command::new("/bin/sh").args(["-c", script]).output().unwrap().stdout;
    let host = String::from_utf8(host).unwrap();
    let host: Vec<&str> = host.lines().collect();
    for (network, shared) in [(Network::Host, true), (Network::Isolated, false)] {
        let output = scene.run(vec![HOST, Mount::Devices, Mount::Processes], network, script);
        let inside = String::from_utf8(output.stdout).unwrap();
        let inside: Vec<&str> = inside.lines().collect();
        assert_eq!(inside.len(), 3);
        assert_eq!(inside[0] == host[0], shared, "{inside:?}");
        assert!(inside[1] != host[1] && inside[2] != host[2], "{inside:?}");
    }
    assert_eq!(scene.run(vec![HOST], Network::Host, "exit 7").status.code(), Some(7));
}

#[test]
fn the_systems_bubblewrap_is_found_and_known() {
    let Some(found) = system() else { return };
    assert!(found.version.starts_with("bubblewrap "), "{found:?}");
    assert!(found.path.is_absolute() && Path::new(&found.path).exists());
}
