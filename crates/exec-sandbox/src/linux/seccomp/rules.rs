//! Which calls are refused, as data. A call has at most one rule; what has none is allowed.

use super::calls::Call;
use super::{Nesting, Options, Reach, Record};

/// What becomes of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    /// It is made.
    Allow,
    /// It fails with EPERM: there is such a call, and it is not for you.
    Refuse,
    /// It fails with ENOSYS, so that the caller uses an older way.
    Unknown,
    /// The server's recorder decides.
    Report,
    /// The process dies of SIGSYS.
    Kill,
}

/// One question about an argument: are the bits of `mask` equal to `value`, or, with `equal` false,
/// different from it?
///
/// The kernel takes most arguments as 32 bits and ignores the upper half of the register; comparing
/// that half too would be a way around the rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Check {
    pub(super) argument: u32,
    pub(super) half: Half,
    pub(super) mask: u32,
    pub(super) value: u32,
    pub(super) equal: bool,
}

/// Which 32 bits of an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Half {
    Low,
    High,
}

/// If every check holds, then the action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Case {
    pub(super) all: Vec<Check>,
    pub(super) then: Action,
}

/// What happens to a call: the first case that holds decides, or else `otherwise`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Rule {
    pub(super) call: Call,
    pub(super) cases: Vec<Case>,
    pub(super) otherwise: Action,
}

const AF_UNIX: u32 = 1;
const AF_VSOCK: u32 = 40;
/// The kind of a socket without its flags, CLOEXEC and NONBLOCK.
const SOCK_TYPE_MASK: u32 = 0xf;
const SOCK_STREAM: u32 = 1;
const SOCK_SEQPACKET: u32 = 5;
const TIOCSTI: u32 = 0x5412;
const TIOCLINUX: u32 = 0x541c;
/// `NEWNS`, `NEWCGROUP`, `NEWUTS`, `NEWIPC`, `NEWUSER`, `NEWPID`, `NEWNET`.
const CLONE_NAMESPACES: u32 = 0x7e02_0000;
/// `NEWTIME`, which `clone` cannot say: there it is a part of the exit signal.
const CLONE_NEWTIME: u32 = 0x80;
const SECCOMP_FILTER_FLAG_NEW_LISTENER: u32 = 8;
/// `O_WRONLY`, `O_RDWR`, `O_CREAT`, `O_TRUNC`.
const OPEN_CHANGES: u32 = 0o1103;

/// Ways into the kernel or other programs, whatever may be reached. Nearly all fail for lack of
/// privilege already; refusing them here keeps their code, and its mistakes, out of reach.
const BREAK_IN: &[Call] = &[
    Call::AddKey,
    Call::Bpf,
    Call::DeleteModule,
    Call::FinitModule,
    Call::InitModule,
    // Work of the ring is done beside the filter: it opens, connects and sends unseen.
    Call::IoUringEnter,
    Call::IoUringRegister,
    Call::IoUringSetup,
    Call::KexecFileLoad,
    Call::KexecLoad,
    Call::Keyctl,
    Call::OpenByHandleAt,
    Call::PerfEventOpen,
    Call::RequestKey,
    Call::Userfaultfd,
];

/// Other processes' memory and descriptors. A socket taken from a process without this filter would
/// be a network, so these go with the network.
const OTHER_PROCESSES: &[Call] =
    &[Call::PidfdGetfd, Call::ProcessVmReadv, Call::ProcessVmWritev, Call::Ptrace];

/// What a new mount namespace would be used for.
const MOUNTS: &[Call] = &[
    Call::Fsconfig,
    Call::Fsmount,
    Call::Fsopen,
    Call::Fspick,
    Call::Mount,
    Call::MountSetattr,
    Call::MoveMount,
    Call::OpenTree,
    Call::OpenTreeAttr,
    Call::PivotRoot,
    Call::Umount2,
];

/// Reaching others, or being reached, by a name.
const NETWORK: &[Call] = &[
    Call::Accept,
    Call::Accept4,
    Call::Bind,
    Call::Connect,
    Call::Listen,
    Call::Recvmmsg,
    Call::Sendmmsg,
];

