//! A client that only counts: it sends requests and follows processes, and a process counts as
//! closed only when none of its events is missing. It does not decode what it counts, so the server
//! is what is measured.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, bail, ensure};
use exec_transport::{ConnectOptions, Connection, connect_websocket};

use crate::wire::{self, Incoming};

/// One connection, with a session of its own.
pub(crate) struct Client {
    connection: Connection,
    next_id: u64,
    /// By number, which is the process's name on the wire too.
    processes: Vec<Followed>,
    /// The message of the latest event.
    message: Vec<u8>,
}

/// What has been seen of a process.
#[derive(Debug, Default)]
struct Followed {
    /// Every event up to this one has come.
    last_seq: u64,
    /// Events that came before an earlier one. Not every server keeps them in order.
    early: BTreeSet<u64>,
    /// The number of the last event, once known.
    closed_seq: Option<u64>,
    /// Output so far.
    bytes: u64,
}

impl Followed {
    fn note(&mut self, seq: u64) -> Result<()> {
        let new = seq > self.last_seq && self.closed_seq.is_none_or(|last| seq <= last);
        ensure!(new && self.early.insert(seq), "event {seq} came twice, or after the last one");
        while self.early.remove(&(self.last_seq + 1)) {
            self.last_seq += 1;
        }
        Ok(())
    }

    /// The last event has come, and all before it.
    fn is_complete(&self) -> bool {
        self.closed_seq == Some(self.last_seq)
    }
}

/// What to run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Start<'a> {
    /// Program and arguments.
    pub(crate) argv: &'a [&'a str],
    /// Where its streams lead.
    pub(crate) stdio: Stdio,
}

/// Where a process's streams lead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stdio {
    /// Pipes, and nothing on stdin.
    Pipes,
    /// Pipes, also to stdin.
    PipedStdin,
    /// A terminal.
    Tty,
}

/// What a message was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// The answer to a request.
    Answer(u64),
    /// Output of a process.
    Output(usize),
    /// A process has exited.
    Exited(usize),
    /// A process has closed.
    Closed(usize),
    /// Something else.
    Other,
}

