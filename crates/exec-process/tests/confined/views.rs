//! What a confined command sees of the file system, and what it can change.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;

use exec_process::Error;
use exec_sandbox::plan::{Access, MaskMode, Mount, Root};

use crate::bench::{Bench, Scratch};

crate::scenarios! {
    a_read_only_host_cannot_be_changed,
    a_workspace_is_writable_but_for_its_carve_outs,
    a_mask_hides_and_lets_pass_what_is_reopened,
    a_pinned_directory_stays_where_it_is,
    a_pinned_link_stays_what_it_is,
    an_empty_root_has_what_was_put_there_and_is_sealed,
    devices_are_the_harmless_ones,
    the_machines_part_of_proc_is_closed,
    a_writable_host_keeps_its_kernel_closed,
    what_was_replaced_since_the_plan_is_refused,
    the_hosts_tree_is_gone,
}

fn bind(path: &Path, access: Access) -> Mount {
    Mount::Bind { path: path.to_owned(), access }
}

fn mask(path: &Path, mode: MaskMode, passages: &[&Path], files: &[&Path]) -> Mount {
    let own = |paths: &[&Path]| paths.iter().map(|path| path.to_path_buf()).collect();
    Mount::MaskDirectory { path: path.to_owned(), mode, passages: own(passages), files: own(files) }
}

async fn a_read_only_host_cannot_be_changed() {
    let scratch = Scratch::new();
    let file = scratch.path.join("file");
    fs::write(&file, "kept").unwrap();
    let script = format!(
        "cat {0}; echo x > {0}; rm {0}; mkdir {0}.d; chmod 777 {0}; touch {0}; \
         echo x > /sys/kernel/notes; mkdir /sys/fs/cgroup/x; exit 0",
        file.display()
    );
    let result = Bench::read_only().shell(&script).await;
    assert_eq!(result.stdout, "kept");
    assert_eq!(result.stderr.matches("Read-only file system").count(), 7, "{}", result.stderr);
    assert_eq!(fs::read_to_string(&file).unwrap(), "kept");
    // No mount of the host is writable, at any depth, but for the private ones.
    let result = Bench::read_only().shell("cat /proc/self/mountinfo").await;
    for line in result.stdout.lines() {
        let fields: Vec<&str> = line.split(' ').collect();
        let (point, flags) = (fields[4], fields[5]);
        let is_private = ["/dev", "/proc"].iter().any(|own| point.starts_with(own));
        assert!(is_private || flags.starts_with("ro,"), "{line}");
        assert!(flags.contains("nosuid"), "{line}");
        assert!(is_private || flags.contains("nodev"), "{line}");
    }
}

async fn a_workspace_is_writable_but_for_its_carve_outs() {
    let scratch = Scratch::new();
    let root = &scratch.path;
    for directory in [".git", "docs/open", "src"] {
        fs::create_dir_all(root.join(directory)).unwrap();
    }
    fs::write(root.join(".git/config"), "kept").unwrap();
    let bench = Bench::read_only()
        .mount([
            bind(root, Access::Writable),
            bind(&root.join(".git"), Access::ReadOnly),
            bind(&root.join("docs"), Access::ReadOnly),
            bind(&root.join("docs/open"), Access::Writable),
        ])
        .writable(&[root])
        .cwd(root);
    let script = "echo new > src/a && mkdir -p deep/er && mv src/a deep/er/b && ln deep/er/b c && \
        echo in > docs/open/x && cat deep/er/b c docs/open/x; \
        echo x > .git/config; mv .git gone; rm -rf .git; echo x > docs/y; mv docs gone; echo x > /etc/x; exit 0";
    let result = bench.shell(script).await;
    assert_eq!(result.stdout, "new\nnew\nin\n", "{}", result.stderr);
    assert_eq!(result.stderr.matches("busy").count(), 2, "{}", result.stderr);
    assert_eq!(result.stderr.matches("Read-only").count(), 4, "{}", result.stderr);
    assert_eq!(fs::read_to_string(root.join(".git/config")).unwrap(), "kept");
    assert_eq!(fs::read_to_string(root.join("docs/open/x")).unwrap(), "in\n");
}

