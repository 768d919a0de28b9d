//! Numbers of system calls that the C library has no name for.

#[cfg(target_arch = "x86_64")]
mod of_this_machine {
    pub(crate) const PIVOT_ROOT: i64 = 155;
    pub(crate) const ADD_KEY: i64 = 248;
    pub(crate) const REQUEST_KEY: i64 = 249;
    pub(crate) const KEYCTL: i64 = 250;
    pub(crate) const PERF_EVENT_OPEN: i64 = 298;
    pub(crate) const BPF: i64 = 321;
    pub(crate) const USERFAULTFD: i64 = 323;
    pub(crate) const KEXEC_LOAD: i64 = 246;
    pub(crate) const INIT_MODULE: i64 = 175;
    pub(crate) const DELETE_MODULE: i64 = 176;
    pub(crate) const FINIT_MODULE: i64 = 313;
    pub(crate) const SWAPON: i64 = 167;
    pub(crate) const REBOOT: i64 = 169;
    pub(crate) const ACCT: i64 = 163;
    pub(crate) const SYSLOG: i64 = 103;
    pub(crate) const QUOTACTL: i64 = 179;
    pub(crate) const CLONE: i64 = 56;
    pub(crate) const MKNODAT: i64 = 259;
    pub(crate) const NAME_TO_HANDLE_AT: i64 = 303;
    pub(crate) const OPEN_BY_HANDLE_AT: i64 = 304;
    pub(crate) const SENDMMSG: i64 = 307;
    pub(crate) const FANOTIFY_INIT: i64 = 300;
    pub(crate) const KCMP: i64 = 312;
    pub(crate) const MIGRATE_PAGES: i64 = 256;
    pub(crate) const IO_SETUP: i64 = 206;
    pub(crate) const GETPID: i64 = 39;
}

#[cfg(target_arch = "aarch64")]
mod of_this_machine {
    pub(crate) const PIVOT_ROOT: i64 = 41;
    pub(crate) const ADD_KEY: i64 = 217;
    pub(crate) const REQUEST_KEY: i64 = 218;
    pub(crate) const KEYCTL: i64 = 219;
    pub(crate) const PERF_EVENT_OPEN: i64 = 241;
    pub(crate) const BPF: i64 = 280;
    pub(crate) const USERFAULTFD: i64 = 282;
    pub(crate) const KEXEC_LOAD: i64 = 104;
    pub(crate) const INIT_MODULE: i64 = 105;
    pub(crate) const DELETE_MODULE: i64 = 106;
    pub(crate) const FINIT_MODULE: i64 = 273;
    pub(crate) const SWAPON: i64 = 224;
    pub(crate) const REBOOT: i64 = 142;
    pub(crate) const ACCT: i64 = 89;
    pub(crate) const SYSLOG: i64 = 116;
    pub(crate) const QUOTACTL: i64 = 60;
    pub(crate) const CLONE: i64 = 220;
    pub(crate) const MKNODAT: i64 = 33;
    pub(crate) const NAME_TO_HANDLE_AT: i64 = 264;
    pub(crate) const OPEN_BY_HANDLE_AT: i64 = 265;
    pub(crate) const SENDMMSG: i64 = 269;
    pub(crate) const FANOTIFY_INIT: i64 = 262;
    pub(crate) const KCMP: i64 = 272;
    pub(crate) const MIGRATE_PAGES: i64 = 238;
    pub(crate) const IO_SETUP: i64 = 0;
    pub(crate) const GETPID: i64 = 172;
}

pub(crate) use of_this_machine::*;

// The same everywhere.
pub(crate) const IO_URING_SETUP: i64 = 425;
pub(crate) const OPEN_TREE: i64 = 428;
pub(crate) const MOVE_MOUNT: i64 = 429;
pub(crate) const FSOPEN: i64 = 430;
pub(crate) const FSPICK: i64 = 433;
pub(crate) const PIDFD_OPEN: i64 = 434;
pub(crate) const CLONE3: i64 = 435;
pub(crate) const PIDFD_GETFD: i64 = 438;
pub(crate) const MOUNT_SETATTR: i64 = 442;
