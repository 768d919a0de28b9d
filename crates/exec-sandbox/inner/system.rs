//! The parts of a view that are the kernel's: `/dev`, `/dev/shm` and `/proc`.

use core::ffi::CStr;

use crate::failure::{At, Failure, Result};
use crate::format::Deed;
use crate::mounts::{self, Depth, NO_DEVICES, NO_EXEC, NO_SUID, READ_ONLY};
use crate::sys::{self, Fd, nr};
use crate::view::{Kind, View};

/// Devices that give nothing away.
const DEVICES: [&CStr; 6] = [c"null", c"zero", c"full", c"random", c"urandom", c"tty"];

const LINKS: [(&CStr, &CStr); 6] = [
    (c"fd", c"/proc/self/fd"),
    (c"stdin", c"/proc/self/fd/0"),
    (c"stdout", c"/proc/self/fd/1"),
    (c"stderr", c"/proc/self/fd/2"),
    (c"core", c"/proc/kcore"),
    (c"ptmx", c"pts/ptmx"),
];

/// Entries of `/proc` that tell too much of the machine, or reach it.
const HIDDEN: [&[u8]; 6] = [b"kcore", b"keys", b"timer_list", b"latency_stats", b"scsi", b"acpi"];

impl View {
    /// A private `/dev`.
    pub fn devices(&mut self, terminal: bool) -> Result<()> {
        let base = self.base.raw();
        sys::make_dir(base, c"dev", 0o755).at(Deed::Target)?;
        sys::make_dir(base, c"dev/pts", 0o755).at(Deed::Target)?;
        sys::make_dir(base, c"dev/shm", 0o755).at(Deed::Target)?;
        sys::make_dir(base, c"shm", 0o1777).at(Deed::Target)?;
        let here = sys::open_plain(base, c"dev", sys::O_DIRECTORY).at(Deed::Target)?;
        for (name, target) in LINKS {
            sys::make_link(target, here.raw(), name).at(Deed::Target)?;
        }
        let place = self.place(c"/dev", Kind::Directory)?;
        let devices = mounts::bind(&here, &place, NO_SUID | NO_DEVICES, Depth::Alone)?;
        let host = sys::open_plain(self.host.raw(), c"dev", sys::O_DIRECTORY).at(Deed::Source)?;
        for name in DEVICES {
            match sys::open_plain(host.raw(), name, 0) {
                // A container may lack one; then so does the command.
                Err(sys::ENOENT) => {}
                device => put_device(&device.at(Deed::Source)?, &devices, name)?,
            }
        }
        let options = [(c"mode", c"0620"), (c"ptmxmode", c"0666")];
        let terminals = mounts::file_system(c"devpts", &options, NO_SUID | NO_EXEC)?;
        let place = sys::open_plain(devices.raw(), c"pts", 0).at(Deed::Target)?;
        mounts::attach(&terminals, &place)?;
        let shared = sys::open_plain(base, c"shm", 0).at(Deed::Source)?;
        let place = sys::open_plain(devices.raw(), c"shm", 0).at(Deed::Target)?;
        mounts::bind(&shared, &place, NO_SUID | NO_DEVICES, Depth::Alone)?;
        if terminal && let Some(own) = self.own_terminal() {
            put_device(&own, &devices, c"console")?;
        }
        self.devices = Some(devices);
        Ok(())
    }

    /// The terminal on descriptor 0, which has no name in the private `/dev/pts`. With another name in
    /// `/dev`, programs that ask for one find it. `None` if the host's `/dev/pts` is not the one it is
    /// from.
    fn own_terminal(&self) -> Option<Fd> {
        let mut name = [0; 64];
        let length = name.len() - 1;
        let buffer = (&raw mut name).addr();
        // SAFETY: the buffer has room for so much.
        let read = |link| [sys::AT_FDCWD, link, buffer, length, 0, 0];
        sys::with_text(nr::READLINKAT, c"/proc/self/fd/0", read).ok()?;
        let name = CStr::from_bytes_until_nul(name.strip_prefix(b"/")?).ok()?;
        let found = sys::open_plain(self.host.raw(), name, 0).ok()?;
        let same = sys::stat(found.raw()).ok()?.device == sys::stat(0).ok()?.device;
        same.then_some(found)
    }

