//! An HTTP server of a few lines on the loopback device, which can also misbehave. What is asked for
//! says how it is answered: `/echo` with the request itself, `/status/404` with that status,
//! `/to/!echo` with a redirect (`!` for `/`), `/broken` with half of a body, and so on.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Result;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// A server on the loopback device. It serves for as long as the runtime lives.
#[derive(Clone)]
pub struct WebServer {
    /// Where it listens.
    pub address: SocketAddr,
    /// What was received: each head and its body.
    pub received: Arc<Mutex<Vec<String>>>,
}

/// What a connection does after an answer.
#[derive(PartialEq)]
enum Then {
    Serve,
    Close,
}

impl WebServer {
    /// Listens on a free port.
    pub async fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let server = Self { address: listener.local_addr()?, received: Arc::default() };
        let accepting = server.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let server = accepting.clone();
                tokio::spawn(async move { server.serve(stream).await });
            }
        });
        Ok(server)
    }

    /// The URL of a path, which says what is answered.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// The requests that came, forgetting them.
    pub fn take_received(&self) -> Vec<String> {
        std::mem::take(&mut self.received.lock().expect("no holder panics"))
    }

    async fn serve(&self, mut stream: TcpStream) {
        let mut buffer = Vec::new();
        while let Some((head, body)) = read_request(&mut stream, &mut buffer).await {
            self.received.lock().expect("no holder panics").push(format!("{head}{body}"));
            if answer(&mut stream, &head, &body).await == Some(Then::Serve) {
                continue;
            }
            return;
        }
    }
}

async fn read_request(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<(String, String)> {
    let head_end = loop {
        if let Some(at) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
        if stream.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8_lossy(&buffer[..head_end]).into_owned();
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "))
        .and_then(|length| length.parse::<usize>().ok())
        .unwrap_or(0);
    while buffer.len() < head_end + length {
        if stream.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    }
    let body = String::from_utf8_lossy(&buffer[head_end..head_end + length]).into_owned();
    buffer.drain(..head_end + length);
    Some((head, body))
}

/// None when the peer is gone.
async fn answer(stream: &mut TcpStream, head: &str, body: &str) -> Option<Then> {
    let path = head.split(' ').nth(1)?;
    let (name, argument) = path[1..].split_once('/').unwrap_or((&path[1..], ""));
    let number = argument.parse::<usize>().unwrap_or(0);
    if let Some(whole) = whole_answer(name, argument, number, head, body) {
        stream.write_all(&whole).await.ok()?;
        return Some(Then::Serve);
    }
    let pieces: &[&[u8]] = match name {
        "chunked" => &[
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n",
            b"0\r\nX-Trailer: t\r\n\r\n",
        ],
        "continue" => &[
            b"HTTP/1.1 100 Continue\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nafter",
        ],
        "empty" => &[b"HTTP/1.1 204 No Content\r\n\r\n"],
        "slow" => &[b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nab", b"cd"],
        "stuck" => &[b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nab"],
        "broken" => &[b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc"],
        "broken-chunk" => {
            &[b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nzz\r\n"]
        }
        "junk" => &[b"nonsense\r\n\r\n"],
        "to-the-end" => &[b"HTTP/1.1 200 OK\r\n\r\nall until the end"],
        "endless" => &[b"HTTP/1.1 200 OK\r\n\r\n"],
        _ => &[],
    };
    for piece in pieces {
        stream.write_all(piece).await.ok()?;
        if name == "slow" {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }
    match name {
        "silent" | "stuck" => std::future::pending().await,
        "endless" => loop {
            stream.write_all(&[b'x'; 65536]).await.ok()?;
        },
        "broken" | "broken-chunk" | "junk" | "to-the-end" | "close" => Some(Then::Close),
        _ => Some(Then::Serve),
    }
}

/// The answers that are as they should be; none for the others.
fn whole_answer(
    name: &str,
    argument: &str,
    number: usize,
    head: &str,
    body: &str,
) -> Option<Vec<u8>> {
    let odd = "X-A: 1\r\nX-A: 2\r\nX-Na: caf\u{e9}\r\nX-Tab: a\tb\r\nX-Empty:\r\nX-Sp:   pad  \r\n";
    let found = |location: &str| reply("302 Found", &format!("Location: {location}\r\n"), b"");
    Some(match name {
        "echo" if head.starts_with("HEAD") => reply("200 OK", "X-A: 1\r\n", b""),
        "echo" => reply("200 OK", odd, format!("{head}{body}").as_bytes()),
        "status" => reply(&format!("{argument} Odd"), "Location: /echo\r\n", b"rb"),
        "to" => found(&argument.replace('!', "/")),
        "no-location" => reply("302 Found", "", b""),
        "latin" => found("/\u{e9}"),
        "left" if number == 0 => found("/echo"),
        "left" => found(&format!("/left/{}", number - 1)),
        "gzip" => reply("200 OK", "Content-Encoding: gzip\r\n", b"\x1f\x8b\x08\0not really"),
        "bytes" => reply("200 OK", "", &vec![b'x'; number]),
        "header" => reply("200 OK", &format!("H: {}\r\n", "v".repeat(number)), b""),
        "headers" => {
            let lines: String = (0..number).map(|index| format!("H{index}: v\r\n")).collect();
            reply("200 OK", &lines, b"")
        }
        "chunked" | "continue" | "empty" | "slow" | "stuck" | "broken" | "broken-chunk"
        | "junk" | "to-the-end" | "endless" | "silent" | "close" => return None,
        _ => reply("200 OK", "", head.split(' ').nth(1)?.as_bytes()),
    })
}

fn reply(status: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {}\r\n\r\n", body.len());
    // Latin-1, so that one character is one byte and not valid UTF-8.
    let head = head.chars().map(|character| u8::try_from(u32::from(character)).unwrap_or(b'?'));
    head.chain(body.iter().copied()).collect()
}
