//! Reaching something outside through a socket. Every message carries what the caller says, so that
//! the host can tell whether it came.

use std::ffi::c_void;

use crate::Try;
use crate::numbers;
use crate::sys::*;

pub(crate) const TRIES: &[(&str, Try)] = &[
    ("tcp", tcp),
    ("tcp6", tcp6),
    ("udp", udp),
    ("udp-connected", udp_connected),
    ("unix-stream", |arguments| unix(arguments, STREAM, Way::Connect)),
    ("unix-seqpacket", |arguments| unix(arguments, SEQPACKET, Way::Connect)),
    ("unix-datagram", |arguments| unix(arguments, DATAGRAM, Way::Connect)),
    ("unix-sendto", |arguments| unix(arguments, DATAGRAM, Way::SendTo)),
    ("unix-sendmsg", |arguments| unix(arguments, DATAGRAM, Way::SendMessage)),
    ("unix-sendmmsg", |arguments| unix(arguments, DATAGRAM, Way::SendMessages)),
    ("unix-pair-sendmsg", pair_sendmsg),
    ("socket", any_socket),
    ("socketpair", any_pair),
    ("serve-unix", serve_unix),
    ("serve-tcp", serve_tcp),
];

const UNIX: i32 = 1;
const INET: i32 = 2;
const INET6: i32 = 10;
const STREAM: i32 = 1;
const DATAGRAM: i32 = 2;
const SEQPACKET: i32 = 5;

enum Way {
    Connect,
    SendTo,
    SendMessage,
    SendMessages,
}

/// An address as the kernel wants it.
struct Address {
    bytes: [u8; 128],
    length: u32,
}

impl Address {
    /// `/path`, or `@name` for an abstract one.
    fn unix(name: &str) -> Self {
        let mut bytes = [0; 128];
        bytes[..2].copy_from_slice(&(UNIX as u16).to_ne_bytes());
        let shown = name.strip_prefix('@');
        let start = if shown.is_some() { 3 } else { 2 };
        let name = shown.unwrap_or(name).as_bytes();
        bytes[start..start + name.len()].copy_from_slice(name);
        let end = if shown.is_some() { 0 } else { 1 };
        Address { bytes, length: (start + name.len() + end) as u32 }
    }

    fn loopback(port: u16) -> Self {
        let mut bytes = [0; 128];
        bytes[..2].copy_from_slice(&(INET as u16).to_ne_bytes());
        bytes[2..4].copy_from_slice(&port.to_be_bytes());
        bytes[4..8].copy_from_slice(&[127, 0, 0, 1]);
        Address { bytes, length: 16 }
    }

    /// IPv4's loopback address spelled in IPv6.
    fn loopback6(port: u16) -> Self {
        let mut bytes = [0; 128];
        bytes[..2].copy_from_slice(&(INET6 as u16).to_ne_bytes());
        bytes[2..4].copy_from_slice(&port.to_be_bytes());
        bytes[18..20].copy_from_slice(&[0xff, 0xff]);
        bytes[20..24].copy_from_slice(&[127, 0, 0, 1]);
        Address { bytes, length: 28 }
    }

    fn pointer(&self) -> *const c_void {
        self.bytes.as_ptr().cast()
    }
}

fn open(family: i32, kind: i32, protocol: i32) -> Result<i32, Failure> {
    // SAFETY: takes numbers only.
    let opened = done(unsafe { socket(family, kind, protocol) })?;
    i32::try_from(opened).map_err(|_| refused())
}

fn connected(descriptor: i32, address: &Address, message: &str) -> Attempt {
    // SAFETY: the address has at least the length it says.
    done(unsafe { connect(descriptor, address.pointer(), address.length) })?;
    // SAFETY: the bytes live as long as the call.
    done(unsafe { write(descriptor, message.as_ptr().cast(), message.len()) } as i64).map(drop)
}

fn port(arguments: &[String]) -> Result<u16, Failure> {
    let number = number(arguments, 0)?;
    u16::try_from(number).map_err(|_| Failure::Impossible(format!("{number} is no port")))
}

fn tcp(arguments: &[String]) -> Attempt {
    let descriptor = open(INET, STREAM, 0)?;
    connected(descriptor, &Address::loopback(port(arguments)?), argument(arguments, 1)?)
}