    /// The host's shared memory, if it has some.
    pub fn shared_memory(&self) -> Result<()> {
        match sys::open_plain(self.host.raw(), c"dev/shm", sys::O_DIRECTORY) {
            Err(sys::ENOENT | sys::ENOTDIR) => Ok(()),
            source => {
                let place = self.existing(c"/dev/shm")?;
                let attributes = NO_SUID | NO_DEVICES;
                mounts::bind(&source.at(Deed::Source)?, &place, attributes, Depth::WithAllBelow)
                    .map(drop)
            }
        }
    }

    /// The processes of this namespace. What of it belongs to the machine is closed.
    pub fn processes(&mut self) -> Result<()> {
        let processes = mounts::file_system(c"proc", &[], NO_SUID | NO_DEVICES | NO_EXEC)?;
        let place = self.place(c"/proc", Kind::Directory)?;
        mounts::attach(&processes, &place)?;
        let flags = sys::O_RDONLY | sys::O_DIRECTORY;
        let listing = sys::open(processes.raw(), c".", flags).at(Deed::Source)?;
        let mut buffer = Entries::new();
        while let Some(filled) = buffer.fill(&listing)? {
            let mut rest = filled;
            while let Some((name, after)) = entry(rest) {
                rest = after;
                self.close_entry(&processes, name)?;
            }
        }
        if let Ok(firmware) = self.existing(c"/sys/firmware") {
            self.cover_directory(&firmware)?;
        }
        Ok(())
    }

    fn close_entry(&mut self, processes: &Fd, name: &CStr) -> Result<()> {
        let bytes = name.to_bytes();
        if bytes.first().is_none_or(|first| first.is_ascii_digit() || *first == b'.') {
            return Ok(());
        }
        let Ok(place) = sys::open_plain(processes.raw(), name, 0) else { return Ok(()) };
        let stat = sys::stat(place.raw()).at(Deed::Source)?;
        if HIDDEN.contains(&bytes) {
            return if stat.is_directory() {
                self.cover_directory(&place)
            } else {
                self.cover_file(&place)
            };
        }
        // The links lead to the reader's own directory.
        let is_writable = stat.mode & 0o222 != 0 || stat.is_directory();
        if stat.is_link() || !is_writable {
            return Ok(());
        }
        let attributes = NO_SUID | NO_DEVICES | NO_EXEC | READ_ONLY;
        mounts::bind(&place, &place, attributes, Depth::Alone).map(drop)
    }
}

fn put_device(device: &Fd, devices: &Fd, name: &CStr) -> Result<()> {
    /// S_IFCHR.
    const CHARACTER: u32 = 0o020000;
    let stat = sys::stat(device.raw()).at(Deed::Source)?;
    if stat.mode & 0o170000 != CHARACTER {
        return Err(Failure { deed: Deed::Source, errno: sys::EINVAL });
    }
    sys::make_file(devices.raw(), name, 0o644).at(Deed::Target)?;
    let place = sys::open_plain(devices.raw(), name, 0).at(Deed::Target)?;
    mounts::bind(device, &place, NO_SUID | NO_EXEC, Depth::Alone).map(drop)
}

/// Room for a part of a directory's listing, aligned as the kernel writes it.
#[repr(C, align(8))]
struct Entries {
    bytes: [u8; 4096],
}

impl Entries {
    fn new() -> Self {
        Entries { bytes: [0; 4096] }
    }

    fn fill(&mut self, listing: &Fd) -> Result<Option<&[u8]>> {
        let args = [listing.raw(), self.bytes.as_mut_ptr().addr(), self.bytes.len(), 0, 0, 0];
        // SAFETY: the buffer is valid for writes of its length.
        let count = unsafe { sys::call(nr::GETDENTS64, args) }.at(Deed::Source)?;
        Ok(self.bytes.get(..count).filter(|filled| !filled.is_empty()))
    }
}

/// The name of the first entry of a `linux_dirent64` list, and what follows it.
fn entry(list: &[u8]) -> Option<(&CStr, &[u8])> {
    const LENGTH_AT: usize = 16;
    const NAME_AT: usize = 19;
    let length = u16::from_ne_bytes([*list.get(LENGTH_AT)?, *list.get(LENGTH_AT + 1)?]);
    let name = CStr::from_bytes_until_nul(list.get(NAME_AT..length.into())?).ok()?;
    Some((name, list.get(length.into()..)?))
}
