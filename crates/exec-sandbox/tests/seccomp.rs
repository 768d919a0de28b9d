//! The filters in the real kernel, on real programs.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use std::os::unix::net::{UnixDatagram, UnixStream};
use std::process::{Command, Stdio};

use exec_sandbox::linux::seccomp::{self, Nesting, Options, Reach, Record};
use support::{confine, errno_of, has, in_child, install};

const RESTRICTED: Options =
    Options { reach: Reach::Nothing, nesting: Nesting::Refused, record: Record::Nothing };
const OPEN: Options = Options { reach: Reach::Network, ..RESTRICTED };

const AF_UNIX: i64 = libc::AF_UNIX as i64;
const AF_INET: i64 = libc::AF_INET as i64;
const AF_NETLINK: i64 = libc::AF_NETLINK as i64;
const AF_VSOCK: i64 = libc::AF_VSOCK as i64;
const STREAM: i64 = libc::SOCK_STREAM as i64;
const DGRAM: i64 = libc::SOCK_DGRAM as i64;
const RAW: i64 = libc::SOCK_RAW as i64;
const SEQPACKET: i64 = libc::SOCK_SEQPACKET as i64;
const FLAGS: i64 = (libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK) as i64;

/// What the call says under the filter.
fn under(options: Options, number: i64, arguments: [i64; 6]) -> i32 {
    let program = seccomp::program(options).unwrap();
    let status = in_child(|| match install(program, 0) {
        Ok(_) => errno_of(number, arguments),
        Err(_) => 255,
    });
    status.code().unwrap_or_else(|| panic!("{number}: {status}"))
}

fn check(options: Options, number: i64, arguments: &[i64], expected: i32) {
    let mut all = [0; 6];
    all[..arguments.len()].copy_from_slice(arguments);
    let found = under(options, number, all);
    assert_eq!(found, expected, "{options:?} {number} {arguments:x?}");
}

#[test]
fn every_filter_is_taken_by_the_kernel() {
    for reach in [Reach::Nothing, Reach::Network] {
        for nesting in [Nesting::Refused, Nesting::Allowed] {
            for record in [Record::Nothing, Record::Network, Record::NetworkAndChanges] {
                check(Options { reach, nesting, record }, libc::SYS_getpid, &[], 0);
            }
        }
    }
}

#[test]
fn sockets() {
    for kind in [STREAM, SEQPACKET, STREAM | FLAGS, SEQPACKET | FLAGS] {
        check(RESTRICTED, libc::SYS_socket, &[AF_UNIX, kind, 0], 0);
    }
    for kind in [DGRAM, RAW, DGRAM | FLAGS, RAW | FLAGS] {
        check(RESTRICTED, libc::SYS_socket, &[AF_UNIX, kind, 0], libc::EPERM);
        check(RESTRICTED, libc::SYS_socketpair, &[AF_UNIX, kind, 0, 0], libc::EPERM);
        check(OPEN, libc::SYS_socket, &[AF_UNIX, kind, 0], 0);
    }
    for kind in [STREAM, DGRAM, STREAM | FLAGS] {
        check(RESTRICTED, libc::SYS_socket, &[AF_INET, kind, 0], libc::EPERM);
        check(OPEN, libc::SYS_socket, &[AF_INET, kind, 0], 0);
    }
    check(RESTRICTED, libc::SYS_socket, &[AF_NETLINK, RAW, 0], libc::EPERM);
    check(RESTRICTED, libc::SYS_socket, &[AF_VSOCK, STREAM, 0], libc::EPERM);
    check(OPEN, libc::SYS_socket, &[AF_VSOCK, STREAM, 0], libc::EPERM);
    // The upper halves, which the kernel drops, are no way around.
    check(RESTRICTED, libc::SYS_socket, &[1 << 32 | AF_INET, STREAM, 0], libc::EPERM);
    check(RESTRICTED, libc::SYS_socket, &[AF_UNIX, 1 << 32 | DGRAM, 0], libc::EPERM);
    check(OPEN, libc::SYS_socket, &[1 << 32 | AF_VSOCK, STREAM, 0], libc::EPERM);
}

