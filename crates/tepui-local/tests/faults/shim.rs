//! Injects faults between storage and the C library.
//!
//! Compiled by `harness.rs` with plain `rustc` and loaded into a child with `LD_PRELOAD`; no
//! part of the crate. The first byte of the file named by `TEPUI_FAULT` says what fails:
//!
//! - `s`: syncs fail with EIO
//! - `w`: writes to files of the data directory fail with ENOSPC
//! - `t`: writes to tables fail with ENOSPC, the write-ahead log still works
//! - `h`: syncs hang for as long as the file says so

use std::ffi::{CString, c_char, c_int, c_long, c_void};

const EIO: c_int = 5;
const ENOSPC: c_int = 28;
const O_RDONLY: c_int = 0;

unsafe extern "C" {
    fn syscall(number: c_long, ...) -> c_long;
    fn __errno_location() -> *mut c_int;
    fn usleep(microseconds: u32) -> c_int;
    fn getenv(name: *const c_char) -> *const c_char;
}

#[cfg(target_arch = "x86_64")]
mod number {
    pub const READ: i64 = 0;
    pub const WRITE: i64 = 1;
    pub const CLOSE: i64 = 3;
    pub const PWRITE64: i64 = 18;
    pub const FSYNC: i64 = 74;
    pub const FDATASYNC: i64 = 75;
    pub const OPENAT: i64 = 257;
    pub const READLINKAT: i64 = 267;
}

#[cfg(target_arch = "aarch64")]
mod number {
    pub const READ: i64 = 63;
    pub const WRITE: i64 = 64;
    pub const CLOSE: i64 = 57;
    pub const PWRITE64: i64 = 68;
    pub const FSYNC: i64 = 82;
    pub const FDATASYNC: i64 = 83;
    pub const OPENAT: i64 = 56;
    pub const READLINKAT: i64 = 78;
}

const AT_FDCWD: c_int = -100;

fn fault() -> u8 {
    unsafe {
        let path = getenv(c"TEPUI_FAULT".as_ptr());
        if path.is_null() {
            return 0;
        }
        let file = syscall(number::OPENAT, AT_FDCWD, path, O_RDONLY);
        if file < 0 {
            return 0;
        }
        let mut byte = 0u8;
        syscall(number::READ, file, &raw mut byte, 1usize);
        syscall(number::CLOSE, file);
        byte
    }
}

fn path_contains(file: c_int, part: &str) -> bool {
    let Ok(link) = CString::new(format!("/proc/self/fd/{file}")) else { return false };
    let mut path = [0u8; 4096];
    let length = unsafe { syscall(number::READLINKAT, AT_FDCWD, link.as_ptr(), path.as_mut_ptr(), path.len()) };
    usize::try_from(length).is_ok_and(|length| String::from_utf8_lossy(&path[..length]).contains(part))
}

fn fail(error: c_int) -> c_int {
    unsafe { *__errno_location() = error };
    -1
}

fn sync(number: c_long, file: c_int) -> c_int {
    while fault() == b'h' {
        unsafe { usleep(1000) };
    }
    // What a failed sync means is unknown, so the bytes may as well have arrived.
    let result = unsafe { syscall(number, file) } as c_int;
    if fault() == b's' { fail(EIO) } else { result }
}

#[unsafe(no_mangle)]
pub extern "C" fn fsync(file: c_int) -> c_int {
    sync(number::FSYNC, file)
}

#[unsafe(no_mangle)]
pub extern "C" fn fdatasync(file: c_int) -> c_int {
    sync(number::FDATASYNC, file)
}

#[unsafe(no_mangle)]
pub extern "C" fn write(file: c_int, bytes: *const c_void, count: usize) -> isize {
    if write_fails(file) {
        return fail(ENOSPC) as isize;
    }
    unsafe { syscall(number::WRITE, file, bytes, count) as isize }
}

#[unsafe(no_mangle)]
pub extern "C" fn pwrite64(file: c_int, bytes: *const c_void, count: usize, offset: i64) -> isize {
    if write_fails(file) {
        return fail(ENOSPC) as isize;
    }
    unsafe { syscall(number::PWRITE64, file, bytes, count, offset) as isize }
}

fn write_fails(file: c_int) -> bool {
    match fault() {
        b'w' => path_contains(file, "/tepui-data/"),
        b't' => path_contains(file, "/rows/") && !path_contains(file, "MANIFEST"),
        _ => false,
    }
}
