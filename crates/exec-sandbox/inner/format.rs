//! The program that the server writes and `inner` carries out, and what `inner` answers.
//!
//! One file for both sides: the server encodes, `inner` decodes, and the tests on the host do both.
//! Whatever `inner` reads was checked here: every length lies within the program, every text ends with
//! its only NUL, every list holds as many texts as it says, and nothing follows the last step.

use core::ffi::CStr;

/// The first bytes of a program. The last digit is the version of the format.
pub const MAGIC: [u8; 8] = *b"inner-01";

/// A program is no longer than this: arguments and environment of a command fit many times over.
pub const PROGRAM_BYTES_MAX: usize = 32 << 20;

/// The descriptor that holds the program.
pub const PROGRAM_FD: i32 = 3;
/// The descriptor of the status channel.
pub const STATUS_FD: i32 = 4;

/// One thing to do. They are done in the order in which they stand; the first that fails ends all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step<'a> {
    /// Says who the caller is in its new user namespace: the same as outside.
    Identity { uid: u32, gid: u32 },
    /// Leaves the namespaces of these `CLONE_NEW` flags.
    Unshare { flags: u64 },
    /// Lets nobody make a user namespace inside this one, where the kernel lets itself be told.
    NoUserNamespaces,
    /// Brings the loopback device up, where that is allowed.
    Loopback,
    /// Begins the view.
    Root(RootKind),
    /// A private `/dev`.
    Devices { terminal: bool },
    /// The host's `/dev/shm`.
    SharedMemory,
    /// A tree of the host.
    Bind { path: &'a CStr, writable: bool, witness: Option<Object> },
    /// A directory, or a symbolic link, mounted on itself.
    Pin { path: &'a CStr, witness: Option<Object> },
    /// A symbolic link in an empty root.
    Link { path: &'a CStr, target: &'a CStr },
    /// An empty directory over what is there, with these directories and files in it.
    MaskDirectory {
        path: &'a CStr,
        mode: u32,
        passages: Texts<'a>,
        files: Texts<'a>,
        witness: Option<Object>,
    },
    /// An empty file over what is there.
    MaskFile { path: &'a CStr, witness: Option<Object> },
    /// A fresh `/proc`, with what the kernel lets be written closed.
    Processes,
    /// The root becomes read-only.
    SealRoot,
    /// An object of the host that must still be the same.
    Witness { path: &'a CStr, object: Object },
    /// The view becomes the root, and the host's tree goes away.
    Enter,
    /// A resource limit.
    Limit { resource: u32, soft: u64, hard: u64 },
    /// Gives up every capability, for ever.
    DropCapabilities,
    /// Set-uid programs and file capabilities give nothing any more.
    NoNewPrivileges,
    /// Begins a Landlock ruleset that handles these rights, on files and on ports, and scopes.
    Landlock { file_rights: u64, port_rights: u64, scopes: u64 },
    /// Allows rights below a path; one that does not exist is passed over.
    LandlockAllow { path: &'a CStr, rights: u64 },
    /// Allows rights on what a descriptor stands for, if the kernel takes it.
    LandlockAllowDescriptor { descriptor: u32, rights: u64 },
    /// Puts the ruleset into force.
    LandlockEnforce,
    /// Installs a system call filter: instructions of eight bytes.
    Filter { flags: u32, instructions: &'a [u8] },
    /// Starts the command. The last step.
    Command {
        /// Whether this process becomes the command, or starts it and reaps what it leaves.
        becomes: bool,
        /// Whether descriptor 0 is a terminal that the command is to control.
        terminal: bool,
        cwd: &'a CStr,
        candidates: Texts<'a>,
        argv: Texts<'a>,
        env: Texts<'a>,
    },
}

/// What a view begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RootKind {
    HostReadOnly,
    HostWritable,
    Empty,
}

/// A file or directory, whatever its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Object {
    pub major: u32,
    pub minor: u32,
    pub inode: u64,
}

/// A list of texts: back to back, each with its NUL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Texts<'a> {
    bytes: &'a [u8],
}

impl<'a> Texts<'a> {
    /// `None` unless the bytes are empty or end with a NUL.
    pub fn new(bytes: &'a [u8]) -> Option<Self> {
        matches!(bytes.last(), None | Some(0)).then_some(Texts { bytes })
    }

    /// How many there are.
    pub fn count(self) -> usize {
        self.bytes.iter().filter(|&&byte| byte == 0).count()
    }
}

impl<'a> Iterator for Texts<'a> {
    type Item = &'a CStr;

    fn next(&mut self) -> Option<&'a CStr> {
        let text = CStr::from_bytes_until_nul(self.bytes).ok()?;
        self.bytes = self.bytes.get(text.to_bytes_with_nul().len()..)?;
        Some(text)
    }
}

/// The program is not one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed;

/// Where encoded bytes go.
pub trait Sink {
    fn put(&mut self, bytes: &[u8]);
}

/// The steps of a program, in order. Ends after the first that is malformed.
#[derive(Debug, Clone)]
pub struct Steps<'a> {
    reader: Reader<'a>,
}

