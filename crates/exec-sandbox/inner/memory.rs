//! The functions that compiled code expects to find: for copying and comparing memory, and one for
//! unwinding. The crate is built with `no_builtins`, so their loops are not turned into calls of
//! themselves.

/// The core library mentions it in tables that nobody reads: a panic ends the process.
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {}

/// # Safety
/// As the C function.
#[unsafe(no_mangle)]
unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, count: usize) -> *mut u8 {
    let mut at = 0;
    while at < count {
        // SAFETY: the caller vouches for `count` bytes at both places.
        unsafe { to.add(at).write(from.add(at).read()) };
        at += 1;
    }
    to
}

/// # Safety
/// As the C function.
#[unsafe(no_mangle)]
unsafe extern "C" fn memmove(to: *mut u8, from: *const u8, count: usize) -> *mut u8 {
    if to.addr() <= from.addr() {
        // SAFETY: copied upwards, nothing is overwritten before it is read.
        return unsafe { memcpy(to, from, count) };
    }
    let mut at = count;
    while at > 0 {
        at -= 1;
        // SAFETY: the caller vouches for `count` bytes at both places.
        unsafe { to.add(at).write(from.add(at).read()) };
    }
    to
}

/// # Safety
/// As the C function.
#[unsafe(no_mangle)]
unsafe extern "C" fn memset(to: *mut u8, value: i32, count: usize) -> *mut u8 {
    let mut at = 0;
    while at < count {
        // SAFETY: the caller vouches for `count` bytes.
        unsafe { to.add(at).write(value as u8) };
        at += 1;
    }
    to
}

/// # Safety
/// As the C function.
#[unsafe(no_mangle)]
unsafe extern "C" fn memcmp(one: *const u8, other: *const u8, count: usize) -> i32 {
    let mut at = 0;
    while at < count {
        // SAFETY: the caller vouches for `count` bytes at both places.
        let (left, right) = unsafe { (one.add(at).read(), other.add(at).read()) };
        if left != right {
            return i32::from(left) - i32::from(right);
        }
        at += 1;
    }
    0
}

/// # Safety
/// As the C function.
#[unsafe(no_mangle)]
unsafe extern "C" fn bcmp(one: *const u8, other: *const u8, count: usize) -> i32 {
    // SAFETY: passed on to the caller.
    unsafe { memcmp(one, other, count) }
}

/// # Safety
/// As the C function.
#[unsafe(no_mangle)]
unsafe extern "C" fn strlen(text: *const u8) -> usize {
    let mut length = 0;
    // SAFETY: the caller vouches for a text that ends with a NUL.
    while unsafe { text.add(length).read() } != 0 {
        length += 1;
    }
    length
}