async fn a_mask_hides_and_lets_pass_what_is_reopened() {
    let scratch = Scratch::new();
    let root = &scratch.path;
    for directory in ["a/b/c", "a/other", "shut", "empty"] {
        fs::create_dir_all(root.join(directory)).unwrap();
    }
    for file in ["a/secret", "a/b/file", "a/single", "shut/secret", "plain"] {
        fs::write(root.join(file), "secret").unwrap();
    }
    let (a, b, single) = (root.join("a"), root.join("a/b"), root.join("a/single"));
    let bench = Bench::read_only()
        .mount([
            bind(root, Access::Writable),
            mask(&a, MaskMode::Passage, &[&b], &[&single]),
            bind(&b, Access::Writable),
            bind(&single, Access::ReadOnly),
            mask(&root.join("shut"), MaskMode::Closed, &[], &[]),
            mask(&root.join("empty"), MaskMode::Listed, &[], &[]),
            Mount::MaskFile(root.join("plain")),
        ])
        .writable(&[root])
        .cwd(root);
    let script = "cat a/b/file a/single; echo; echo new > a/b/new && ls empty; \
        ls a; ls shut; cat a/secret; cat shut/secret; cat plain; mkdir empty/x; echo x > a/y; \
        chmod 777 shut; echo x > plain; rm plain; mv shut z; exit 0";
    let result = bench.shell(script).await;
    assert_eq!(result.stdout, "secretsecret\n", "{}", result.stderr);
    let count = |text: &str| result.stderr.matches(text).count();
    assert_eq!(count("Permission denied"), 4, "{}", result.stderr);
    assert_eq!(count("No such file"), 1, "{}", result.stderr);
    assert_eq!(count("Read-only file system"), 4, "{}", result.stderr);
    assert_eq!(count("busy"), 2, "{}", result.stderr);
    assert_eq!(fs::read_to_string(root.join("a/b/new")).unwrap(), "new\n");
    assert_eq!(fs::read_dir(root.join("empty")).unwrap().count(), 0);
}

async fn a_pinned_directory_stays_where_it_is() {
    let scratch = Scratch::new();
    let root = &scratch.path;
    fs::create_dir_all(root.join("up/held")).unwrap();
    let bench = Bench::read_only()
        .mount([
            bind(root, Access::Writable),
            Mount::Pin(root.join("up")),
            bind(&root.join("up/held"), Access::ReadOnly),
        ])
        .writable(&[root])
        .cwd(root);
    let result =
        bench.shell("echo x > up/file && cat up/file; mv up away; echo x > up/held/y").await;
    assert_eq!(result.stdout, "x\n");
    assert!(result.stderr.contains("busy") && result.stderr.contains("Read-only"), "{result:?}");
}

async fn a_pinned_link_stays_what_it_is() {
    let scratch = Scratch::new();
    let root = &scratch.path;
    fs::create_dir(root.join("target")).unwrap();
    fs::write(root.join("target/file"), "through").unwrap();
    symlink("target", root.join("link")).unwrap();
    let bench = Bench::read_only()
        .mount([bind(root, Access::Writable), Mount::PinLink(root.join("link"))])
        .writable(&[root])
        .cwd(root);
    let script = "cat link/file; rm link; mv link away; ln -sfn /etc link; exit 0";
    let result = bench.shell(script).await;
    assert_eq!(result.stdout, "through");
    assert_eq!(result.stderr.matches("busy").count(), 3, "{result:?}");
}

