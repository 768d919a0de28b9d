//! The system calls that filters name, with their numbers on each architecture. What is not in here
//! is allowed.

/// An architecture that filters are made for. A program of another one is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arch {
    /// 64-bit x86.
    X86_64,
    /// 64-bit ARM.
    Aarch64,
}

impl Arch {
    /// The one this server runs on.
    #[cfg(target_arch = "x86_64")]
    pub const HOST: Arch = Arch::X86_64;
    /// The one this server runs on.
    #[cfg(target_arch = "aarch64")]
    pub const HOST: Arch = Arch::Aarch64;

    /// The kernel's name for it, in the data that a filter sees.
    pub(super) const fn audit(self) -> u32 {
        match self {
            Arch::X86_64 => 0xc000_003e,
            Arch::Aarch64 => 0xc000_00b7,
        }
    }
}

/// A number, or none where there is no such call.
macro_rules! number {
    (-) => {
        None
    };
    ($number:literal) => {
        Some($number)
    };
}

macro_rules! calls {
    ($($call:ident = $name:literal $x86_64:tt $aarch64:tt;)*) => {
        /// A system call that a filter has something to say about.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Call {
            $(#[doc = concat!("`", $name, "`")] $call,)*
        }

        impl Call {
            /// All of them.
            pub const ALL: &[Call] = &[$(Call::$call,)*];

            /// As the manual spells it.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Call::$call => $name,)*
                }
            }

            /// Its number, where the architecture has it.
            pub const fn number(self, arch: Arch) -> Option<u32> {
                match (self, arch) {
                    $((Call::$call, Arch::X86_64) => number!($x86_64),)*
                    $((Call::$call, Arch::Aarch64) => number!($aarch64),)*
                }
            }
        }
    };
}

impl Call {
    /// The call with this number.
    pub fn from_number(arch: Arch, number: u32) -> Option<Call> {
        Call::ALL.iter().copied().find(|call| call.number(arch) == Some(number))
    }
}

