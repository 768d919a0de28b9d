//! What this host can enforce with, found out once, by trying. Each try is short and its result is
//! a plain fact; [`verdict`] makes sentences and a choice of them.

mod own;
mod verdict;

use std::fs;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

pub use own::{Own, Step};
pub use verdict::{Engine, Verdict, choose};

use super::bwrap::{self, Bwrap, Places};
use super::{bounded, landlock};

/// How long one try may take. A host on which this takes longer could not run commands either.
pub const TRY_MAX: Duration = Duration::from_secs(5);

/// A failed start asks again, but not more often than this.
pub const PROBE_AGAIN_AFTER: Duration = Duration::from_secs(10);

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// The bubblewrap that may be used, or why there is none.
    pub bwrap: Result<Bwrap, String>,
    /// What came of making namespaces with it; the end of its own words if it failed.
    pub bwrap_namespaces: Result<(), String>,
    /// What we can do ourselves.
    pub own: Own,
    /// Version of Landlock, 0 if there is none.
    pub landlock: u32,
    /// Whether a filter can ask us (seccomp user notification).
    pub notification: bool,
    /// The circumstances.
    pub host: HostFacts,
}

/// Circumstances that explain why something does not work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HostFacts {
    /// The server runs as root.
    pub root: bool,
    /// The first Windows Subsystem for Linux, which has no namespaces.
    pub wsl1: bool,
    /// The server runs in a container.
    pub container: bool,
    /// `kernel.apparmor_restrict_unprivileged_userns` is on.
    pub apparmor_restricts: bool,
    /// `user.max_user_namespaces` is 0.
    pub user_namespaces_limit_is_zero: bool,
    /// `kernel.unprivileged_userns_clone` is 0 (Debian's kernels).
    pub unprivileged_clone_is_off: bool,
}

impl Facts {
    /// Tries everything; takes a few dozen milliseconds, and two seconds at worst.
    pub fn find(places: &Places) -> Facts {
        let found = bwrap::find(places, TRY_MAX).map_err(|rejected| {
            let sentences: Vec<String> = rejected.iter().map(ToString::to_string).collect();
            sentences.join("; ")
        });
        let bwrap_namespaces = match &found {
            Ok(bwrap) => try_bwrap(&bwrap.path),
            Err(_) => Err("there is none".to_owned()),
        };
        Facts {
            bwrap: found,
            bwrap_namespaces,
            own: own::try_own(TRY_MAX),
            landlock: landlock::abi(),
            notification: has_notification(),
            host: HostFacts::find(),
        }
    }
}

/// The same namespaces and a `/proc`, as for a command.
fn try_bwrap(path: &Path) -> Result<(), String> {
    const ARGUMENTS: &[&str] = &[
        "--unshare-user",
        "--unshare-pid",
        "--unshare-ipc",
        "--unshare-uts",
        "--unshare-net",
        "--die-with-parent",
        "--ro-bind",
        "/",
        "/",
        "--dev",
        "/dev",
        "--proc",
        "/proc",
        "--ro-bind",
        "/proc/sys",
        "/proc/sys",
        "--cap-drop",
        "ALL",
        "--",
        "/bin/true",
    ];
    let said = bounded::ask(path, ARGUMENTS, TRY_MAX).map_err(|error| error.to_string())?;
    if said.status.success() {
        return Ok(());
    }
    let last = said.errors.trim_end().rsplit('\n').next().unwrap_or_default();
    let last: String = last.chars().take(200).collect();
    Err(if last.is_empty() { said.status.to_string() } else { last })
}

impl HostFacts {
    fn find() -> HostFacts {
        let setting = |path: &str| fs::read_to_string(path).ok();
        let is = |path: &str, value: &str| setting(path).is_some_and(|text| text.trim() == value);
        const CONTAINERS: &[&str] =
            &["/.dockerenv", "/run/.containerenv", "/run/systemd/container"];
        HostFacts {
            // SAFETY: asks for a number, cannot fail.
            root: unsafe { libc::geteuid() } == 0,
            wsl1: setting("/proc/version").is_some_and(|version| is_wsl1(&version)),
            container: CONTAINERS.iter().any(|path| Path::new(path).exists())
                || std::env::var_os("KUBERNETES_SERVICE_HOST").is_some(),
            apparmor_restricts: is("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1"),
            user_namespaces_limit_is_zero: is("/proc/sys/user/max_user_namespaces", "0"),
            unprivileged_clone_is_off: is("/proc/sys/kernel/unprivileged_userns_clone", "0"),
        }
    }
}

/// The second WSL calls itself `microsoft-standard`; the first says `Microsoft`, or `WSL1`.
fn is_wsl1(version: &str) -> bool {
    let version = version.to_lowercase();
    version.contains("wsl1")
        || (version.contains("microsoft") && !version.contains("microsoft-standard"))
}

fn has_notification() -> bool {
    const SECCOMP_GET_NOTIF_SIZES: u64 = 3;
    let mut sizes = [0_u16; 3];
    // SAFETY: the kernel writes three 16-bit numbers.
    let value = unsafe {
        libc::syscall(libc::SYS_seccomp, SECCOMP_GET_NOTIF_SIZES, 0_u64, sizes.as_mut_ptr())
    };
    value == 0
}

/// The facts, found at the first question and again after a failure.
#[derive(Debug)]
pub struct Probe {
    places: Places,
    found: Mutex<Option<(Instant, Facts)>>,
}

impl Probe {
    /// Nothing is tried yet.
    pub fn new(places: Places) -> Probe {
        Probe { places, found: Mutex::new(None) }
    }

    /// What is known; the first to ask waits for the tries.
    pub fn facts(&self) -> Facts {
        self.facts_younger_than(None)
    }

    /// A command could not be started as the facts had promised: they may have changed. Tried again
    /// unless that was just done.
    pub fn after_failure(&self) -> Facts {
        self.facts_younger_than(Some(PROBE_AGAIN_AFTER))
    }

    fn facts_younger_than(&self, age: Option<Duration>) -> Facts {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((when, facts)) = found.as_ref()
            && age.is_none_or(|age| when.elapsed() < age)
        {
            return facts.clone();
        }
        let facts = Facts::find(&self.places);
        *found = Some((Instant::now(), facts.clone()));
        facts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_two_subsystems_for_linux() {
        for (version, expected) in [
            ("Linux version 4.4.0-19041-Microsoft (Microsoft@Microsoft.com)", true),
            ("Linux version 5.10.0 WSL1-patched", true),
            ("Linux version 5.15.90.1-microsoft-standard-WSL2", false),
            ("Linux version 6.18.44 (gcc 12)", false),
            ("", false),
        ] {
            assert_eq!(is_wsl1(version), expected, "{version}");
        }
    }

    #[test]
    fn facts_are_found_once_and_again_after_a_while() {
        let probe = Probe::new(Places::default());
        let first = probe.facts();
        let when = |probe: &Probe| probe.found.lock().unwrap().as_ref().map(|(when, _)| *when);
        let began = when(&probe);
        assert_eq!(probe.facts(), first);
        assert_eq!(when(&probe), began);
        assert_eq!(probe.facts_younger_than(Some(Duration::from_secs(3600))), first);
        assert_eq!(when(&probe), began);
        probe.facts_younger_than(Some(Duration::ZERO));
        assert_ne!(when(&probe), began);
    }
}