impl<'a> Steps<'a> {
    pub fn new(program: &'a [u8]) -> Result<Self, Malformed> {
        if program.len() > PROGRAM_BYTES_MAX {
            return Err(Malformed);
        }
        let rest = program.strip_prefix(&MAGIC).ok_or(Malformed)?;
        Ok(Steps { reader: Reader { rest } })
    }
}

impl<'a> Iterator for Steps<'a> {
    type Item = Result<Step<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.reader.rest.is_empty() {
            return None;
        }
        let step = self.reader.step();
        if step.is_err() {
            self.reader.rest = &[];
        }
        Some(step)
    }
}

#[derive(Debug, Clone)]
struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let taken = self.rest.get(..count).ok_or(Malformed)?;
        self.rest = self.rest.get(count..).ok_or(Malformed)?;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        self.take(N)?.try_into().map_err(|_| Malformed)
    }

    fn u8(&mut self) -> Result<u8, Malformed> {
        self.array::<1>().map(|[byte]| byte)
    }

    fn flag(&mut self) -> Result<bool, Malformed> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed),
        }
    }

    fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_le_bytes)
    }

    fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let length = usize::try_from(self.u32()?).map_err(|_| Malformed)?;
        self.take(length)
    }

    fn text(&mut self) -> Result<&'a CStr, Malformed> {
        CStr::from_bytes_with_nul(self.bytes()?).map_err(|_| Malformed)
    }

    /// Absolute, with no `.`, `..` or empty part.
    fn path(&mut self) -> Result<&'a CStr, Malformed> {
        let path = self.text()?;
        let parts = path.to_bytes().strip_prefix(b"/").ok_or(Malformed)?;
        let plain = |part: &[u8]| !matches!(part, b"" | b"." | b"..");
        let normal = parts.is_empty() || parts.split(|&byte| byte == b'/').all(plain);
        if normal { Ok(path) } else { Err(Malformed) }
    }

    fn texts(&mut self) -> Result<Texts<'a>, Malformed> {
        Texts::new(self.bytes()?).ok_or(Malformed)
    }

    fn object(&mut self) -> Result<Object, Malformed> {
        Ok(Object { major: self.u32()?, minor: self.u32()?, inode: self.u64()? })
    }

    fn witness(&mut self) -> Result<Option<Object>, Malformed> {
        Ok(if self.flag()? { Some(self.object()?) } else { None })
    }

    fn root(&mut self) -> Result<RootKind, Malformed> {
        match self.u8()? {
            0 => Ok(RootKind::HostReadOnly),
            1 => Ok(RootKind::HostWritable),
            2 => Ok(RootKind::Empty),
            _ => Err(Malformed),
        }
    }

    fn step(&mut self) -> Result<Step<'a>, Malformed> {
        Ok(match self.u8()? {
            1 => Step::Identity { uid: self.u32()?, gid: self.u32()? },
            2 => Step::Unshare { flags: self.u64()? },
            3 => Step::NoUserNamespaces,
            4 => Step::Loopback,
            5 => Step::Root(self.root()?),
            6 => Step::Devices { terminal: self.flag()? },
            7 => Step::SharedMemory,
            8 => {
                Step::Bind { path: self.path()?, writable: self.flag()?, witness: self.witness()? }
            }
            9 => Step::Pin { path: self.path()?, witness: self.witness()? },
            10 => Step::MaskDirectory {
                path: self.path()?,
                mode: self.u32()?,
                passages: self.texts()?,
                files: self.texts()?,
                witness: self.witness()?,
            },
            11 => Step::MaskFile { path: self.path()?, witness: self.witness()? },
            12 => Step::Processes,
            13 => Step::SealRoot,
            14 => Step::Witness { path: self.path()?, object: self.object()? },
            15 => Step::Enter,
            16 => Step::Limit { resource: self.u32()?, soft: self.u64()?, hard: self.u64()? },
            17 => Step::DropCapabilities,
            18 => Step::NoNewPrivileges,
            19 => Step::Landlock {
                file_rights: self.u64()?,
                port_rights: self.u64()?,
                scopes: self.u64()?,
            },
            20 => Step::LandlockAllow { path: self.path()?, rights: self.u64()? },
            21 => Step::LandlockAllowDescriptor { descriptor: self.u32()?, rights: self.u64()? },
            22 => Step::LandlockEnforce,
            23 => Step::Filter { flags: self.u32()?, instructions: self.filter()? },
            24 => self.command()?,
            25 => Step::Link { path: self.path()?, target: self.text()? },
            _ => return Err(Malformed),
        })
    }

    fn filter(&mut self) -> Result<&'a [u8], Malformed> {
        let bytes = self.bytes()?;
        let count = bytes.len() / 8;
        // The kernel's own bound, BPF_MAXINSNS.
        let fits = bytes.len() % 8 == 0 && (1..=4096).contains(&count);
        if fits { Ok(bytes) } else { Err(Malformed) }
    }

    /// It has nothing behind it, has a name and something to execute.
    fn command(&mut self) -> Result<Step<'a>, Malformed> {
        let command = Step::Command {
            becomes: self.flag()?,
            terminal: self.flag()?,
            cwd: self.path()?,
            candidates: self.texts()?,
            argv: self.texts()?,
            env: self.texts()?,
        };
        if self.rest.is_empty() { Ok(command) } else { Err(Malformed) }
    }
}