/// Calls that change the file system by a name and have nothing else to say.
const CHANGES: &[Call] = &[
    Call::Chmod,
    Call::Chown,
    Call::Creat,
    Call::Fchmodat,
    Call::Fchmodat2,
    Call::Fchownat,
    Call::Futimesat,
    Call::Lchown,
    Call::Link,
    Call::Linkat,
    Call::Lremovexattr,
    Call::Lsetxattr,
    Call::Mkdir,
    Call::Mkdirat,
    Call::Mknod,
    Call::Mknodat,
    // Its flags are in memory, where a filter cannot look.
    Call::Openat2,
    Call::Removexattr,
    Call::Removexattrat,
    Call::Rename,
    Call::Renameat,
    Call::Renameat2,
    Call::Rmdir,
    Call::Setxattr,
    Call::Setxattrat,
    Call::Symlink,
    Call::Symlinkat,
    Call::Truncate,
    Call::Unlink,
    Call::Unlinkat,
    Call::Utime,
    Call::Utimensat,
    Call::Utimes,
];

/// The rules for these options, in no particular order.
pub(super) fn rules(options: Options) -> Vec<Rule> {
    let mut rules = always(BREAK_IN, Action::Refuse);
    rules.push(terminal());
    if options.nesting == Nesting::Refused {
        rules.extend(always(MOUNTS, Action::Refuse));
        rules.extend(no_namespaces());
    }
    let refused = match options.record {
        Record::Nothing => Action::Refuse,
        Record::Network | Record::NetworkAndChanges => Action::Report,
    };
    match options.reach {
        Reach::Nothing => {
            rules.extend(always(OTHER_PROCESSES, Action::Refuse));
            rules.extend(always(NETWORK, refused));
            rules.extend(only_local_streams(refused));
            rules.push(send_without_address(refused));
        }
        Reach::Network => rules.extend(no_virtual_machine_sockets(refused)),
    }
    if options.record != Record::Nothing {
        rules.push(no_second_listener());
    }
    if options.record == Record::NetworkAndChanges {
        rules.extend(always(CHANGES, Action::Report));
        rules.push(open_for_change(Call::Open, 1));
        rules.push(open_for_change(Call::Openat, 2));
    }
    rules
}

/// The same for each of these, whatever the arguments.
fn always(calls: &[Call], action: Action) -> Vec<Rule> {
    calls.iter().map(|call| Rule { call: *call, cases: Vec::new(), otherwise: action }).collect()
}

/// Neither typing into the terminal nor pasting its selection: what is "typed" there would be read
/// by whoever uses the terminal next.
fn terminal() -> Rule {
    let refuse = |request| Case { all: vec![is(1, request)], then: Action::Refuse };
    let cases = vec![refuse(TIOCSTI), refuse(TIOCLINUX)];
    Rule { call: Call::Ioctl, cases, otherwise: Action::Allow }
}

/// Sockets that are connected to something, on this machine. A Unix datagram socket, which `RAW`
/// is a name for too, reaches any other by `sendmsg`, whose address no filter can see; so none may
/// exist. Streams and packets in sequence ignore or refuse an address.
fn only_local_streams(refused: Action) -> Vec<Rule> {
    let allow = |kind| Case {
        all: vec![is(0, AF_UNIX), Check { mask: SOCK_TYPE_MASK, ..is(1, kind) }],
        then: Action::Allow,
    };
    let cases = vec![allow(SOCK_STREAM), allow(SOCK_SEQPACKET)];
    [Call::Socket, Call::Socketpair]
        .map(|call| Rule { call, cases: cases.clone(), otherwise: refused })
        .to_vec()
}

/// `send` is `sendto` without an address, and needed on every socket pair.
fn send_without_address(refused: Action) -> Rule {
    let all = vec![is(4, 0), Check { half: Half::High, ..is(4, 0) }];
    let cases = vec![Case { all, then: Action::Allow }];
    Rule { call: Call::Sendto, cases, otherwise: refused }
}

