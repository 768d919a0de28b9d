//! Every call and every argument that a filter distinguishes, asked of the finished programs.

use super::interpret::{Data, run};
use super::*;

const ARCHES: [Arch; 2] = [Arch::X86_64, Arch::Aarch64];
const EPERM: u32 = 0x0005_0001;
const ENOSYS: u32 = 0x0005_0026;
const ALLOW: u32 = 0x7fff_0000;
const NOTIFY: u32 = 0x7fc0_0000;
const KILL: u32 = 0x8000_0000;

/// Bits that the kernel does not look at, in the upper half of a register.
const JUNK: u64 = 0xdead_beef_0000_0000;

const RESTRICTED: Options =
    Options { reach: Reach::Nothing, nesting: Nesting::Refused, record: Record::Nothing };
const OPEN: Options = Options { reach: Reach::Network, ..RESTRICTED };

/// The answer to the call on each architecture that has it.
fn check(options: Options, call: Call, arguments: [u64; 6], expected: u32) {
    for arch in ARCHES {
        let Some(number) = call.number(arch) else { continue };
        let program = assemble(arch, options).unwrap();
        let data = Data { number, arch: arch.audit(), arguments };
        let found = run(program.instructions(), &data);
        assert_eq!(
            found,
            expected,
            "{options:?} {arch:?} {}({arguments:x?}): {found:#x}",
            call.name()
        );
    }
}

/// The answer whatever the arguments are.
fn check_always(options: Options, call: Call, expected: u32) {
    for arguments in [[0; 6], [u64::MAX; 6], [1; 6], [JUNK | 1; 6], [0x1000_0000; 6]] {
        check(options, call, arguments, expected);
    }
}

const BREAK_IN: &[Call] = &[
    Call::IoUringSetup,
    Call::IoUringEnter,
    Call::IoUringRegister,
    Call::Keyctl,
    Call::AddKey,
    Call::RequestKey,
    Call::Bpf,
    Call::Userfaultfd,
    Call::PerfEventOpen,
    Call::OpenByHandleAt,
    Call::KexecLoad,
    Call::KexecFileLoad,
    Call::InitModule,
    Call::FinitModule,
    Call::DeleteModule,
];
const MOUNTS: &[Call] = &[
    Call::Mount,
    Call::Umount2,
    Call::PivotRoot,
    Call::Fsopen,
    Call::Fsconfig,
    Call::Fsmount,
    Call::Fspick,
    Call::MoveMount,
    Call::OpenTree,
    Call::OpenTreeAttr,
    Call::MountSetattr,
];
const PROCESSES: &[Call] =
    &[Call::Ptrace, Call::ProcessVmReadv, Call::ProcessVmWritev, Call::PidfdGetfd];
const NETWORK: &[Call] = &[
    Call::Connect,
    Call::Accept,
    Call::Accept4,
    Call::Bind,
    Call::Listen,
    Call::Sendmmsg,
    Call::Recvmmsg,
];

#[test]
fn calls_that_are_refused_whatever_their_arguments() {
    for options in all_options() {
        for call in BREAK_IN {
            check_always(options, *call, EPERM);
        }
        let mounts = if options.nesting == Nesting::Refused { EPERM } else { ALLOW };
        for call in MOUNTS {
            check_always(options, *call, mounts);
        }
        let processes = if options.reach == Reach::Nothing { EPERM } else { ALLOW };
        for call in PROCESSES {
            check_always(options, *call, processes);
        }
        let network = match (options.reach, options.record) {
            (Reach::Network, _) => ALLOW,
            (Reach::Nothing, Record::Nothing) => EPERM,
            (Reach::Nothing, Record::Network | Record::NetworkAndChanges) => NOTIFY,
        };
        for call in NETWORK {
            check_always(options, *call, network);
        }
    }
}

/// Every number up to well beyond the last call: what no rule names is allowed. This finds a rule
/// under a wrong number, which a question about the right number would not.
#[test]
fn everything_else_is_allowed() {
    for options in all_options() {
        for arch in ARCHES {
            let program = assemble(arch, options).unwrap();
            let ruled: Vec<u32> =
                rules::rules(options).iter().filter_map(|rule| rule.call.number(arch)).collect();
            for number in (0..1024).filter(|number| !ruled.contains(number)) {
                let arguments = [u64::from(number); 6];
                let data = Data { number, arch: arch.audit(), arguments };
                assert_eq!(run(program.instructions(), &data), ALLOW, "{options:?} {number}");
            }
        }
    }
    // getsockopt, setsockopt, shutdown, getsockname, getpeername, sendmsg, recvmsg, recvfrom.
    for (number, arch) in [55, 54, 48, 51, 52, 46, 47, 45]
        .map(|number| (number, Arch::X86_64))
        .into_iter()
        .chain([209, 208, 210, 204, 205, 211, 212, 207].map(|number| (number, Arch::Aarch64)))
    {
        let program = assemble(arch, RESTRICTED).unwrap();
        let data = Data { number, arch: arch.audit(), arguments: [1; 6] };
        assert_eq!(run(program.instructions(), &data), ALLOW, "{number}");
    }
}

