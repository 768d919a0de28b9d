//! Sockets of every kind, and what a request can bring along.

use super::attempt::{Attempt, Free, probe, sh};
use super::policy::Policy::{Minimal, Offline, ReadOnly, Workspace, WorkspaceOnline};

#[rustfmt::skip]
pub const NETWORK: &[Attempt] = &[
    probe("50: TCP to the host", Workspace, "tcp $TCP $NONCE"),
    probe("50: TCP to the host, read-only", ReadOnly, "tcp $TCP $NONCE"),
    probe("50: TCP to the host, minimal", Minimal, "tcp $TCP $NONCE"),
    probe("50: TCP to the host, offline only", Offline, "tcp $TCP $NONCE"),
    probe("50: TCP as IPv6", Workspace, "tcp6 $TCP $NONCE").free(Free::Depends),
    probe("50: UDP to the host", Workspace, "udp $UDP $NONCE"),
    probe("50: UDP to the host, offline only", Offline, "udp $UDP $NONCE"),
    probe("50: UDP, connected", Workspace, "udp-connected $UDP $NONCE"),
    probe("50: TCP to this server", Workspace, "tcp $SERVER_PORT $NONCE"),
    probe("50: TCP to this server, offline only", Offline, "tcp $SERVER_PORT $NONCE"),
    sh("50: by the shell", Workspace, "bash -c 'echo $NONCE > /dev/tcp/127.0.0.1/$TCP'"),
    sh("50: UDP by the shell", Workspace, "bash -c 'echo $NONCE > /dev/udp/127.0.0.1/$UDP'"),
    probe("50: Unix stream to the host", Workspace, "unix-stream $STREAM $NONCE"),
    probe("50: Unix stream to the host, offline only", Offline, "unix-stream $STREAM $NONCE"),
    probe("50: Unix stream to the host, minimal", Minimal, "unix-stream $STREAM $NONCE"),
    probe("51: abstract stream to the host", Workspace, "unix-stream $ABSTRACT $NONCE"),
    probe("51: abstract stream, offline only", Offline, "unix-stream $ABSTRACT $NONCE"),
    probe("51: abstract datagram", Workspace, "unix-datagram $ABSTRACT_DATAGRAM $NONCE"),
    probe("51: abstract datagram by sendmsg", Offline, "unix-sendmsg $ABSTRACT_DATAGRAM $NONCE"),
    probe("52: Unix datagram, connected", Workspace, "unix-datagram $DATAGRAM $NONCE"),
    probe("52: Unix datagram by sendto", Workspace, "unix-sendto $DATAGRAM $NONCE"),
    probe("52: Unix datagram by sendmsg", Workspace, "unix-sendmsg $DATAGRAM $NONCE"),
    probe("52: Unix datagram by sendmsg, offline only", Offline, "unix-sendmsg $DATAGRAM $NONCE"),
    probe("52: Unix datagram by sendmmsg", Workspace, "unix-sendmmsg $DATAGRAM $NONCE"),
    probe("52: Unix datagram by sendmmsg, offline only", Offline, "unix-sendmmsg $DATAGRAM $NONCE"),
    probe("52: from a datagram pair", Workspace, "unix-pair-sendmsg $DATAGRAM $NONCE"),
    probe("52: from a datagram pair, offline only", Offline, "unix-pair-sendmsg $DATAGRAM $NONCE"),
    probe("52: a datagram socket with flags", Workspace, "socket 1 526338 0"),
    probe("53: netlink", Workspace, "socket 16 3 0"),
    probe("53: netlink, audit", Workspace, "socket 16 3 9").free(Free::Depends),
    probe("53: netlink, offline only", Offline, "socket 16 3 0"),
    probe("53: packets", Workspace, "socket 17 3 0").free(Free::Depends),
    probe("53: vsock", Workspace, "socket 40 1 0").free(Free::Depends),
    probe("57: vsock, online", WorkspaceOnline, "socket 40 1 0").free(Free::Depends),
    probe("57: vsock with flags, online", WorkspaceOnline, "socket 40 524289 0")
        .free(Free::Depends),
    probe("53: raw", Workspace, "socket 2 3 1").free(Free::Depends),
    probe("53: raw IPv6", Workspace, "socket 10 3 58").free(Free::Depends),
    probe("53: ping", Workspace, "socket 2 2 1").free(Free::Depends),
    probe("53: raw, online", WorkspaceOnline, "socket 2 3 1").free(Free::Depends),
    probe("53: packets, online", WorkspaceOnline, "socket 17 3 0").free(Free::Depends),
    probe("53: ciphers", Workspace, "socket 38 5 0").free(Free::Depends),
    probe("53: Bluetooth", Workspace, "socket 31 3 1").free(Free::Depends),
    probe("53: CAN", Workspace, "socket 29 3 1").free(Free::Depends),
    probe("53: TIPC", Workspace, "socket 30 2 0").free(Free::Depends),
    probe("53: XDP", Workspace, "socket 44 3 0").free(Free::Depends),
    probe("53: SMC", Workspace, "socket 43 1 0").free(Free::Depends),
    probe("53: QIPCRTR", Workspace, "socket 42 2 0").free(Free::Depends),
    probe("listen where the host can reach", Workspace, "serve-unix $WS/s"),
    probe("listen on TCP", Workspace, "serve-tcp"),
    probe("listen on TCP, offline only", Offline, "serve-tcp"),
    probe("network: a socket pair of streams", Workspace, "socketpair 1 1").works(""),
    probe("network: TCP, online", WorkspaceOnline, "tcp $TCP $NONCE").works(""),
    probe("network: UDP, online", WorkspaceOnline, "udp $UDP $NONCE").works(""),
    sh(
        "network: interfaces of the host",
        Workspace,
        "tail -n +3 /proc/net/dev | grep -qv lo: && echo DID",
    )
    .free(Free::Depends),
    sh(
        "network: sockets of the host",
        Workspace,
        "grep -q \"$(basename $STREAM)\" /proc/net/unix && echo DID",
    ),
];

