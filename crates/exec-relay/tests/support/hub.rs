//! A registry and a rendezvous in the small, on loopback: enough for one real peer.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::{self, Message, WebSocket};

pub const ENVIRONMENT: &str = "env-1";
pub const REGISTRATION: &str = "reg-1";
pub const TOKEN: &str = "a token of our registry";
/// Upgrades that wait for the test.
const SOCKETS_MAX: usize = 16;
pub const DEADLINE: Duration = Duration::from_secs(30);

/// What the registry knows, and what it was asked.
#[derive(Default)]
pub struct Registry {
    /// The key object that `connect` hands out.
    pub executor: Option<Value>,
    /// Bodies of `register`, `validate` and `connect`, as they came.
    pub requests: Vec<(String, Value)>,
    /// Whether `validate` says no.
    pub refuses: bool,
}

/// Listens until it is dropped.
pub struct Hub {
    pub address: SocketAddr,
    pub registry: Arc<Mutex<Registry>>,
    sockets: Receiver<TcpStream>,
    stopped: Arc<AtomicBool>,
    listener: Option<JoinHandle<()>>,
}

impl Hub {
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let registry = Arc::new(Mutex::new(Registry::default()));
        let stopped = Arc::new(AtomicBool::new(false));
        let (sender, sockets) = sync_channel(SOCKETS_MAX);
        let (shared, stop) = (Arc::clone(&registry), Arc::clone(&stopped));
        let listener = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if stop.load(Ordering::SeqCst) {
                    return;
                }
                serve(stream.unwrap(), address, &shared, &sender);
            }
        });
        Self { address, registry, sockets, stopped, listener: Some(listener) }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The next WebSocket that a peer opens.
    pub fn accept(&self) -> WebSocket<TcpStream> {
        let stream = self.sockets.recv_timeout(DEADLINE).expect("the peer opens a socket");
        let socket = tungstenite::accept(stream).unwrap();
        // The cores want to hear of time now and then.
        socket.get_ref().set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        socket
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::SeqCst);
        // Wakes the listener; whether it succeeds does not matter, for then it is gone.
        TcpStream::connect(self.address).ok();
        if let Some(listener) = self.listener.take() {
            listener.join().ok();
        }
    }
}

/// One request for each connection: an upgrade is handed on, a call of the registry answered.
fn serve(
    stream: TcpStream,
    address: SocketAddr,
    registry: &Mutex<Registry>,
    sockets: &SyncSender<TcpStream>,
) {
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    let mut first = [0; 4];
    while stream.peek(&mut first).is_ok_and(|count| (1..4).contains(&count)) {}
    if &first == b"GET " {
        sockets.send(stream).ok();
        return;
    }
    let mut reader = BufReader::new(stream);
    let mut request = String::new();
    reader.read_line(&mut request).unwrap();
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    let Ok(body) = serde_json::from_slice::<Value>(&body) else { return };
    let path = request.split(' ').nth(1).unwrap_or_default();
    let operation = path.rsplit('/').next().unwrap_or_default().to_owned();
    let answer = answer(&operation, &body, address, &mut registry.lock().unwrap());
    let answer = answer.to_string();
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
         connection: close\r\n\r\n",
        answer.len()
    );
    let mut stream = reader.into_inner();
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(answer.as_bytes()).unwrap();
}

fn answer(operation: &str, body: &Value, address: SocketAddr, registry: &mut Registry) -> Value {
    registry.requests.push((operation.to_owned(), body.clone()));
    let mut answer = json!({
        "environment_id": ENVIRONMENT,
        "security_profile": "noise_hybrid_ik_v1",
        "executor_registration_id": REGISTRATION,
    });
    match operation {
        "register" => {
            registry.executor = Some(body["executor_public_key"].clone());
            answer["url"] = json!(format!("ws://{address}/relay?role=environment"));
            answer
        }
        "connect" => {
            answer["url"] = json!(format!("ws://{address}/relay?role=harness"));
            answer["executor_public_key"] = registry.executor.clone().expect("an executor");
            answer["harness_key_authorization"] = json!(TOKEN);
            answer
        }
        _ => json!({ "valid": !registry.refuses }),
    }
}

/// The next frame that came, if any came within a moment. None also when the peer is gone.
pub fn read_frame(socket: &mut WebSocket<TcpStream>) -> Option<Vec<u8>> {
    match socket.read() {
        Ok(Message::Binary(bytes)) => Some(bytes.to_vec()),
        _ => None,
    }
}
