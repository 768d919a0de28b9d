//! What listens on the host: everything that hears writes it down, so that a message that got out
//! is found by the word it carries.

use std::ffi::CString;
use std::io::Read as _;
use std::net::{TcpListener, UdpSocket};
use std::os::fd::AsRawFd as _;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// Ears of the host. They end with the test's process.
pub struct Host {
    folder: tempfile::TempDir,
    heard: Arc<Mutex<Vec<u8>>>,
    /// Names and addresses, as variables for commands.
    pub variables: Vec<(&'static str, String)>,
    queue: i32,
    memory: i32,
    posix_queue: i32,
    posix_name: CString,
}

/// Nothing may hang on a client that stays silent.
const SILENCE: Duration = Duration::from_secs(5);

impl Host {
    pub fn new() -> Self {
        let folder = tempfile::Builder::new()
            .prefix("escape-host-")
            .tempdir_in(super::world::WORLDS)
            .unwrap();
        open_for_all(folder.path());
        let heard = Arc::new(Mutex::new(Vec::new()));
        static NEXT: AtomicU32 = AtomicU32::new(0);
        // Ears are never taken off, so the next host in this process has other ones.
        let id = std::process::id() << 4 | NEXT.fetch_add(1, Ordering::Relaxed) & 15;
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        let at = |name: &str| folder.path().join(name);
        let (stream, datagram) = (at("stream"), at("datagram"));
        let names = [format!("escape-stream-{id}"), format!("escape-datagram-{id}")];
        let key = i32::try_from(0x6573_0000 | id & 0xffff).unwrap();
        let posix_name = CString::new(format!("/escape-{id}")).unwrap();
        let (queue, memory, posix_queue) = channels(key, &posix_name);
        let variables = vec![
            ("TCP", tcp.local_addr().unwrap().port().to_string()),
            ("UDP", udp.local_addr().unwrap().port().to_string()),
            ("STREAM", stream.display().to_string()),
            ("DATAGRAM", datagram.display().to_string()),
            ("ABSTRACT", format!("@{}", names[0])),
            ("ABSTRACT_DATAGRAM", format!("@{}", names[1])),
            ("SYSV", key.to_string()),
            ("QUEUE", posix_name.to_str().unwrap().to_owned()),
        ];
        let unix = UnixListener::bind(&stream).unwrap();
        let hidden = SocketAddr::from_abstract_name(&names[0]).unwrap();
        let hidden = UnixListener::bind_addr(&hidden).unwrap();
        let datagrams = UnixDatagram::bind(&datagram).unwrap();
        let hidden_datagrams = SocketAddr::from_abstract_name(&names[1]).unwrap();
        let hidden_datagrams = UnixDatagram::bind_addr(&hidden_datagrams).unwrap();
        open_for_all(&stream);
        open_for_all(&datagram);
        hear_all(&heard, tcp, |ear| {
            let (stream, _) = ear.accept().ok()?;
            stream.set_read_timeout(Some(SILENCE)).ok()?;
            read(stream)
        });
        for ear in [unix, hidden] {
            hear_all(&heard, ear, |ear| {
                let (stream, _) = ear.accept().ok()?;
                stream.set_read_timeout(Some(SILENCE)).ok()?;
                read(stream)
            });
        }
        hear_all(&heard, udp, |ear| {
            let mut bytes = [0; 512];
            let length = ear.recv(&mut bytes).ok()?;
            Some(bytes[..length].to_vec())
        });
        for ear in [datagrams, hidden_datagrams] {
            hear_all(&heard, ear, |ear| {
                let mut bytes = [0; 512];
                let length = ear.recv(&mut bytes).ok()?;
                Some(bytes[..length].to_vec())
            });
        }
        Host { folder, heard, variables, queue, memory, posix_queue, posix_name }
    }

    /// A folder that everybody may enter, for programs that all attempts share.
    pub fn folder(&self) -> PathBuf {
        self.folder.path().to_owned()
    }

    /// Whether anything on the host was told this word.
    pub fn has_heard(&self, word: &str) -> bool {
        self.drain();
        let heard = self.heard.lock().unwrap();
        heard.windows(word.len()).any(|part| part == word.as_bytes())
    }

    /// Takes what waits in the queues.
    fn drain(&self) {
        const NO_WAIT: i32 = libc::IPC_NOWAIT;
        let mut message = [0_u8; 8 + 512];
        loop {
            // SAFETY: there is room for the type and for 512 bytes.
            let length =
                unsafe { libc::msgrcv(self.queue, message.as_mut_ptr().cast(), 512, 0, NO_WAIT) };
            let Ok(length) = usize::try_from(length) else { break };
            self.heard.lock().unwrap().extend_from_slice(&message[8..8 + length]);
        }
        loop {
            // SAFETY: the queue's messages have at most 512 bytes.
            let length = unsafe {
                libc::mq_receive(
                    self.posix_queue,
                    message.as_mut_ptr().cast(),
                    512,
                    std::ptr::null_mut(),
                )
            };
            let Ok(length) = usize::try_from(length) else { break };
            self.heard.lock().unwrap().extend_from_slice(&message[..length]);
        }
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // SAFETY: takes numbers and a C string; nobody uses them any more.
        unsafe {
            libc::msgctl(self.queue, libc::IPC_RMID, std::ptr::null_mut());
            libc::shmctl(self.memory, libc::IPC_RMID, std::ptr::null_mut());
            libc::mq_close(self.posix_queue);
            libc::mq_unlink(self.posix_name.as_ptr());
        }
    }
}

fn open_for_all(path: &Path) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).unwrap();
}

/// A queue and a piece of memory in the manner of System V, and a queue in that of POSIX.
fn channels(key: i32, name: &CString) -> (i32, i32, i32) {
    // SAFETY: the structure is numbers only; the rest takes numbers and a C string.
    unsafe {
        let queue = libc::msgget(key, libc::IPC_CREAT | 0o666);
        let memory = libc::shmget(key, 4096, libc::IPC_CREAT | 0o666);
        let mut shape: libc::mq_attr = std::mem::zeroed();
        shape.mq_maxmsg = 10;
        shape.mq_msgsize = 512;
        let flags = libc::O_CREAT | libc::O_RDWR | libc::O_NONBLOCK;
        let before = libc::umask(0);
        let posix = libc::mq_open(name.as_ptr(), flags, 0o666, &raw mut shape);
        libc::umask(before);
        assert!(queue >= 0 && memory >= 0 && posix >= 0, "{}", std::io::Error::last_os_error());
        (queue, memory, posix)
    }
}

fn read(mut from: impl std::io::Read) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    // A reset is the end, too.
    from.by_ref().take(512).read_to_end(&mut bytes).ok();
    Some(bytes)
}

/// Writes down what an ear hears, for as long as the process lives.
fn hear_all<T: Send + 'static + std::os::fd::AsFd>(
    heard: &Arc<Mutex<Vec<u8>>>,
    ear: T,
    hear: impl Fn(&T) -> Option<Vec<u8>> + Send + 'static,
) {
    let heard = heard.clone();
    thread::spawn(move || {
        assert!(ear.as_fd().as_raw_fd() >= 0);
        while let Some(bytes) = hear(&ear) {
            heard.lock().unwrap().extend_from_slice(&bytes);
        }
    });
}