/// Hole 6 of the reference: `sendmsg` with an address. No socket that can do it may exist; those
/// that may exist refuse or ignore the address.
#[test]
fn a_datagram_socket_of_the_host_is_out_of_reach() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let host = UnixDatagram::bind(&path).unwrap();
    host.set_nonblocking(true).unwrap();
    let sun_family = u16::try_from(libc::AF_UNIX).unwrap();
    let mut address = libc::sockaddr_un { sun_family, sun_path: [0; 108] };
    for (place, byte) in address.sun_path.iter_mut().zip(path.to_str().unwrap().bytes()) {
        *place = byte.cast_signed();
    }
    let mut byte = 7_u8;
    let mut part = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    // SAFETY: all-zero is a valid message.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_name = (&raw mut address).cast();
    message.msg_namelen = u32::try_from(size_of_val(&address)).unwrap();
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    let message = (&raw const message).addr().cast_signed() as i64;
    // Without a filter it arrives: the message is right.
    let open = UnixDatagram::unbound().unwrap();
    let descriptor = i64::from(std::os::fd::AsRawFd::as_raw_fd(&open));
    assert_eq!(errno_of(libc::SYS_sendmsg, [descriptor, message, 0, 0, 0, 0]), 0);
    assert_eq!(host.recv(&mut [0; 8]).unwrap(), 1);

    let program = seccomp::program(RESTRICTED).unwrap();
    for kind in [libc::SOCK_STREAM, libc::SOCK_SEQPACKET, libc::SOCK_DGRAM] {
        for pair in [false, true] {
            let status = in_child(|| {
                if install(program, 0).is_err() {
                    return 255;
                }
                let mut pair_of = [-1_i32; 2];
                // SAFETY: `pair_of` takes two descriptors.
                let descriptor = unsafe {
                    if pair {
                        libc::socketpair(libc::AF_UNIX, kind, 0, pair_of.as_mut_ptr());
                        pair_of[0]
                    } else {
                        libc::socket(libc::AF_UNIX, kind, 0)
                    }
                };
                errno_of(libc::SYS_sendmsg, [i64::from(descriptor), message, 0, 0, 0, 0])
            });
            // To its own peer, or nowhere at all.
            let expected = match (kind, pair) {
                (libc::SOCK_DGRAM, _) => libc::EBADF,
                (libc::SOCK_STREAM, true) => libc::EISCONN,
                (libc::SOCK_STREAM, false) => libc::EOPNOTSUPP,
                (_, true) => 0,
                (_, false) => libc::ENOTCONN,
            };
            assert_eq!(status.code(), Some(expected), "{kind} {pair}");
            let nothing = host.recv(&mut [0; 8]).unwrap_err();
            assert_eq!(nothing.kind(), std::io::ErrorKind::WouldBlock, "{kind} {pair}");
        }
    }
}

#[test]
fn sending_on_a_pair() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let descriptor = i64::from(std::os::fd::AsRawFd::as_raw_fd(&theirs));
    let byte = 7_u8;
    let at = (&raw const byte).addr().cast_signed() as i64;
    check(RESTRICTED, libc::SYS_sendto, &[descriptor, at, 1, 0, 0, 0], 0);
    check(RESTRICTED, libc::SYS_sendto, &[descriptor, at, 1, 0, at, 16], libc::EPERM);
    drop(theirs);
    assert_eq!(std::io::Read::read(&mut &ours, &mut [0; 8]).unwrap(), 1);
}