async fn an_empty_root_has_what_was_put_there_and_is_sealed() {
    let scratch = Scratch::new();
    let inside = scratch.path.join("work");
    fs::create_dir(&inside).unwrap();
    let mut mounts = vec![Mount::Root(Root::Empty)];
    for name in ["bin", "sbin", "lib", "lib64"] {
        let path = Path::new("/").join(name);
        match fs::read_link(&path) {
            Ok(target) => mounts.push(Mount::Link { path, target }),
            Err(_) if path.exists() => mounts.push(bind(&path, Access::ReadOnly)),
            Err(_) => {}
        }
    }
    mounts.extend([
        Mount::Devices,
        Mount::Processes,
        bind(Path::new("/etc/passwd"), Access::ReadOnly),
        bind(Path::new("/usr"), Access::ReadOnly),
        bind(&inside, Access::Writable),
        Mount::SealRoot,
    ]);
    let bench = Bench::with(mounts).writable(&[&inside]).cwd(&inside);
    let script = "echo x > file; cat file; ls /; head -c4 /etc/passwd; echo; ls /etc; \
        echo x > /new; mkdir -p /a/b; ls /home; exit 0";
    let result = bench.shell(script).await;
    let top = scratch.path.components().nth(1).unwrap().as_os_str().to_str().unwrap();
    let listed = result.stdout.lines().collect::<Vec<_>>();
    assert_eq!(listed[0], "x", "{result:?}");
    for name in ["bin", "dev", "etc", "lib", "proc", "usr", top] {
        assert!(listed.contains(&name), "{name}: {result:?}");
    }
    assert!(listed.contains(&"root") && listed.contains(&"passwd"), "{result:?}");
    assert!(!listed.contains(&"home") && !listed.contains(&"sys"), "{result:?}");
    assert_eq!(result.stderr.matches("Read-only").count(), 2, "{result:?}");
    assert_eq!(fs::read_to_string(inside.join("file")).unwrap(), "x\n");
}

async fn devices_are_the_harmless_ones() {
    let script = "ls /dev; echo x > /dev/null; head -c3 /dev/zero | od -An -tx1; \
        head -c1 /dev/urandom | wc -c; echo x > /dev/full; echo s > /dev/shm/x && cat /dev/shm/x; \
        echo x > /dev/new; readlink /dev/ptmx; python3 -c 'import pty; print(pty.openpty() != ())'; exit 0";
    let result = Bench::read_only().shell(script).await;
    let mut lines = result.stdout.lines();
    let listed: Vec<&str> = lines.by_ref().take(14).collect();
    assert_eq!(
        listed,
        "core fd full null ptmx pts random shm stderr stdin stdout tty urandom zero"
            .split(' ')
            .collect::<Vec<_>>()
    );
    assert_eq!(
        lines.collect::<Vec<_>>(),
        [" 00 00 00", "1", "s", "pts/ptmx", "True"],
        "{result:?}"
    );
    assert!(result.stderr.contains("echo: I/O error"), "{result:?}");
    assert!(result.stderr.contains("/dev/new: Read-only"), "{result:?}");
}

async fn the_machines_part_of_proc_is_closed() {
    let script = "echo $$; ls -d /proc/[0-9]* | wc -l; echo x > /proc/sys/kernel/core_pattern; \
        echo h > /proc/sysrq-trigger; for f in kcore keys timer_list; do head -c1 /proc/$f; done; \
        ls /proc/scsi /proc/acpi /sys/firmware 2>/dev/null | grep -v : ; echo 5 > /proc/self/oom_score_adj && cat /proc/self/oom_score_adj; \
        cat /proc/1/cmdline | tr '\\0' ' '; readlink /proc/1/exe; cat /proc/1/environ; exit 0";
    let result = Bench::read_only().shell(script).await;
    let lines: Vec<&str> = result.stdout.lines().collect();
    assert_eq!(lines[0], "2", "{result:?}");
    assert!(lines[1].parse::<u32>().unwrap() <= 4, "{result:?}");
    assert!(lines.contains(&"5"), "{result:?}");
    assert!(result.stderr.contains("core_pattern: Read-only"), "{result:?}");
    assert!(!result.stdout.contains("memfd") && !result.stdout.contains("PATH"), "{result:?}");
    let writable = Bench::read_only()
        .shell("find /proc -path '/proc/[0-9]*' -prune -o -type f -writable -print 2>/dev/null | head -5")
        .await;
    let mounted = Bench::read_only().shell("grep ' /proc/sys ' /proc/self/mountinfo").await;
    assert!(mounted.stdout.contains(" ro,"), "{mounted:?}");
    assert_eq!(writable.stdout, "", "{writable:?}");
}