impl Step<'_> {
    /// Appends the step to a program that begins with [`MAGIC`].
    pub fn encode(&self, out: &mut impl Sink) {
        let mut writer = Writer { out };
        match *self {
            Step::Identity { uid, gid } => writer.u8(1).u32(uid).u32(gid),
            Step::Unshare { flags } => writer.u8(2).u64(flags),
            Step::NoUserNamespaces => writer.u8(3),
            Step::Loopback => writer.u8(4),
            Step::Root(kind) => writer.u8(5).u8(match kind {
                RootKind::HostReadOnly => 0,
                RootKind::HostWritable => 1,
                RootKind::Empty => 2,
            }),
            Step::Devices { terminal } => writer.u8(6).flag(terminal),
            Step::SharedMemory => writer.u8(7),
            Step::Bind { path, writable, witness } => {
                writer.u8(8).text(path).flag(writable).witness(witness)
            }
            Step::Pin { path, witness } => writer.u8(9).text(path).witness(witness),
            Step::Link { path, target } => writer.u8(25).text(path).text(target),
            Step::MaskDirectory { path, mode, passages, files, witness } => {
                let mask = writer.u8(10).text(path).u32(mode);
                mask.bytes(passages.bytes).bytes(files.bytes).witness(witness)
            }
            Step::MaskFile { path, witness } => writer.u8(11).text(path).witness(witness),
            Step::Processes => writer.u8(12),
            Step::SealRoot => writer.u8(13),
            Step::Witness { path, object } => writer.u8(14).text(path).object(object),
            Step::Enter => writer.u8(15),
            Step::Limit { resource, soft, hard } => writer.u8(16).u32(resource).u64(soft).u64(hard),
            Step::DropCapabilities => writer.u8(17),
            Step::NoNewPrivileges => writer.u8(18),
            Step::Landlock { file_rights, port_rights, scopes } => {
                writer.u8(19).u64(file_rights).u64(port_rights).u64(scopes)
            }
            Step::LandlockAllow { path, rights } => writer.u8(20).text(path).u64(rights),
            Step::LandlockAllowDescriptor { descriptor, rights } => {
                writer.u8(21).u32(descriptor).u64(rights)
            }
            Step::LandlockEnforce => writer.u8(22),
            Step::Filter { flags, instructions } => writer.u8(23).u32(flags).bytes(instructions),
            Step::Command { becomes, terminal, cwd, candidates, argv, env } => {
                let command = writer.u8(24).flag(becomes).flag(terminal).text(cwd);
                command.bytes(candidates.bytes).bytes(argv.bytes).bytes(env.bytes)
            }
        };
    }
}