fn tcp6(arguments: &[String]) -> Attempt {
    let descriptor = open(INET6, STREAM, 0)?;
    connected(descriptor, &Address::loopback6(port(arguments)?), argument(arguments, 1)?)
}

fn udp(arguments: &[String]) -> Attempt {
    let descriptor = open(INET, DATAGRAM, 0)?;
    send_to(descriptor, &Address::loopback(port(arguments)?), argument(arguments, 1)?)
}

fn udp_connected(arguments: &[String]) -> Attempt {
    let descriptor = open(INET, DATAGRAM, 0)?;
    connected(descriptor, &Address::loopback(port(arguments)?), argument(arguments, 1)?)
}

fn send_to(descriptor: i32, address: &Address, message: &str) -> Attempt {
    // SAFETY: message and address have the lengths they say.
    let sent = unsafe {
        sendto(
            descriptor,
            message.as_ptr().cast(),
            message.len(),
            0,
            address.pointer(),
            address.length,
        )
    };
    done(sent as i64).map(drop)
}

/// A `msghdr` with one piece of data; `mmsghdr` has a length behind it.
#[repr(C)]
struct Message {
    name: *const c_void,
    name_length: u32,
    pieces: *const Piece,
    piece_count: usize,
    control: *const c_void,
    control_length: usize,
    flags: i32,
    sent: u32,
}

#[repr(C)]
struct Piece {
    data: *const c_void,
    length: usize,
}

fn send_message(descriptor: i32, address: &Address, message: &str, many: bool) -> Attempt {
    let piece = Piece { data: message.as_ptr().cast(), length: message.len() };
    let header = Message {
        name: address.pointer(),
        name_length: address.length,
        pieces: &raw const piece,
        piece_count: 1,
        control: std::ptr::null(),
        control_length: 0,
        flags: 0,
        sent: 0,
    };
    let header = &raw const header;
    // SAFETY: everything that the header names outlives the call.
    let sent = unsafe {
        if many {
            syscall(numbers::SENDMMSG, i64::from(descriptor), header, 1_i64, 0_i64)
        } else {
            sendmsg(descriptor, header.cast(), 0) as i64
        }
    };
    done(sent).map(drop)
}

fn unix(arguments: &[String], kind: i32, way: Way) -> Attempt {
    let address = Address::unix(argument(arguments, 0)?);
    let message = argument(arguments, 1)?;
    let descriptor = open(UNIX, kind, 0)?;
    match way {
        Way::Connect => connected(descriptor, &address, message),
        Way::SendTo => send_to(descriptor, &address, message),
        Way::SendMessage => send_message(descriptor, &address, message, false),
        Way::SendMessages => send_message(descriptor, &address, message, true),
    }
}

fn pair(family: i32, kind: i32) -> Result<[i32; 2], Failure> {
    let mut ends = [0; 2];
    // SAFETY: there is room for two.
    done(unsafe { socketpair(family, kind, 0, ends.as_mut_ptr()) })?;
    Ok(ends)
}

/// One end of a datagram pair can be made to talk to anybody.
fn pair_sendmsg(arguments: &[String]) -> Attempt {
    let address = Address::unix(argument(arguments, 0)?);
    let [end, _other] = pair(UNIX, DATAGRAM)?;
    send_message(end, &address, argument(arguments, 1)?, false)
}

/// `socket FAMILY KIND PROTOCOL`
fn any_socket(arguments: &[String]) -> Attempt {
    let number = |index| number(arguments, index).map(|number| number as i32);
    open(number(0)?, number(1)?, number(2)?).map(drop)
}

fn any_pair(arguments: &[String]) -> Attempt {
    let number = |index| number(arguments, index).map(|number| number as i32);
    pair(number(0)?, number(1)?).map(drop)
}

/// Lets the host reach us: a name in a folder that both see.
fn serve_unix(arguments: &[String]) -> Attempt {
    let address = Address::unix(argument(arguments, 0)?);
    serve(open(UNIX, STREAM, 0)?, &address)
}

fn serve_tcp(_: &[String]) -> Attempt {
    serve(open(INET, STREAM, 0)?, &Address::loopback(0))
}

fn serve(descriptor: i32, address: &Address) -> Attempt {
    // SAFETY: the address has the length it says.
    done(unsafe { bind(descriptor, address.pointer(), address.length) })?;
    // SAFETY: takes numbers only.
    done(unsafe { listen(descriptor, 1) }).map(drop)
}