impl Client {
    /// Connects and opens a session.
    pub(crate) async fn connect(url: &str) -> Result<Self> {
        let connection = connect_websocket(url, &ConnectOptions::default()).await?;
        let mut client =
            Self { connection, next_id: 1, processes: Vec::new(), message: Vec::new() };
        let params = r#"{"clientName":"exec-bench","resumeSessionId":null}"#;
        client.call("initialize", params).await?;
        client.connection.send(br#"{"method":"initialized","params":{}}"#)?;
        client.connection.flush().await?;
        Ok(client)
    }

    /// Queues a request and gives its id. It leaves with the next wait.
    pub(crate) fn request(&mut self, method: &str, params: &str) -> Result<u64> {
        let id = self.next_id;
        self.next_id += 1;
        let text = format!(r#"{{"id":{id},"method":"{method}","params":{params}}}"#);
        self.connection.send(text.as_bytes())?;
        Ok(id)
    }

    /// Queues a `process/start` and gives the request's id and the process's number.
    pub(crate) fn start(&mut self, start: Start<'_>) -> Result<(u64, usize)> {
        let process = self.processes.len();
        self.processes.push(Followed::default());
        let argv = serde_json::to_string(start.argv)?;
        let (tty, stdin) = (start.stdio == Stdio::Tty, start.stdio == Stdio::PipedStdin);
        let params = format!(
            r#"{{"processId":"{process}","argv":{argv},"cwd":"file:///","env":{{"PATH":"/usr/bin:/bin"}},"tty":{tty},"pipeStdin":{stdin},"arg0":null}}"#
        );
        Ok((self.request("process/start", &params)?, process))
    }

    /// Starts a process and waits for the answer.
    pub(crate) async fn started(&mut self, start: Start<'_>) -> Result<usize> {
        let (id, process) = self.start(start)?;
        self.answer(id).await?;
        Ok(process)
    }

    /// Queues a request that has nothing but a process in it.
    pub(crate) fn about(&mut self, method: &str, process: usize) -> Result<u64> {
        self.request(method, &format!(r#"{{"processId":"{process}"}}"#))
    }

    /// Queues a `process/read` of what comes after all that was seen.
    pub(crate) fn read(&mut self, process: usize, wait_ms: u64) -> Result<u64> {
        let after = self.processes[process].last_seq;
        let params =
            format!(r#"{{"processId":"{process}","afterSeq":{after},"waitMs":{wait_ms}}}"#);
        self.request("process/read", &params)
    }

    /// Asks, and waits for the answer.
    pub(crate) async fn call(&mut self, method: &str, params: &str) -> Result<()> {
        let id = self.request(method, params)?;
        self.answer(id).await.with_context(|| method.to_owned())
    }

    /// Waits for one answer, counting what else comes.
    pub(crate) async fn answer(&mut self, id: u64) -> Result<()> {
        while self.next().await? != Event::Answer(id) {}
        Ok(())
    }

    /// Waits until a process has closed and everything it wrote is here.
    pub(crate) async fn closed(&mut self, process: usize) -> Result<()> {
        while !self.processes[process].is_complete() {
            self.next().await?;
        }
        Ok(())
    }

    /// Waits until a process has written so many bytes since its start.
    pub(crate) async fn output(&mut self, process: usize, bytes: u64) -> Result<()> {
        while self.processes[process].bytes < bytes {
            ensure!(!self.processes[process].is_complete(), "the process ended too early");
            self.next().await?;
        }
        Ok(())
    }

    /// How much a process has written so far.
    pub(crate) fn bytes(&self, process: usize) -> u64 {
        self.processes[process].bytes
    }

    /// The latest message, as it came.
    pub(crate) fn message(&self) -> &[u8] {
        &self.message
    }

    /// Writes what is queued, without reading anything.
    pub(crate) async fn flush(&mut self) -> Result<()> {
        Ok(self.connection.flush().await?)
    }

    /// Takes the next message in.
    pub(crate) async fn next(&mut self) -> Result<Event> {
        let message = self.connection.next_message().await?;
        self.message = message.context("the server closed the connection")?;
        let Some(incoming) = wire::parse(&self.message) else {
            bail!("cannot read {}", start_of(&self.message));
        };
        let (event, process, seq, bytes) = match incoming {
            Incoming::Answer { id, .. } => return Ok(Event::Answer(id)),
            Incoming::Refused { error, .. } => bail!("the server answered {}", start_of(error)),
            Incoming::Other => return Ok(Event::Other),
            Incoming::Output { process, seq, chunk } => {
                (Event::Output(process), process, seq, wire::decoded_len(chunk))
            }
            Incoming::Exited { process, seq } => (Event::Exited(process), process, seq, 0),
            Incoming::Closed { process, seq } => (Event::Closed(process), process, seq, 0),
        };
        let followed = self.processes.get_mut(process).context("an unknown process")?;
        followed.note(seq)?;
        followed.bytes += bytes as u64;
        if let Event::Closed(_) = event {
            followed.closed_seq = Some(seq);
        }
        Ok(event)
    }
}

/// As much of a message as an error needs.
fn start_of(text: &[u8]) -> String {
    String::from_utf8_lossy(text).chars().take(200).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_complete_when_no_event_is_missing() {
        let mut followed = Followed::default();
        followed.note(1).unwrap();
        followed.note(3).unwrap();
        followed.closed_seq = Some(3);
        assert!(!followed.is_complete());
        followed.note(2).unwrap();
        assert!(followed.is_complete());
        for repeated in [0, 1, 3, 4] {
            assert!(followed.note(repeated).is_err(), "{repeated}");
        }
    }
}
