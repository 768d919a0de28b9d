//! Any sandbox intent, bound to a small host, as a plan.

#![allow(unreachable_pub, reason = "public to the fuzz target, private to the tests")]

use std::path::Path;

use exec_protocol::sandbox::SandboxContext;
use exec_sandbox::explain::explain;
use exec_sandbox::plan::{Access as Mounted, MaskMode, Mount, Plan, Root};
use exec_sandbox::policy::{Access, Facts, Policy, Table};

/// An intent is refused in words, or its plan mounts nothing that its policy does not allow.
pub fn sandbox(data: &[u8]) {
    let Ok(intent) = serde_json::from_slice::<SandboxContext>(data) else { return };
    let host = host();
    let facts = Facts {
        cwd: "/srv/repo".into(),
        tmpdir: Some("/var/tmp".into()),
        home: Some("/users/user".into()),
        hidden: vec!["/run/exec-server".into()],
        readable: Vec::new(),
    };
    let built = Policy::resolve(&intent, &facts, &host)
        .and_then(|policy| Ok((Plan::build(&policy, &host)?, policy)));
    let (plan, policy) = match built {
        Ok(built) => built,
        Err(refusal) => {
            assert!(!refusal.to_string().is_empty(), "a refusal says why");
            assert!(matches!(refusal.code(), -32602 | -32603));
            return;
        }
    };
    assert!(!intent.restricts() || plan.confines(), "what restricts is confined");
    assert_eq!(policy.full_write(), !policy.restricts_files());
    assert!(!policy.full_write() || policy.full_read());
    assert!(!explain(&policy, &plan).is_empty());
    let Some(view) = &plan.view else { return };
    let empty = view.mounts[0] == Mount::Root(Root::Empty);
    assert_eq!(view.mounts.last() == Some(&Mount::SealRoot), empty, "an empty root is sealed");
    if !policy.restricts_files() {
        return;
    }
    for mount in &view.mounts {
        match mount {
            Mount::Bind { path, access: Mounted::Writable } | Mount::Pin(path) => {
                decides(&policy, path, Access::Write);
            }
            Mount::Bind { path, access: Mounted::ReadOnly }
            | Mount::MaskDirectory { path, mode: MaskMode::Listed, .. } => {
                decides(&policy, path, Access::Read);
            }
            Mount::MaskFile(path) | Mount::MaskDirectory { path, .. } => {
                decides(&policy, path, Access::Deny);
            }
            Mount::Root(_)
            | Mount::Devices
            | Mount::SharedMemory
            | Mount::Processes
            | Mount::SealRoot
            | Mount::PinLink(_)
            | Mount::Link { .. } => {}
        }
    }
    decides(&policy, Path::new("/run/exec-server/socket"), Access::Deny);
}

fn decides(policy: &Policy, path: &Path, access: Access) {
    let decision = policy.decide(path);
    assert_eq!(decision.access, access, "{}: {:?}", path.display(), decision.reason);
}

fn host() -> Table {
    Table::new()
        .directory("/usr/bin")
        .link("/bin", "usr/bin")
        .file("/etc/passwd", "")
        .directory("/dev/shm")
        .directory("/proc/sys")
        .directory("/tmp/x")
        .directory("/var/tmp")
        .file("/users/user/.ssh/id", "")
        .socket("/run/exec-server/socket")
        .file("/srv/repo/.git", "gitdir: /srv/main/.git/worktrees/repo\n")
        .file("/srv/repo/secrets/key.env", "")
        .file("/srv/repo/docs/a/b/c.txt", "")
        .link("/srv/repo/.codex", "docs/a")
        .link("/srv/repo/link", "/etc")
        .link("/srv/repo/loop", "loop")
        .file("/srv/main/.git/worktrees/repo/commondir", "../..")
        .directory("/srv/main/.git/hooks")
        .directory("/srv/extra/no/yes")
        .link("/srv/linked", "extra/no")
}