struct Writer<'s, S: Sink> {
    out: &'s mut S,
}

impl<S: Sink> Writer<'_, S> {
    fn u8(&mut self, value: u8) -> &mut Self {
        self.out.put(&[value]);
        self
    }

    fn flag(&mut self, value: bool) -> &mut Self {
        self.u8(u8::from(value))
    }

    fn u32(&mut self, value: u32) -> &mut Self {
        self.out.put(&value.to_le_bytes());
        self
    }

    fn u64(&mut self, value: u64) -> &mut Self {
        self.out.put(&value.to_le_bytes());
        self
    }

    /// Longer than a program can be is written as a length that no decoder finds there.
    fn bytes(&mut self, value: &[u8]) -> &mut Self {
        self.u32(u32::try_from(value.len()).unwrap_or(u32::MAX));
        self.out.put(value);
        self
    }

    fn text(&mut self, value: &CStr) -> &mut Self {
        self.bytes(value.to_bytes_with_nul())
    }

    fn object(&mut self, object: Object) -> &mut Self {
        self.u32(object.major).u32(object.minor).u64(object.inode)
    }

    fn witness(&mut self, witness: Option<Object>) -> &mut Self {
        match witness {
            Some(object) => self.flag(true).object(object),
            None => self.flag(false),
        }
    }
}

/// What `inner` was doing when a step failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Deed {
    Other = 0,
    Source = 1,
    Target = 2,
    Clone = 3,
    Attributes = 4,
    Attach = 5,
    FileSystem = 6,
    Compare = 7,
    Pivot = 8,
    Verify = 9,
}

impl Deed {
    const ALL: [Deed; 10] = [
        Deed::Other,
        Deed::Source,
        Deed::Target,
        Deed::Clone,
        Deed::Attributes,
        Deed::Attach,
        Deed::FileSystem,
        Deed::Compare,
        Deed::Pivot,
        Deed::Verify,
    ];
}

/// What `inner` says about the launch, once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// The command runs.
    Ready,
    /// A step failed; nothing of the command ran.
    Failed { step: u32, deed: Deed, errno: i32 },
    /// Everything stands, but the command cannot be executed, or its directory not be entered.
    NotExecuted { errno: i32 },
    /// The program cannot be read.
    Malformed,
    /// This process is about to become the command. If no [`Status::NotExecuted`] follows before the
    /// channel closes, it has.
    Executing,
}

/// The length of an encoded status.
pub const STATUS_BYTES: usize = 16;

impl Status {
    pub fn encode(self) -> [u8; STATUS_BYTES] {
        let (kind, step, deed, errno) = match self {
            Status::Ready => (1, 0, 0, 0),
            Status::Failed { step, deed, errno } => (2, step, deed as u32, errno.unsigned_abs()),
            Status::NotExecuted { errno } => (3, 0, 0, errno.unsigned_abs()),
            Status::Malformed => (4, 0, 0, 0),
            Status::Executing => (5, 0, 0, 0),
        };
        let mut message = [0; STATUS_BYTES];
        for (place, word) in message.chunks_exact_mut(4).zip([kind, step, deed, errno]) {
            place.copy_from_slice(&u32::to_le_bytes(word));
        }
        message
    }

    pub fn decode(message: &[u8]) -> Option<Self> {
        let mut reader = Reader { rest: message };
        let mut word = || reader.u32().ok();
        let (kind, step, deed, errno) = (word()?, word()?, word()?, word()?);
        let errno = i32::try_from(errno).ok()?;
        let status = match kind {
            1 => Status::Ready,
            2 => {
                let deed = Deed::ALL.into_iter().find(|known| *known as u32 == deed)?;
                Status::Failed { step, deed, errno }
            }
            3 => Status::NotExecuted { errno },
            4 => Status::Malformed,
            5 => Status::Executing,
            _ => return None,
        };
        reader.rest.is_empty().then_some(status)
    }
}
