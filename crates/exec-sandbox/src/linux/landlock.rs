//! Landlock: which rules, as data. The program inside hands them to the kernel.
//!
//! Within namespaces it is the second layer: should a mount be wrong, nothing outside the writable
//! directories can be written all the same. Alone it is weaker than the view it stands for: it
//! cannot carve anything out of a writable directory, and it does not know permissions, owners,
//! times and extended attributes. What a command owns outside, it can still `chmod`. That is why
//! the operator has to order it.

use std::path::{Path, PathBuf};

use crate::plan::Network;

/// Rights on files and directories; the kernel's numbers.
pub mod access {
    /// To open a file for writing.
    pub const WRITE_FILE: u64 = 1 << 1;
    /// To remove a directory.
    pub const REMOVE_DIR: u64 = 1 << 4;
    /// To remove a file.
    pub const REMOVE_FILE: u64 = 1 << 5;
    /// To make devices, directories, files, sockets, pipes, block devices and links: bits 6 to 12.
    pub const MAKE: u64 = 0b111_1111 << 6;
    /// To move and link between directories. Since version 2.
    pub const REFER: u64 = 1 << 13;
    /// To shorten a file. Since version 3.
    pub const TRUNCATE: u64 = 1 << 14;

    /// What may be said of a file; of a directory, everything.
    pub const OF_FILES: u64 = WRITE_FILE | TRUNCATE;
}

/// To bind and to connect a TCP port. Since version 4.
const NETWORK: u64 = 0b11;
/// Since version 6.
const SCOPE_ABSTRACT_SOCKETS: u64 = 1;
const SCOPE_SIGNALS: u64 = 2;

/// What the kernel is to be told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ruleset {
    /// Rights that are refused where no rule gives them.
    pub handled_access: u64,
    /// The same for the network; no rule gives any.
    pub handled_network: u64,
    /// What ends at the command's own processes.
    pub scoped: u64,
    /// Who gives what.
    pub rules: Vec<Rule>,
}

/// A right below a path. Paths are those of the view, and the path is opened there, with `O_PATH`;
/// one that does not exist gives nothing. If it is not a directory, only [`access::OF_FILES`] may
/// be asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// Where.
    pub path: PathBuf,
    /// What.
    pub access: u64,
}

impl Ruleset {
    /// As `struct landlock_ruleset_attr`. Older kernels take the longer structure too if what they
    /// do not know is zero.
    pub fn attributes(&self) -> [u64; 3] {
        [self.handled_access, self.handled_network, self.scoped]
    }
}

/// Why Landlock alone cannot stand for a policy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Inexpressible {
    /// Too old to hold what it promises.
    #[error("Landlock {0} cannot keep files from being shortened; version 3 can")]
    TooOld(u32),
    /// Reading is restricted.
    #[error("Landlock alone cannot hide what the policy does not let a command read")]
    Reading,
    /// Something in a writable directory is not writable.
    #[error("Landlock alone cannot protect {0:?}, which lies in a writable directory")]
    CarveOut(PathBuf),
    /// Names like `.git` are to be protected.
    #[error(
        "Landlock alone cannot protect names like .git in a writable directory; \
         the operator has not accepted that"
    )]
    Metadata,
}

/// What a policy asks for, as far as it matters here.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    /// Everything may be read.
    pub reads_everything: bool,
    /// What may be written.
    pub writable: &'a [PathBuf],
    /// What may be written less than what it lies in, or not be read.
    pub carve_outs: &'a [PathBuf],
    /// Names like `.git` are protected in writable directories.
    pub protects_metadata: bool,
    /// The operator accepts that they are not.
    pub accept_unprotected_metadata: bool,
    /// What may be reached.
    pub network: Network,
}

/// The version of Landlock that this kernel has; 0 if it has none.
pub fn abi() -> u32 {
    const VERSION: u32 = 1;
    // SAFETY: with this flag the call takes no structure and returns a number.
    let value = unsafe {
        libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<u8>(), 0_usize, VERSION)
    };
    u32::try_from(value).unwrap_or(0)
}

/// The second layer below a view; none where the kernel's Landlock cannot tell moving from writing.
/// A command under it can mount nothing, so it does not go with namespaces of the command's own.
pub fn second_layer(abi: u32, writable: &[PathBuf], network: Network) -> Option<Ruleset> {
    // In the first version nothing could be moved between directories, which programs do not expect.
    if abi < 2 {
        return None;
    }
    // Private or protected by mounts, and full of files that any program writes.
    let always = ["/dev", "/proc"].map(PathBuf::from);
    Some(ruleset(abi, always.iter().chain(writable), network))
}

