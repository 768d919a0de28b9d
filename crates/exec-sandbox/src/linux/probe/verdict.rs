//! Facts as sentences, and the engine that they allow. Pure.

use super::{Facts, HostFacts, Step};

/// A way to confine a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    /// Namespaces made by bubblewrap.
    Bwrap,
    /// Namespaces made by ourselves.
    Builtin,
    /// No namespaces: Landlock and a filter. Weaker, so never chosen, only ordered.
    LandlockOnly,
}

impl Engine {
    /// Its name in configuration and answers.
    pub fn as_str(self) -> &'static str {
        match self {
            Engine::Bwrap => "bwrap",
            Engine::Builtin => "builtin",
            Engine::LandlockOnly => "landlock",
        }
    }
}

/// Whether an engine can be used here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It can.
    Usable,
    /// It cannot.
    Unusable {
        /// Why, as a sentence.
        why: String,
        /// What somebody could do about it, as a sentence.
        remedy: String,
    },
}

impl Verdict {
    fn no(why: impl Into<String>, remedy: impl Into<String>) -> Verdict {
        Verdict::Unusable { why: why.into(), remedy: remedy.into() }
    }
}

/// The engine to use: the operator's, or else the best that works here. Otherwise what to tell
/// people.
pub fn choose(ordered: Option<Engine>, facts: &Facts) -> Result<Engine, String> {
    if let Some(engine) = ordered {
        return match facts.verdict(engine) {
            Verdict::Usable => Ok(engine),
            Verdict::Unusable { why, remedy } => Err(format!("{why} {remedy}")),
        };
    }
    let builtin = match facts.verdict(Engine::Builtin) {
        Verdict::Usable => return Ok(Engine::Builtin),
        Verdict::Unusable { why, remedy } => (why, remedy),
    };
    let bwrap = match facts.verdict(Engine::Bwrap) {
        Verdict::Usable => return Ok(Engine::Bwrap),
        Verdict::Unusable { why, remedy } => (why, remedy),
    };
    let mut sentences = vec!["Commands cannot be sandboxed on this host.".to_owned(), builtin.0];
    sentences.push(bwrap.0);
    sentences.push(builtin.1.clone());
    if bwrap.1 != builtin.1 {
        sentences.push(bwrap.1);
    }
    Err(sentences.join(" "))
}

impl Facts {
    /// Whether the engine can be used here.
    pub fn verdict(&self, engine: Engine) -> Verdict {
        match engine {
            Engine::Bwrap => self.bwrap_verdict(),
            Engine::Builtin => self.builtin_verdict(),
            Engine::LandlockOnly => self.landlock_verdict(),
        }
    }

    /// What is worth a warning at the server's start although commands can be sandboxed.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.host.root {
            let text = "The server runs as root: a hole in the sandbox would be a hole in the \
                        whole machine. Run it as an ordinary user.";
            warnings.push(text.to_owned());
        }
        warnings
    }

    fn builtin_verdict(&self) -> Verdict {
        if self.host.wsl1 {
            return wsl1();
        }
        let Some((step, errno)) = self.own.obstacle() else { return Verdict::Usable };
        let what = match step {
            Step::Namespaces => "make namespaces",
            Step::UserMap => "map the user into a namespace",
            Step::Mount => "mount in a namespace",
            Step::ProcMount => "mount /proc in a namespace",
            Step::MountAttributes => "make a tree of mounts read-only (Linux 5.12 can)",
            Step::Network => "make a network namespace",
            Step::Loopback => "switch the loopback on",
        };
        let why = format!("The server cannot {what}: {}.", system_text(errno));
        Verdict::no(why, self.remedy(step))
    }

    fn bwrap_verdict(&self) -> Verdict {
        if self.host.wsl1 {
            return wsl1();
        }
        if let Err(why) = &self.bwrap {
            let remedy = "Install bubblewrap (package `bubblewrap`), 0.6 or later.";
            return Verdict::no(format!("There is no usable bubblewrap: {why}."), remedy);
        }
        match &self.bwrap_namespaces {
            Ok(()) => Verdict::Usable,
            Err(said) => {
                let why = format!("bubblewrap fails here: {}.", said.trim_end_matches('.'));
                let step = match said {
                    said if said.contains("mount proc") => Step::ProcMount,
                    said if said.contains("loopback") => Step::Loopback,
                    _ => Step::Namespaces,
                };
                Verdict::no(why, self.remedy(step))
            }
        }
    }

    fn landlock_verdict(&self) -> Verdict {
        const REMEDY: &str = "It needs Linux 5.19 or later with `landlock` among the security \
                              modules (`lsm=` on the kernel's command line).";
        match self.landlock {
            0 => Verdict::no("This kernel has no Landlock.", REMEDY),
            // Before, moving and truncating files could not be restricted.
            abi @ 1..3 => {
                Verdict::no(format!("This kernel's Landlock is too old ({abi})."), REMEDY)
            }
            _ => Verdict::Usable,
        }
    }

    /// What somebody could do about the step, by the most likely cause.
    fn remedy(&self, step: Step) -> String {
        let HostFacts { container, root, .. } = self.host;
        let text = match step {
            _ if self.host.user_namespaces_limit_is_zero => {
                "User namespaces are switched off: set the sysctl user.max_user_namespaces to a \
                 number above 0."
            }
            _ if self.host.unprivileged_clone_is_off && !root => {
                "User namespaces are reserved for root: set the sysctl \
                 kernel.unprivileged_userns_clone to 1."
            }
            _ if self.host.apparmor_restricts && !root => {
                "AppArmor restricts user namespaces: give the program a profile that allows \
                 `userns`, or set the sysctl kernel.apparmor_restrict_unprivileged_userns to 0."
            }
            Step::ProcMount if container => {
                "The container hides parts of /proc, which forbids a new one: start it with its \
                 /proc unmasked (`--security-opt systempaths=unconfined`)."
            }
            Step::MountAttributes => "Use a newer kernel, or bubblewrap.",
            Step::Loopback => {
                "A network namespace cannot be set up: let the server make it (engine `builtin`), \
                 which does without loopback."
            }
            Step::Namespaces | Step::UserMap | Step::Mount | Step::ProcMount | Step::Network
                if container =>
            {
                "The container's seccomp or AppArmor profile forbids it: start the container with \
                 a profile that allows user namespaces and mounts (for instance `--security-opt \
                 seccomp=unconfined --security-opt apparmor=unconfined`)."
            }
            Step::Namespaces | Step::UserMap | Step::Mount | Step::ProcMount | Step::Network => {
                "Ask the administrator why user namespaces are refused: a seccomp filter, a \
                 security module or a kernel without CONFIG_USER_NS."
            }
        };
        text.to_owned()
    }
}

fn wsl1() -> Verdict {
    Verdict::no(
        "The first Windows Subsystem for Linux has no namespaces.",
        "Convert the distribution to WSL 2 (`wsl --set-version <name> 2`).",
    )
}

fn system_text(errno: i32) -> String {
    match errno {
        // What the kernel says when the limit of namespaces is reached; "device" misleads.
        libc::ENOSPC => "the limit of namespaces is reached".to_owned(),
        libc::ETIMEDOUT => "it took too long".to_owned(),
        _ => {
            let text = std::io::Error::from_raw_os_error(errno).to_string();
            text.split(" (os error").next().unwrap_or_default().to_owned()
        }
    }
}

#[cfg(test)]
#[path = "verdict_tests.rs"]
mod tests;