#[test]
fn another_architecture_is_killed_and_x32_is_unknown() {
    for options in all_options() {
        for arch in ARCHES {
            let program = assemble(arch, options).unwrap();
            let ask = |number, audit| {
                let data = Data { number, arch: audit, arguments: [0; 6] };
                run(program.instructions(), &data)
            };
            // 32-bit x86, 32-bit ARM, the other of ours, nonsense.
            let foreign = ARCHES.map(Arch::audit).into_iter().filter(|a| *a != arch.audit());
            for other in foreign.chain([0x4000_0003, 0x4000_0028, 0, u32::MAX]) {
                for number in [0, 1, 41, 198, 0x4000_0000] {
                    assert_eq!(ask(number, other), KILL, "{arch:?} {other:#x}");
                }
            }
            let x32 = if arch == Arch::X86_64 { ENOSYS } else { ALLOW };
            for number in [0x4000_0000, 0x4000_0029, 0x4000_0000 + 520, 0x8000_0000, u32::MAX] {
                assert_eq!(ask(number, arch.audit()), x32, "{arch:?} {number:#x}");
            }
            assert_eq!(ask(0x3fff_ffff, arch.audit()), ALLOW);
        }
    }
}

#[test]
fn sockets_by_family_and_kind() {
    const UNIX: u64 = 1;
    const CLOEXEC: u64 = 0o2_000_000;
    const NONBLOCK: u64 = 0o4000;
    for call in [Call::Socket, Call::Socketpair] {
        let restricted = |family, kind, expected| {
            check(RESTRICTED, call, [family, kind, 0, 0, 0, 0], expected);
            check(RESTRICTED, call, [family | JUNK, kind | JUNK, 0, 0, 0, 0], expected);
            let reported = if expected == EPERM { NOTIFY } else { expected };
            for record in [Record::Network, Record::NetworkAndChanges] {
                let options = Options { record, ..RESTRICTED };
                check(options, call, [family, kind, 0, 0, 0, 0], reported);
            }
        };
        for flags in [0, CLOEXEC, NONBLOCK, CLOEXEC | NONBLOCK] {
            restricted(UNIX, 1 | flags, ALLOW);
            restricted(UNIX, 5 | flags, ALLOW);
            // Datagram, raw (which becomes datagram), the rest, and what looks like a stream in
            // more bits.
            for kind in [0, 2, 3, 4, 6, 7, 8, 9, 10, 13, 15] {
                restricted(UNIX, kind | flags, EPERM);
            }
            // AF_UNSPEC, INET, INET6, NETLINK, PACKET, ALG, VSOCK, and unknown ones.
            for family in [0, 2, 10, 16, 17, 38, 40, 45, 0x101, 0x8000_0001] {
                for kind in [1, 2, 3, 5] {
                    restricted(family, kind | flags, EPERM);
                }
            }
        }
        for family in [0, 1, 2, 10, 16, 17, 38] {
            for kind in [1, 2, 3, 5, 1 | CLOEXEC] {
                check(OPEN, call, [family, kind, 0, 0, 0, 0], ALLOW);
            }
        }
        check(OPEN, call, [40, 1, 0, 0, 0, 0], EPERM);
        check(OPEN, call, [40 | JUNK, 1, 0, 0, 0, 0], EPERM);
        let recorded = Options { record: Record::Network, ..OPEN };
        check(recorded, call, [40, 1, 0, 0, 0, 0], NOTIFY);
    }
}

#[test]
fn sending_needs_no_address() {
    let call = Call::Sendto;
    check(RESTRICTED, call, [3, 0x1000, 10, 0, 0, 0], ALLOW);
    check(RESTRICTED, call, [3, 0x1000, 10, 0, 0, 16], ALLOW);
    // A pointer whose lower or upper half alone is zero.
    for address in [0x1000, 0x7fff_0000_0000, 0x7fff_0000_1000] {
        check(RESTRICTED, call, [3, 0x1000, 10, 0, address, 16], EPERM);
        let recorded = Options { record: Record::Network, ..RESTRICTED };
        check(recorded, call, [3, 0x1000, 10, 0, address, 16], NOTIFY);
        check(OPEN, call, [3, 0x1000, 10, 0, address, 16], ALLOW);
    }
}

#[test]
fn terminals_cannot_be_typed_into() {
    for options in all_options() {
        for request in [0x5412, 0x541c] {
            check(options, Call::Ioctl, [0, request, 0, 0, 0, 0], EPERM);
            check(options, Call::Ioctl, [0, request | JUNK, 0, 0, 0, 0], EPERM);
        }
        // TCGETS, TIOCGWINSZ, TIOCSCTTY, and numbers that share bits with the refused.
        for request in [0x5401, 0x5413, 0x540e, 0x5411, 0x541d, 0x1_5412, 0x8000_5412] {
            check(options, Call::Ioctl, [0, request, 0, 0, 0, 0], ALLOW);
        }
    }
}

