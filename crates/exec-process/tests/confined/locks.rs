//! What a confined command cannot do, whatever it sees.

use exec_process::Limits;
use exec_process::limits::Counted;
use exec_process::sys::Containment;
use exec_sandbox::linux::builtin::Options;
use exec_sandbox::plan::{Access, Filter, Mount, Network};

use crate::bench::{Bench, Scratch, ended};

crate::scenarios! {
    nothing_is_left_of_privileges,
    namespaces_cannot_be_nested,
    the_network_is_its_own_or_the_hosts,
    landlock_holds_where_a_mount_does_not,
    limits_are_set,
    every_containment_holds_it,
    the_first_process_cannot_be_taken_over,
}

async fn nothing_is_left_of_privileges() {
    let mut bench = Bench::read_only();
    bench.plan.filter = Filter::Restricted;
    let script = "grep -E '^(Cap|NoNew|Seccomp:|Sig(Blk|Ign))' /proc/self/status | tr -d '\\t'; ulimit -c; ulimit -Hc; id -u; id -g; umask";
    let result = bench.shell(script).await;
    let none = "0000000000000000";
    // SAFETY: these calls take no arguments.
    let (uid, gid) = unsafe { (libc::geteuid(), libc::getegid()) };
    let umask = std::process::Command::new("/bin/sh").args(["-c", "umask"]).output().unwrap();
    let umask = String::from_utf8(umask.stdout).unwrap();
    let expected = format!(
        "SigBlk:{none}\nSigIgn:{none}\nCapInh:{none}\nCapPrm:{none}\nCapEff:{none}\nCapBnd:{none}\n\
         CapAmb:{none}\nNoNewPrivs:1\nSeccomp:2\n0\n0\n{uid}\n{gid}\n{umask}"
    );
    assert_eq!(result.stdout, expected, "{}", result.stderr);
}

async fn namespaces_cannot_be_nested() {
    // By the limit alone, and with the filter.
    for filter in [Filter::None, Filter::NetworkOpen, Filter::Restricted] {
        let mut bench = Bench::read_only();
        bench.plan.filter = filter;
        let result = bench.shell("unshare -U true && echo nested").await;
        assert_eq!((result.stdout.as_str(), result.code != 0), ("", true), "{filter:?} {result:?}");
    }
    let mut bench = Bench::read_only();
    bench.plan.filter = Filter::NetworkOpen;
    let nesting = exec_sandbox::linux::seccomp::Nesting::Allowed;
    let options = Options { nesting, ..Options::default() };
    let argv = ["/bin/sh", "-c", "unshare -U true && echo nested"];
    let process = bench.start_with(&argv, &options).await.unwrap();
    let result = ended(&process).await;
    assert_eq!(result.stdout, "nested\n", "{result:?}");
}

async fn the_network_is_its_own_or_the_hosts() {
    let mut bench = Bench::read_only();
    let script = "readlink /proc/self/ns/net; tail -n +3 /proc/net/dev | cut -d: -f1; \
        python3 -c 'import socket; s = socket.create_server((\"127.0.0.1\", 0)); socket.create_connection(s.getsockname()); print(\"looped\")'";
    let result = bench.shell(script).await;
    let own = std::fs::read_link("/proc/self/ns/net").unwrap();
    let lines: Vec<&str> = result.stdout.lines().map(str::trim).collect();
    assert_ne!(lines[0], own.to_str().unwrap());
    assert_eq!(lines[1..], ["lo", "looped"], "{result:?}");
    bench.plan.network = Network::Host;
    let result = bench.shell("readlink /proc/self/ns/net").await;
    assert_eq!(result.stdout.trim(), own.to_str().unwrap());
}

async fn landlock_holds_where_a_mount_does_not() {
    let scratch = Scratch::new();
    let (open, shut) = (scratch.path.join("open"), scratch.path.join("shut"));
    std::fs::create_dir(&open).unwrap();
    std::fs::create_dir(&shut).unwrap();
    let mounts = [Mount::Bind { path: scratch.path.clone(), access: Access::Writable }];
    let bench = Bench::read_only().mount(mounts).writable(&[&open]).cwd(&scratch.path);
    let result = bench.shell("echo x > open/a && mkdir open/d && mv open/a open/d/b && cat open/d/b; echo x > shut/a; mkdir shut/b").await;
    assert_eq!(result.stdout, "x\n", "{result:?}");
    if result.stderr.is_empty() {
        return exec_testkit::skip("the second layer: no Landlock in this kernel");
    }
    assert_eq!(result.stderr.matches("Permission denied").count(), 2, "{result:?}");
}

async fn limits_are_set() {
    let mut bench = Bench::read_only();
    bench.limits = Limits {
        memory_bytes: Some(64 << 20),
        cpu: Some(std::time::Duration::from_secs(1)),
        file_bytes: Some(4096),
        open_files: Some(77),
        ..Limits::default()
    };
    let controllers = bench.containment.controllers();
    let limits = bench.limits.of_each(controllers, Counted::OwnNamespace).unwrap();
    let options = Options { limits: &limits, ..Options::default() };
    let script = "ulimit -n; ulimit -Hn; ulimit -d; cd $DIR; head -c 10000 /dev/zero > x; wc -c < x; \
        python3 -c 'bytearray(100 << 20)' 2> /dev/null || echo no memory; \
        exec python3 -c 'while True: pass'";
    for confined in [true, false] {
        let scratch = Scratch::new();
        let inside = if confined { "/dev/shm".into() } else { scratch.path.display().to_string() };
        let script = script.replace("$DIR", &inside);
        let argv = ["/bin/sh", "-c", &script];
        let process = match confined {
            true => bench.start_with(&argv, &options).await.unwrap(),
            false => bench.start_bare(&argv).unwrap(),
        };
        let result = ended(&process).await;
        assert_eq!(result.stdout, "77\n77\n65536\n4096\nno memory\n", "{confined} {result:?}");
        // SIGXCPU, after the second that it may take.
        assert_eq!(result.code, 128 + 24, "{confined} {result:?}");
    }
}

async fn every_containment_holds_it() {
    let mut bench = Bench::read_only();
    bench.containment = Containment::tag_only();
    let process = bench.start(&["/bin/sh", "-c", "echo ready; sleep 100"]).await.unwrap();
    bench.until(&process, "ready").await;
    assert!(process.terminate());
    assert_eq!(ended(&process).await.code, 137);
}

async fn the_first_process_cannot_be_taken_over() {
    let script = "cat /proc/1/maps; ls /proc/1/fd; kill -KILL 1; kill -STOP 1; kill -TERM 1; sleep 0.1; echo alive";
    let script = format!("trap 'echo forwarded' TERM; {script}");
    let result = Bench::read_only().shell(&script).await;
    assert!(result.stdout.ends_with("alive\n"), "{result:?}");
    assert!(!result.stdout.contains("r-xp"), "{result:?}");
    assert!(result.stderr.contains("Permission denied"), "{result:?}");
}
