//! Landlock inside the namespaces: should a mount ever be wrong, writing still works only below the
//! plan's writable paths. It never is the only layer.

use std::sync::OnceLock;

use super::inner::{Script, Step, c_path};
use crate::launch::Failure;
use crate::plan::{Mount, View};

/// Rights on files that change something, by the version of the interface that has them.
const WRITE_FILE: u64 = 1 << 1;
const CHANGE_DIRECTORIES: u64 = (1 << 13) - (1 << 4);
const REFER: u64 = 1 << 13;
const TRUNCATE: u64 = 1 << 14;
/// Abstract sockets and signals, since version 6.
const SCOPES: u64 = 1 | 1 << 1;

/// Before version 2 nothing could be moved from one directory to another.
const VERSION_MIN: u32 = 2;

/// Which version of Landlock this kernel has; 0 for none.
pub(crate) fn version() -> u32 {
    static VERSION: OnceLock<u32> = OnceLock::new();
    const ASK_VERSION: u32 = 1;
    *VERSION.get_or_init(|| {
        let null = std::ptr::null::<libc::c_void>();
        // SAFETY: with this flag the call takes no ruleset.
        let answer =
            unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, null, 0_usize, ASK_VERSION) };
        u32::try_from(answer).unwrap_or(0)
    })
}

/// Adds the steps that this version takes.
pub(crate) fn push(
    script: &mut Script,
    view: &View,
    terminal: bool,
    version: u32,
) -> Result<(), Failure> {
    if version < VERSION_MIN {
        return Ok(());
    }
    let truncate = if version >= 3 { TRUNCATE } else { 0 };
    let change = WRITE_FILE | truncate;
    let all = change | CHANGE_DIRECTORIES | REFER;
    let scopes = if version >= 6 { SCOPES } else { 0 };
    script.push(Step::Landlock { file_rights: all, scopes });
    for path in &view.writable {
        script.push(Step::LandlockAllow { path: &c_path(path)?, rights: all });
    }
    // The private parts of the view are writable as far as they can be.
    if view.mounts.contains(&Mount::Devices) {
        script.push(Step::LandlockAllow { path: c"/dev", rights: all });
    }
    if view.mounts.contains(&Mount::Processes) {
        script.push(Step::LandlockAllow { path: c"/proc", rights: change });
    }
    if terminal {
        // It comes from the host's /dev/pts, so no path in the view leads to it.
        script.push(Step::LandlockAllowDescriptor { descriptor: 0, rights: change });
    }
    script.push(Step::LandlockEnforce);
    Ok(())
}