calls! {
    Accept = "accept" 43 202;
    Accept4 = "accept4" 288 242;
    AddKey = "add_key" 248 217;
    Bind = "bind" 49 200;
    Bpf = "bpf" 321 280;
    Chmod = "chmod" 90 -;
    Chown = "chown" 92 -;
    Clone = "clone" 56 220;
    Clone3 = "clone3" 435 435;
    Connect = "connect" 42 203;
    Creat = "creat" 85 -;
    DeleteModule = "delete_module" 176 106;
    Fchmodat = "fchmodat" 268 53;
    Fchmodat2 = "fchmodat2" 452 452;
    Fchownat = "fchownat" 260 54;
    FinitModule = "finit_module" 313 273;
    Fsconfig = "fsconfig" 431 431;
    Fsmount = "fsmount" 432 432;
    Fsopen = "fsopen" 430 430;
    Fspick = "fspick" 433 433;
    Futimesat = "futimesat" 261 -;
    InitModule = "init_module" 175 105;
    IoUringEnter = "io_uring_enter" 426 426;
    IoUringRegister = "io_uring_register" 427 427;
    IoUringSetup = "io_uring_setup" 425 425;
    Ioctl = "ioctl" 16 29;
    KexecFileLoad = "kexec_file_load" 320 294;
    KexecLoad = "kexec_load" 246 104;
    Keyctl = "keyctl" 250 219;
    Lchown = "lchown" 94 -;
    Link = "link" 86 -;
    Linkat = "linkat" 265 37;
    Listen = "listen" 50 201;
    Lremovexattr = "lremovexattr" 198 15;
    Lsetxattr = "lsetxattr" 189 6;
    Mkdir = "mkdir" 83 -;
    Mkdirat = "mkdirat" 258 34;
    Mknod = "mknod" 133 -;
    Mknodat = "mknodat" 259 33;
    Mount = "mount" 165 40;
    MountSetattr = "mount_setattr" 442 442;
    MoveMount = "move_mount" 429 429;
    Open = "open" 2 -;
    OpenByHandleAt = "open_by_handle_at" 304 265;
    OpenTree = "open_tree" 428 428;
    OpenTreeAttr = "open_tree_attr" 467 467;
    Openat = "openat" 257 56;
    Openat2 = "openat2" 437 437;
    PerfEventOpen = "perf_event_open" 298 241;
    PidfdGetfd = "pidfd_getfd" 438 438;
    PivotRoot = "pivot_root" 155 41;
    ProcessVmReadv = "process_vm_readv" 310 270;
    ProcessVmWritev = "process_vm_writev" 311 271;
    Ptrace = "ptrace" 101 117;
    Recvmmsg = "recvmmsg" 299 243;
    Removexattr = "removexattr" 197 14;
    Removexattrat = "removexattrat" 466 466;
    Rename = "rename" 82 -;
    Renameat = "renameat" 264 38;
    Renameat2 = "renameat2" 316 276;
    RequestKey = "request_key" 249 218;
    Rmdir = "rmdir" 84 -;
    Seccomp = "seccomp" 317 277;
    Sendmmsg = "sendmmsg" 307 269;
    Sendto = "sendto" 44 206;
    Setns = "setns" 308 268;
    Setxattr = "setxattr" 188 5;
    Setxattrat = "setxattrat" 463 463;
    Socket = "socket" 41 198;
    Socketpair = "socketpair" 53 199;
    Symlink = "symlink" 88 -;
    Symlinkat = "symlinkat" 266 36;
    Truncate = "truncate" 76 45;
    Umount2 = "umount2" 166 39;
    Unlink = "unlink" 87 -;
    Unlinkat = "unlinkat" 263 35;
    Unshare = "unshare" 272 97;
    Userfaultfd = "userfaultfd" 323 282;
    Utime = "utime" 132 -;
    Utimensat = "utimensat" 280 88;
    Utimes = "utimes" 235 -;
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn a_number_belongs_to_one_call() {
        for arch in [Arch::X86_64, Arch::Aarch64] {
            let mut seen = HashSet::new();
            for call in Call::ALL {
                let Some(number) = call.number(arch) else { continue };
                assert!(seen.insert(number), "{} {arch:?}", call.name());
                assert_eq!(Call::from_number(arch, number), Some(*call));
            }
        }
        assert_eq!(Call::from_number(Arch::X86_64, 0), None);
        assert_eq!(Call::from_number(Arch::Aarch64, 4096), None);
    }

    /// What libc says about this architecture; it has no constants for the youngest calls.
    #[test]
    fn the_numbers_are_those_of_the_host() {
        macro_rules! check {
            ($($call:ident $number:ident,)*) => {
                $(assert_eq!(Call::$call.number(Arch::HOST).map(i64::from), Some(libc::$number));)*
            };
        }
        check! {
            Accept SYS_accept, Accept4 SYS_accept4, AddKey SYS_add_key, Bind SYS_bind, Bpf SYS_bpf,
            Clone SYS_clone, Clone3 SYS_clone3, Connect SYS_connect,
            DeleteModule SYS_delete_module, Fchmodat SYS_fchmodat, Fchownat SYS_fchownat,
            FinitModule SYS_finit_module, Fsconfig SYS_fsconfig, Fsmount SYS_fsmount,
            Fsopen SYS_fsopen, Fspick SYS_fspick, InitModule SYS_init_module,
            IoUringEnter SYS_io_uring_enter, IoUringRegister SYS_io_uring_register,
            IoUringSetup SYS_io_uring_setup, Ioctl SYS_ioctl, KexecFileLoad SYS_kexec_file_load,
            KexecLoad SYS_kexec_load, Keyctl SYS_keyctl, Linkat SYS_linkat, Listen SYS_listen,
            Lremovexattr SYS_lremovexattr, Lsetxattr SYS_lsetxattr, Mkdirat SYS_mkdirat,
            Mknodat SYS_mknodat, Mount SYS_mount, MountSetattr SYS_mount_setattr,
            MoveMount SYS_move_mount, OpenByHandleAt SYS_open_by_handle_at,
            OpenTree SYS_open_tree, Openat SYS_openat, Openat2 SYS_openat2,
            PerfEventOpen SYS_perf_event_open, PidfdGetfd SYS_pidfd_getfd,
            PivotRoot SYS_pivot_root, ProcessVmReadv SYS_process_vm_readv,
            ProcessVmWritev SYS_process_vm_writev, Ptrace SYS_ptrace, Recvmmsg SYS_recvmmsg,
            Removexattr SYS_removexattr, Renameat2 SYS_renameat2, RequestKey SYS_request_key,
            Seccomp SYS_seccomp, Sendmmsg SYS_sendmmsg, Sendto SYS_sendto, Setns SYS_setns,
            Setxattr SYS_setxattr, Socket SYS_socket, Socketpair SYS_socketpair,
            Symlinkat SYS_symlinkat, Truncate SYS_truncate, Umount2 SYS_umount2,
            Unlinkat SYS_unlinkat, Unshare SYS_unshare, Userfaultfd SYS_userfaultfd,
            Utimensat SYS_utimensat,
        }
        #[cfg(target_arch = "x86_64")]
        check! {
            Chmod SYS_chmod, Chown SYS_chown, Creat SYS_creat, Fchmodat2 SYS_fchmodat2,
            Futimesat SYS_futimesat, Lchown SYS_lchown, Link SYS_link, Mkdir SYS_mkdir,
            Mknod SYS_mknod, Open SYS_open, Rename SYS_rename, Renameat SYS_renameat,
            Rmdir SYS_rmdir, Symlink SYS_symlink, Unlink SYS_unlink, Utime SYS_utime,
            Utimes SYS_utimes,
        }
    }
}