/// What a request brings along must not reach a program that runs outside.
#[rustfmt::skip]
pub const REQUESTS: &[Attempt] = &[
    sh("22: a bwrap in a writable folder of PATH", Workspace, "true")
        .setup("mkdir ws/bin; printf '#!/bin/sh\\ntouch %s/out/pwned\\n' $PWD > ws/bin/bwrap; chmod +x ws/bin/bwrap")
        .env(&[("PATH", "$WORLD/ws/bin:$PATH")]).free(Free::Never),
    sh("23: a bwrap first on PATH", ReadOnly, "true")
        .setup("mkdir tools; printf '#!/bin/sh\\ntouch %s/out/pwned\\n' $PWD > tools/bwrap; chmod +x tools/bwrap")
        .env(&[("PATH", "$WORLD/tools:$PATH")]).free(Free::Never),
    sh("22: a bwrap in an empty PATH entry", Workspace, "true")
        .setup("printf '#!/bin/sh\\ntouch %s/out/pwned\\n' $PWD > ws/bwrap; chmod +x ws/bwrap")
        .env(&[("PATH", ":.:$PATH")]).free(Free::Never),
    sh("24: LD_PRELOAD", Workspace, "true").env(&[("LD_PRELOAD", "$HOST/planted.so"), ("PLANTED", "$WORLD/out/pwned")]),
    sh("24: LD_PRELOAD, read-only", ReadOnly, "true").env(&[("LD_PRELOAD", "$HOST/planted.so"), ("PLANTED", "$WORLD/out/pwned")]),
    sh("24: LD_PRELOAD works inside", Workspace, "[ -e $WS/made ]")
        .env(&[("LD_PRELOAD", "$HOST/planted.so"), ("PLANTED", "$WORLD/ws/made")]).works("ws/made"),
    sh("24: LD_AUDIT", Workspace, "true").env(&[("LD_AUDIT", "$HOST/planted.so"), ("PLANTED", "$WORLD/out/pwned")]).free(Free::Depends),
    sh("25: LD_LIBRARY_PATH", Workspace, "true")
        .env(&[("LD_LIBRARY_PATH", "$HOST/libraries"), ("PLANTED", "$WORLD/out/pwned")]).free(Free::Depends),
    sh("GLIBC_TUNABLES and LD_DEBUG", Workspace, "true")
        .env(&[("LD_DEBUG", "all"), ("LD_DEBUG_OUTPUT", "$WORLD/out/debug")]),
    sh("BASH_ENV", Workspace, "bash -c true").env(&[("BASH_ENV", "$HOST/planted.sh"), ("PLANTED", "$WORLD/out/pwned")]),
    sh("ENV", Workspace, "sh -i < /dev/null").env(&[("ENV", "$HOST/planted.sh"), ("PLANTED", "$WORLD/out/pwned")]),
];
