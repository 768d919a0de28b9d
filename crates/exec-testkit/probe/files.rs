//! Opening, linking and making files in ways that a shell has no word for.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::fd::{AsRawFd as _, FromRawFd as _};

use crate::Try;
use crate::numbers;
use crate::sys::*;

pub(crate) const TRIES: &[(&str, Try)] = &[
    ("open-read", open_read),
    ("open-write", open_write),
    ("overwrite", overwrite),
    ("show", show),
    ("mknod", mknod),
    ("handle-read", |arguments| by_handle(arguments, false)),
    ("handle-write", |arguments| by_handle(arguments, true)),
    ("descriptors", descriptors),
    ("rewrite-same", rewrite_same),
    ("exchange", exchange),
    ("link-descriptor", link_descriptor),
];

/// Only opens, so that it can be tried on anything.
fn open_read(arguments: &[String]) -> Attempt {
    File::open(argument(arguments, 0)?).map(drop).map_err(system)
}

fn open_write(arguments: &[String]) -> Attempt {
    let opened = OpenOptions::new().write(true).open(argument(arguments, 0)?);
    opened.map(drop).map_err(system)
}

fn overwrite(arguments: &[String]) -> Attempt {
    let mut file = OpenOptions::new().write(true).open(argument(arguments, 0)?).map_err(system)?;
    file.write_all(b"overwritten").map_err(system)
}

/// Prints what is in a file; whoever started us looks for it.
fn show(arguments: &[String]) -> Attempt {
    let file = File::open(argument(arguments, 0)?).map_err(system)?;
    print(file)
}

fn print(file: File) -> Attempt {
    let mut bytes = Vec::new();
    file.take(1 << 16).read_to_end(&mut bytes).map_err(system)?;
    println!("{}", String::from_utf8_lossy(&bytes));
    Ok(())
}

/// `mknod PATH b|c MAJOR MINOR`, and opens what it made.
fn mknod(arguments: &[String]) -> Attempt {
    let path = text(argument(arguments, 0)?)?;
    let kind = if argument(arguments, 1)? == "b" { 0o060_000 } else { 0o020_000 };
    let (major, minor) = (number(arguments, 2)?, number(arguments, 3)?);
    let device = (major << 8) | minor;
    const HERE: i64 = -100;
    // SAFETY: the path is a C string; the rest are numbers.
    done(unsafe { syscall(numbers::MKNODAT, HERE, path.as_ptr(), kind | 0o600, device) })?;
    let opened = open_read(arguments);
    std::fs::remove_file(argument(arguments, 0)?).map_err(system)?;
    opened
}

/// Opens a file by its handle, from any mount, past every path.
fn by_handle(arguments: &[String], writing: bool) -> Attempt {
    const HERE: i64 = -100;
    let path = text(argument(arguments, 0)?)?;
    let mut handle = [0_u32; 2 + 32];
    handle[0] = 128;
    let mut mount = 0_i32;
    // SAFETY: the handle has room for the 128 bytes that its first word promises.
    done(unsafe {
        syscall(
            numbers::NAME_TO_HANDLE_AT,
            HERE,
            path.as_ptr(),
            handle.as_mut_ptr(),
            &raw mut mount,
            0_i64,
        )
    })?;
    // A directory of the same file system, reached through what we may see.
    let beside = File::open(argument(arguments, 1)?).map_err(system)?;
    let flags: i64 = if writing { 2 } else { 0 };
    // SAFETY: the handle came from the kernel, the descriptor is open.
    let opened = done(unsafe {
        syscall(
            numbers::OPEN_BY_HANDLE_AT,
            i64::from(beside.as_raw_fd()),
            handle.as_ptr(),
            flags,
        )
    })?;
    let descriptor = i32::try_from(opened).map_err(|_| refused())?;
    // SAFETY: a fresh descriptor that nobody else has.
    let mut file = unsafe { File::from_raw_fd(descriptor) };
    if writing { file.write_all(b"overwritten").map_err(system) } else { print(file) }
}

/// Descriptors beyond the three that everybody has.
fn descriptors(_: &[String]) -> Attempt {
    let mut extra = Vec::new();
    for number in 3..1024 {
        let path = format!("/proc/self/fd/{number}");
        if let Ok(target) = std::fs::read_link(path) {
            extra.push(format!("{number}: {}", target.display()));
        }
    }
    if extra.is_empty() {
        return Err(Failure::Refused(0));
    }
    println!("{}", extra.join("\n"));
    Ok(())
}

/// Writes to a setting of the kernel what it says already.
fn rewrite_same(arguments: &[String]) -> Attempt {
    let path = argument(arguments, 0)?;
    let value = std::fs::read(path).map_err(system)?;
    let mut file = OpenOptions::new().write(true).open(path).map_err(system)?;
    file.write_all(&value).map_err(system)
}

/// Swaps two names.
fn exchange(arguments: &[String]) -> Attempt {
    unsafe extern "C" {
        fn renameat2(
            from: i32,
            old: *const std::ffi::c_char,
            to: i32,
            new: *const std::ffi::c_char,
            flags: u32,
        ) -> i32;
    }
    let (one, other) = (text(argument(arguments, 0)?)?, text(argument(arguments, 1)?)?);
    // SAFETY: both are C strings.
    done(unsafe { renameat2(-100, one.as_ptr(), -100, other.as_ptr(), 2) }).map(drop)
}

/// Links an open file to a new name through its descriptor: `link-descriptor FILE NAME`.
fn link_descriptor(arguments: &[String]) -> Attempt {
    unsafe extern "C" {
        fn linkat(
            from: i32,
            old: *const std::ffi::c_char,
            to: i32,
            new: *const std::ffi::c_char,
            flags: i32,
        ) -> i32;
    }
    let file = File::open(argument(arguments, 0)?).map_err(system)?;
    let through = text(&format!("/proc/self/fd/{}", file.as_raw_fd()))?;
    let name = text(argument(arguments, 1)?)?;
    const FOLLOW: i32 = 0x400;
    // SAFETY: both are C strings.
    done(unsafe { linkat(-100, through.as_ptr(), -100, name.as_ptr(), FOLLOW) }).map(drop)
}