/// Landlock instead of a view, if it holds all that the policy asks for.
pub fn alone(abi: u32, wanted: &Wanted<'_>) -> Result<Ruleset, Inexpressible> {
    if abi < 3 {
        return Err(Inexpressible::TooOld(abi));
    }
    if !wanted.reads_everything {
        return Err(Inexpressible::Reading);
    }
    if let Some(path) = wanted.carve_outs.first() {
        return Err(Inexpressible::CarveOut(path.clone()));
    }
    let unprotected = wanted.protects_metadata && !wanted.writable.is_empty();
    if unprotected && !wanted.accept_unprotected_metadata {
        return Err(Inexpressible::Metadata);
    }
    // The host's own devices; those that lead nowhere, and the terminal.
    let always = ["/dev/null", "/dev/zero", "/dev/full", "/dev/tty", "/dev/ptmx", "/dev/pts"];
    let always = always.map(PathBuf::from);
    Ok(ruleset(abi, always.iter().chain(wanted.writable), wanted.network))
}

fn ruleset<'a>(abi: u32, writable: impl Iterator<Item = &'a PathBuf>, network: Network) -> Ruleset {
    use access::{MAKE, REFER, REMOVE_DIR, REMOVE_FILE, TRUNCATE, WRITE_FILE};
    let since = |version: u32, right: u64| if abi >= version { right } else { 0 };
    let handled_access =
        WRITE_FILE | REMOVE_DIR | REMOVE_FILE | MAKE | since(2, REFER) | since(3, TRUNCATE);
    let isolated = |right: u64| if network == Network::Isolated { right } else { 0 };
    let rule = |path: &PathBuf| Rule { path: path.clone(), access: given(path, handled_access) };
    Ruleset {
        handled_access,
        handled_network: since(4, isolated(NETWORK)),
        scoped: since(6, SCOPE_SIGNALS | isolated(SCOPE_ABSTRACT_SOCKETS)),
        rules: writable.map(rule).collect(),
    }
}

/// Everything, but in `/proc` only to write what is there.
fn given(path: &Path, all: u64) -> u64 {
    if path == Path::new("/proc") { all & access::OF_FILES } else { all }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL_1: u64 = 0x1ff2;
    const ALL_2: u64 = 0x3ff2;
    const ALL_3: u64 = 0x7ff2;

    fn roots(paths: &[&str]) -> Vec<PathBuf> {
        paths.iter().map(PathBuf::from).collect()
    }

    #[test]
    fn the_second_layer_by_version() {
        let check = |abi, network, expected: Option<[u64; 3]>| {
            let found = second_layer(abi, &roots(&["/w"]), network);
            assert_eq!(found.map(|ruleset| ruleset.attributes()), expected, "{abi} {network:?}");
        };
        check(0, Network::Isolated, None);
        check(1, Network::Isolated, None);
        check(2, Network::Isolated, Some([ALL_2, 0, 0]));
        check(3, Network::Isolated, Some([ALL_3, 0, 0]));
        check(4, Network::Isolated, Some([ALL_3, 3, 0]));
        check(6, Network::Isolated, Some([ALL_3, 3, 3]));
        check(7, Network::Isolated, Some([ALL_3, 3, 3]));
        check(7, Network::Host, Some([ALL_3, 0, 2]));
        let layer = second_layer(7, &roots(&["/w", "/x"]), Network::Host).unwrap();
        let rule = |path: &str, access| Rule { path: path.into(), access };
        assert_eq!(
            layer.rules,
            vec![
                rule("/dev", ALL_3),
                rule("/proc", access::OF_FILES),
                rule("/w", ALL_3),
                rule("/x", ALL_3),
            ]
        );
        assert_eq!(ruleset(1, [].iter(), Network::Host).handled_access, ALL_1);
    }

    #[test]
    fn alone_it_stands_for_few_policies() {
        let writable = roots(&["/w"]);
        let carved = roots(&["/w/secret"]);
        let plain = Wanted {
            reads_everything: true,
            writable: &writable,
            carve_outs: &[],
            protects_metadata: false,
            accept_unprotected_metadata: false,
            network: Network::Isolated,
        };
        let check = |abi, wanted: &Wanted<'_>, expected: Option<Inexpressible>| {
            assert_eq!(alone(abi, wanted).err(), expected, "{abi} {wanted:?}");
        };
        check(7, &plain, None);
        check(2, &plain, Some(Inexpressible::TooOld(2)));
        check(7, &Wanted { reads_everything: false, ..plain }, Some(Inexpressible::Reading));
        let carve_out = Some(Inexpressible::CarveOut("/w/secret".into()));
        check(7, &Wanted { carve_outs: &carved, ..plain }, carve_out);
        let metadata = Wanted { protects_metadata: true, ..plain };
        check(7, &metadata, Some(Inexpressible::Metadata));
        check(7, &Wanted { accept_unprotected_metadata: true, ..metadata }, None);
        // Where nothing is writable, nothing has to be protected.
        check(7, &Wanted { writable: &[], ..metadata }, None);
        let rules = alone(7, &plain).unwrap().rules;
        assert!(rules.iter().any(|rule| rule.path == Path::new("/w")));
        assert!(!rules.iter().any(|rule| rule.path == Path::new("/dev")));
    }
}