/// The host of a virtual machine, and the machines of a host, are not "the network".
fn no_virtual_machine_sockets(refused: Action) -> Vec<Rule> {
    [Call::Socket, Call::Socketpair]
        .map(|call| {
            let cases = vec![Case { all: vec![is(0, AF_VSOCK)], then: refused }];
            Rule { call, cases, otherwise: Action::Allow }
        })
        .to_vec()
}

/// No namespace inside the namespace. `clone3` has its flags in memory, so it does not exist; libc
/// then uses `clone`.
fn no_namespaces() -> Vec<Rule> {
    let refuse = |call, mask| {
        let cases = vec![Case { all: vec![has_any(0, mask)], then: Action::Refuse }];
        Rule { call, cases, otherwise: Action::Allow }
    };
    vec![
        refuse(Call::Clone, CLONE_NAMESPACES),
        refuse(Call::Unshare, CLONE_NAMESPACES | CLONE_NEWTIME),
        Rule { call: Call::Clone3, cases: Vec::new(), otherwise: Action::Unknown },
        Rule { call: Call::Setns, cases: Vec::new(), otherwise: Action::Refuse },
    ]
}

/// A younger filter with a listener would be asked instead of ours, and could answer "go on". While
/// ours has its listener the kernel refuses a second one; this holds also afterwards.
fn no_second_listener() -> Rule {
    let all = vec![has_any(1, SECCOMP_FILTER_FLAG_NEW_LISTENER)];
    let cases = vec![Case { all, then: Action::Refuse }];
    Rule { call: Call::Seccomp, cases, otherwise: Action::Allow }
}

fn open_for_change(call: Call, flags: u32) -> Rule {
    let cases = vec![Case { all: vec![has_any(flags, OPEN_CHANGES)], then: Action::Report }];
    Rule { call, cases, otherwise: Action::Allow }
}

/// The lower half of the argument is `value`.
fn is(argument: u32, value: u32) -> Check {
    Check { argument, half: Half::Low, mask: u32::MAX, value, equal: true }
}

/// The lower half of the argument has one of these bits.
fn has_any(argument: u32, mask: u32) -> Check {
    Check { argument, half: Half::Low, mask, value: 0, equal: false }
}

#[cfg(test)]
mod tests {
    use super::super::all_options;
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn no_call_has_two_rules() {
        for options in all_options() {
            let mut seen = HashSet::new();
            for rule in rules(options) {
                assert!(seen.insert(rule.call), "{options:?}: {}", rule.call.name());
            }
        }
    }

    #[test]
    fn every_call_has_a_rule_somewhere() {
        let used: HashSet<Call> = all_options().flat_map(rules).map(|rule| rule.call).collect();
        for call in Call::ALL {
            assert!(used.contains(call), "{}", call.name());
        }
    }

    #[test]
    fn the_constants_are_those_of_the_system() {
        assert_eq!(AF_UNIX, libc::AF_UNIX.cast_unsigned());
        assert_eq!(AF_VSOCK, libc::AF_VSOCK.cast_unsigned());
        assert_eq!(SOCK_STREAM, libc::SOCK_STREAM.cast_unsigned());
        assert_eq!(SOCK_SEQPACKET, libc::SOCK_SEQPACKET.cast_unsigned());
        assert_eq!(Ok(TIOCSTI), u32::try_from(libc::TIOCSTI));
        assert_eq!(Ok(TIOCLINUX), u32::try_from(libc::TIOCLINUX));
        let namespaces = libc::CLONE_NEWNS
            | libc::CLONE_NEWCGROUP
            | libc::CLONE_NEWUTS
            | libc::CLONE_NEWIPC
            | libc::CLONE_NEWUSER
            | libc::CLONE_NEWPID
            | libc::CLONE_NEWNET;
        assert_eq!(CLONE_NAMESPACES, namespaces.cast_unsigned());
        let changes = libc::O_WRONLY | libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC;
        assert_eq!(OPEN_CHANGES, changes.cast_unsigned());
        let listener = u32::try_from(libc::SECCOMP_FILTER_FLAG_NEW_LISTENER);
        assert_eq!(Ok(SECCOMP_FILTER_FLAG_NEW_LISTENER), listener);
    }
}