async fn a_writable_host_keeps_its_kernel_closed() {
    let scratch = Scratch::new();
    let bench = Bench::with([
        Mount::Root(Root::HostWritable),
        Mount::Devices,
        Mount::SharedMemory,
        Mount::Processes,
        mask(Path::new("/etc"), MaskMode::Closed, &[], &[]),
    ])
    .writable(&[Path::new("/")])
    .cwd(&scratch.path);
    let script = "echo x > file && cat file; ls /etc; mkdir /sys/fs/cgroup/x; grep -c ' /sys ro' /proc/self/mountinfo; \
        grep ' /sys ' /proc/self/mountinfo | grep -c ' ro,'; exit 0";
    let result = bench.shell(script).await;
    assert!(result.stdout.starts_with("x\n"), "{result:?}");
    assert!(!result.stdout.ends_with("0\n"), "{result:?}");
    assert!(result.stderr.contains("/etc': Permission denied"), "{result:?}");
    assert_eq!(fs::read_to_string(scratch.path.join("file")).unwrap(), "x\n");
}

async fn what_was_replaced_since_the_plan_is_refused() {
    let scratch = Scratch::new();
    let (root, other) = (scratch.path.join("root"), scratch.path.join("other"));
    fs::create_dir(&root).unwrap();
    fs::write(&other, "").unwrap();
    let inode = fs::metadata(&root).unwrap().ino();
    let file = fs::metadata(&other).unwrap().ino();
    let mounts = [bind(&root, Access::Writable)];
    let good = Bench::read_only().mount(mounts.clone()).witness(&root, inode).witness(&other, file);
    assert_eq!(good.shell("exit 4").await.code, 4);
    for (path, inode) in [(&root, inode + 1), (&other, file + 1)] {
        let bad = Bench::read_only().mount(mounts.clone()).witness(path, inode);
        let error = bad.start(&["/bin/true"]).await.unwrap_err();
        assert!(matches!(error, Error::Confine(_)), "{error:?}");
        assert!(error.to_string().contains("it is not what it was"), "{error}");
    }
    // A link in place of a directory is not followed.
    fs::rename(&root, scratch.path.join("moved")).unwrap();
    symlink(scratch.path.join("moved"), &root).unwrap();
    let error = good.start(&["/bin/true"]).await.unwrap_err();
    assert!(matches!(error, Error::Confine(_)), "{error:?}");
    let through = Bench::read_only().mount([bind(&root.join("x"), Access::Writable)]);
    let error = through.start(&["/bin/true"]).await.unwrap_err();
    assert!(error.to_string().contains("symbolic links"), "{error}");
}

async fn the_hosts_tree_is_gone() {
    let scratch = Scratch::new();
    fs::write(scratch.path.join("secret"), "secret").unwrap();
    let bench = Bench::read_only().mount([mask(&scratch.path, MaskMode::Closed, &[], &[])]);
    let script = format!(
        "for root in / /proc/1/root /proc/self/root /proc/1/cwd; do cat $root{}/secret; done; \
         ls /proc/self/fd; exit 0",
        scratch.path.display()
    );
    let result = bench.shell(&script).await;
    assert!(!result.stdout.contains("secret"), "{result:?}");
    // 3 is that of `ls` itself.
    assert_eq!(result.stdout, "0\n1\n2\n3\n", "{result:?}");
}
