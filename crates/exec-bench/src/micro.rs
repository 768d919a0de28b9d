//! Our building blocks from the inside: nanoseconds for each operation, on one core.
//!
//! How long it takes to start and to kill children is measured where that code is:
//! `cargo run --release -p exec-process --example spawn_bench`.

mod clock;
mod frames;
mod rules;

use std::hint::black_box;
use std::ops::ControlFlow;

use anyhow::{Result, ensure};
use exec_process::log::{Event, LogLimits, OutputLog};
use exec_protocol::bytes;
use exec_protocol::jsonrpc::{self, Message};
use exec_protocol::methods::{EnvironmentStatusGet, Method, ProcessStart, ProcessWrite};
use exec_protocol::path_uri::PathUri;
use exec_protocol::process::{OutputEncoder, Stream};

use crate::report::{show, table};
use crate::wire;
use clock::nanos;

const CHUNK: usize = 64 << 10;
const LINE: usize = 80;

/// As a server has them.
const LOG_LIMITS: LogLimits = LogLimits {
    retained_bytes_max: 1 << 20,
    retained_chunks_max: 50_000,
    unsent_bytes_max: 256 << 10,
    chunk_bytes_max: CHUNK,
    snapshot_bytes_max: 256 << 10,
};

/// A name, the time of one operation, and how many bytes it is about, if it is about bytes.
struct Figure(&'static str, f64, Option<usize>);

/// Measures everything, and gives the table.
pub(crate) fn run() -> Result<String> {
    let mut figures = Vec::new();
    decoding(&mut figures)?;
    encoding(&mut figures)?;
    log(&mut figures);
    frames(&mut figures)?;
    rules::measure(&mut figures)?;
    let mut lines = vec![vec!["Building block".into(), "ns".into(), "MB/s".into()]];
    for Figure(name, nanos, bytes) in figures {
        let rate = bytes.map_or("–".to_owned(), |bytes| show(bytes as f64 / nanos * 1e3));
        lines.push(vec![name.to_owned(), show(nanos), rate]);
    }
    Ok(table(&lines))
}

/// Envelope and parameters, as the server decodes them.
fn decoding(figures: &mut Vec<Figure>) -> Result<()> {
    let status = r#"{"id":1,"method":"environment/status","params":{}}"#;
    let start = r#"{"id":2,"method":"process/start","params":{"processId":"p1","argv":["/bin/sh","-c","echo hi"],"cwd":"file:///usr/src","env":{"PATH":"/usr/bin:/bin","LANG":"C.UTF-8"},"tty":false,"pipeStdin":false,"arg0":null}}"#;
    let chunk = base64(&noise(CHUNK))?;
    let write = format!(
        r#"{{"id":3,"method":"process/write","params":{{"processId":"p1","chunk":"{chunk}"}}}}"#
    );
    decode::<EnvironmentStatusGet>(figures, "decode `environment/status`", status, None)?;
    decode::<ProcessStart>(figures, "decode `process/start`", start, None)?;
    decode::<ProcessWrite>(figures, "decode `process/write` of 64 KiB", &write, Some(CHUNK))?;

    let time = nanos(|| {
        black_box(jsonrpc::decode(black_box(write.as_bytes())).is_ok());
    });
    figures.push(Figure("… its envelope alone", time, Some(CHUNK)));

    ensure!(bytes::decode(&chunk).is_ok(), "what was encoded decodes");
    let time = nanos(|| {
        black_box(bytes::decode(black_box(&chunk)).is_ok());
    });
    figures.push(Figure("base64, decode 64 KiB", time, Some(CHUNK)));

    for (name, text) in [
        ("`PathUri`, canonical", "file:///usr/src/project/main.rs"),
        ("`PathUri`, to be normalised", "file:///usr/src/../src/caf%c3%a9/main.rs"),
    ] {
        ensure!(PathUri::try_from(text.to_owned()).is_ok(), "{text} is a path");
        let time = nanos(|| {
            black_box(PathUri::try_from(black_box(text).to_owned()).is_ok());
        });
        figures.push(Figure(name, time, None));
    }
    Ok(())
}

fn decode<M: Method>(
    figures: &mut Vec<Figure>,
    name: &'static str,
    text: &str,
    bytes: Option<usize>,
) -> Result<()> {
    let decoded = || match jsonrpc::decode(black_box(text.as_bytes())) {
        Ok(Message::Request(request)) => {
            jsonrpc::decode_params::<M::Params>(request.params).is_ok()
        }
        Ok(Message::Notification(_) | Message::Response { .. } | Message::Error { .. })
        | Err(_) => false,
    };
    ensure!(decoded(), "{} is a request", M::NAME);
    let time = nanos(|| {
        black_box(decoded());
    });
    figures.push(Figure(name, time, bytes));
    Ok(())
}

/// Output, as the server encodes it and as this benchmark's own client reads it.
fn encoding(figures: &mut Vec<Figure>) -> Result<()> {
    let data = noise(CHUNK);
    let mut out = Vec::new();
    for (name, len) in [("encode `process/output` of 64 KiB", CHUNK), ("… of 80 bytes", LINE)] {
        let time = nanos(|| {
            out.clear();
            let encoder = OutputEncoder::new("\"1\"", 1, Stream::Stdout, black_box(&data[..len]));
            encoder.encode_into(&mut out);
            black_box(&out);
        });
        figures.push(Figure(name, time, Some(len)));
    }
    out.clear();
    OutputEncoder::new("\"1\"", 1, Stream::Stdout, &data).encode_into(&mut out);
    ensure!(wire::parse(&out).is_some(), "our client reads our output");
    let time = nanos(|| {
        black_box(wire::parse(black_box(&out)));
    });
    figures.push(Figure("this benchmark's client, read 64 KiB of output", time, Some(CHUNK)));
    Ok(())
}

/// Output into the log and out of it again, piece by piece and in batches.
fn log(figures: &mut Vec<Figure>) {
    let data = noise(CHUNK);
    for (name, len, batch) in [
        ("log, append and follow 64 KiB", CHUNK, 1),
        ("log, append and follow 80 bytes", LINE, 1),
        ("log, append 80 bytes 100 times, then follow", LINE, 100),
    ] {
        let mut log = OutputLog::new(LOG_LIMITS);
        log.attach();
        let time = nanos(|| {
            for _ in 0..batch {
                log.append(Stream::Stdout, black_box(&data[..len]));
            }
            log.follow(|event| {
                if let Event::Output { data, .. } = event {
                    black_box(data);
                }
                ControlFlow::Continue(())
            });
        });
        figures.push(Figure(name, time, Some(len * batch)));
    }
}

/// Whole frames, masked as a client sends them, through a server's connection.
fn frames(figures: &mut Vec<Figure>) -> Result<()> {
    for (name, len) in [
        ("WebSocket, receive a message of 64 KiB", CHUNK),
        ("WebSocket, receive a message of 80 bytes", LINE),
    ] {
        let mut received = frames::Replayed::new(len)?;
        ensure!(received.next() == Some(len), "a frame carries its message");
        let time = nanos(|| {
            black_box(received.next());
        });
        figures.push(Figure(name, time, Some(len)));
    }
    Ok(())
}

fn base64(data: &[u8]) -> Result<String> {
    let mut text = Vec::new();
    bytes::encode_into(&mut text, data);
    Ok(String::from_utf8(text)?)
}

/// Bytes without a pattern, the same each time.
fn noise(len: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let next = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[0]
    };
    (0..len).map(next).collect()
}