#[test]
fn calls_that_break_in_or_reach_out() {
    for (number, restricted, open) in [
        // Without the filter each of these fails otherwise, or succeeds.
        (libc::SYS_io_uring_setup, libc::EPERM, libc::EPERM),
        (libc::SYS_bpf, libc::EPERM, libc::EPERM),
        (libc::SYS_userfaultfd, libc::EPERM, libc::EPERM),
        (libc::SYS_keyctl, libc::EPERM, libc::EPERM),
        (libc::SYS_perf_event_open, libc::EPERM, libc::EPERM),
        (libc::SYS_open_by_handle_at, libc::EPERM, libc::EPERM),
        (libc::SYS_mount, libc::EPERM, libc::EPERM),
        (libc::SYS_fsopen, libc::EPERM, libc::EPERM),
        (libc::SYS_clone3, libc::ENOSYS, libc::ENOSYS),
        (libc::SYS_process_vm_readv, libc::EPERM, libc::ESRCH),
        (libc::SYS_pidfd_getfd, libc::EPERM, libc::EBADF),
    ] {
        check(RESTRICTED, number, &[-1, 0, 0], restricted);
        if open == libc::EPERM || open == libc::ENOSYS {
            check(OPEN, number, &[-1, 0, 0], open);
        } else {
            let found = under(OPEN, number, [-1, 0, 0, 0, 0, 0]);
            assert_ne!(found, libc::EPERM, "{number}");
        }
    }
    for number in [libc::SYS_connect, libc::SYS_bind, libc::SYS_listen, libc::SYS_accept4] {
        check(RESTRICTED, number, &[-1, 0, 0], libc::EPERM);
        check(OPEN, number, &[-1, 0, 0], libc::EBADF);
    }
    for number in [libc::SYS_getsockopt, libc::SYS_shutdown, libc::SYS_getsockname] {
        check(RESTRICTED, number, &[-1, 0, 0], libc::EBADF);
    }
    const NEWUSER: i64 = libc::CLONE_NEWUSER as i64;
    check(RESTRICTED, libc::SYS_unshare, &[NEWUSER], libc::EPERM);
    check(RESTRICTED, libc::SYS_clone, &[NEWUSER | libc::SIGCHLD as i64], libc::EPERM);
    check(RESTRICTED, libc::SYS_unshare, &[libc::CLONE_FILES as i64], 0);
    check(RESTRICTED, libc::SYS_ioctl, &[-1, libc::TIOCSTI as i64], libc::EPERM);
    check(RESTRICTED, libc::SYS_ioctl, &[-1, 1 << 32 | libc::TIOCSTI as i64], libc::EPERM);
    check(RESTRICTED, libc::SYS_ioctl, &[-1, libc::TIOCGWINSZ as i64], libc::EBADF);
}

#[cfg(target_arch = "x86_64")]
#[test]
fn other_ways_into_the_kernel() {
    use std::os::unix::process::ExitStatusExt as _;
    // getpid, by its x32 number.
    check(RESTRICTED, 0x4000_0000 | libc::SYS_getpid, &[], libc::ENOSYS);
    let program = seccomp::program(RESTRICTED).unwrap();
    let status = in_child(|| {
        if install(program, 0).is_err() {
            return 255;
        }
        let result: i64;
        // SAFETY: getpid (20) of the 32-bit table; it touches nothing but rax.
        unsafe { std::arch::asm!("int 0x80", inlateout("rax") 20_i64 => result) };
        i32::from(result <= 0)
    });
    assert_eq!(status.signal(), Some(libc::SIGSYS), "{status}");
}

/// Event loops live on socket pairs; the reference's filter breaks them.
#[test]
fn python_runs_an_event_loop_with_children() {
    const PYTHON: &str = "/usr/bin/python3";
    if !has(PYTHON) {
        return;
    }
    let script = r#"
import asyncio, errno, socket, threading

async def main():
    many = [asyncio.create_subprocess_exec("/bin/echo", str(i), stdout=-1) for i in range(5)]
    children = await asyncio.gather(*many)
    texts = await asyncio.gather(*[child.communicate() for child in children])
    print(b"".join(out for out, _ in texts).split())

asyncio.run(main())
thread = threading.Thread(target=lambda: print("thread"))
thread.start()
thread.join()
a, b = socket.socketpair()
a.send(b"x")
a.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
print(b.recv(1), a.getsockname() == b.getpeername())
for family, kind in [(socket.AF_INET, socket.SOCK_STREAM), (socket.AF_UNIX, socket.SOCK_DGRAM)]:
    try:
        socket.socket(family, kind)
    except OSError as error:
        print(errno.errorcode[error.errno])
"#;
    let mut command = Command::new(PYTHON);
    command.args(["-c", script]).stdin(Stdio::null());
    let output = confine(&mut command, RESTRICTED).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    let expected = "[b'0', b'1', b'2', b'3', b'4']\nthread\nb'x' True\nEPERM\nEPERM\n";
    assert_eq!((text.as_str(), errors.as_str()), (expected, ""));
}

/// Shells, threads and pipes: a filter that refused too much would show here.
#[test]
fn ordinary_programs_do_not_notice() {
    for options in [RESTRICTED, OPEN, Options { nesting: Nesting::Allowed, ..RESTRICTED }] {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "seq 3 | (sort -r --parallel=2; cat) | tr '\\n' ' '; (exit 3)"]);
        let output = confine(&mut command, options).output().unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), "3 2 1 ");
        assert_eq!(output.status.code(), Some(3));
    }
}