#[test]
fn namespaces_are_an_option() {
    const THREAD: u64 = 0x003d_0f00;
    const FORK: u64 = 0x0120_0011;
    for options in all_options() {
        let refused = options.nesting == Nesting::Refused;
        let answer = |refusal| if refused { refusal } else { ALLOW };
        for flag in [
            0x0002_0000_u64,
            0x0200_0000,
            0x0400_0000,
            0x0800_0000,
            0x1000_0000,
            0x2000_0000,
            0x4000_0000,
        ] {
            for flags in [flag, flag | 17, flag | THREAD, flag | JUNK, flag | 0x1000_0000] {
                check(options, Call::Clone, [flags, 0, 0, 0, 0, 0], answer(EPERM));
                check(options, Call::Unshare, [flags, 0, 0, 0, 0, 0], answer(EPERM));
            }
        }
        // The time namespace's bit is part of the exit signal for `clone`.
        check(options, Call::Unshare, [0x80, 0, 0, 0, 0, 0], answer(EPERM));
        for flags in [0, 17, THREAD, FORK, 0x4111, JUNK | 17] {
            check(options, Call::Clone, [flags, 0, 0, 0, 0, 0], ALLOW);
        }
        // Files, the working directory, System V semaphores: not namespaces.
        for flags in [0, 0x400, 0x200, 0x0004_0000] {
            check(options, Call::Unshare, [flags, 0, 0, 0, 0, 0], ALLOW);
        }
        check_always(options, Call::Clone3, answer(ENOSYS));
        check_always(options, Call::Setns, answer(EPERM));
    }
}

#[test]
fn recorded_filters_have_one_listener() {
    for options in all_options() {
        let listener = if options.record == Record::Nothing { ALLOW } else { EPERM };
        for flags in [8, 9, 0x28, 8 | JUNK] {
            check(options, Call::Seccomp, [1, flags, 0, 0, 0, 0], listener);
        }
        for flags in [0, 1, 2, 4, 16, 32, JUNK] {
            check(options, Call::Seccomp, [1, flags, 0, 0, 0, 0], ALLOW);
        }
    }
}

#[test]
fn changes_are_reported_where_asked_for() {
    const CHANGES: &[Call] = &[
        Call::Creat,
        Call::Openat2,
        Call::Mkdir,
        Call::Mkdirat,
        Call::Rmdir,
        Call::Unlink,
        Call::Unlinkat,
        Call::Rename,
        Call::Renameat,
        Call::Renameat2,
        Call::Link,
        Call::Linkat,
        Call::Symlink,
        Call::Symlinkat,
        Call::Truncate,
        Call::Chmod,
        Call::Fchmodat,
        Call::Fchmodat2,
        Call::Chown,
        Call::Lchown,
        Call::Fchownat,
        Call::Mknod,
        Call::Mknodat,
        Call::Utime,
        Call::Utimes,
        Call::Futimesat,
        Call::Utimensat,
        Call::Setxattr,
        Call::Lsetxattr,
        Call::Removexattr,
        Call::Lremovexattr,
        Call::Setxattrat,
        Call::Removexattrat,
    ];
    for options in all_options() {
        let reported = if options.record == Record::NetworkAndChanges { NOTIFY } else { ALLOW };
        for call in CHANGES {
            check_always(options, *call, reported);
        }
        for (flags, expected) in [
            (0, ALLOW),
            (0o2_000_000, ALLOW),
            (0o10_200_000, ALLOW),
            (JUNK, ALLOW),
            (1, reported),
            (2, reported),
            (0o100, reported),
            (0o1000, reported),
            (0o2_001_101 | JUNK, reported),
            (0o20_200_002, reported),
        ] {
            check(options, Call::Open, [0, flags, 0, 0, 0, 0], expected);
            check(options, Call::Openat, [0, 0, flags, 0, 0, 0], expected);
        }
    }
}

#[test]
fn programs_are_made_once_and_are_small() {
    for options in all_options() {
        let first = program(options).unwrap();
        assert!(std::ptr::eq(first, program(options).unwrap()));
        assert_eq!(first, &assemble(Arch::HOST, options).unwrap());
        assert!(first.instructions().len() < 400, "{}", first.instructions().len());
        assert_eq!(first.bytes().len(), first.instructions().len() * INSTRUCTION_BYTES);
    }
    let indices: std::collections::HashSet<_> = all_options().map(Options::index).collect();
    assert_eq!(indices.len(), COMBINATIONS);
    assert_eq!(indices.iter().max(), Some(&(COMBINATIONS - 1)));
    assert_eq!(Options::for_plan(Filter::None, Nesting::Refused, Record::Nothing), None);
    let restricted = Options::for_plan(Filter::Restricted, Nesting::Refused, Record::Nothing);
    assert_eq!(restricted, Some(RESTRICTED));
    let open = Options::for_plan(Filter::NetworkOpen, Nesting::Refused, Record::Nothing);
    assert_eq!(open, Some(OPEN));
}
