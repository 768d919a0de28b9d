//! One conversation, carried out: its steps in order, over connections that are opened as needed.

use std::collections::HashMap;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use futures_util::future::select_all;
use serde_json::{Value, json};
use tokio::task::spawn_blocking;
use tokio::time::Instant;

use super::additive::Additive;
use super::inbox::{Inbox, Kind, Rules};
use super::pattern::{Bindings, base64_decode, expand, expand_sent, match_value};
use super::replay::Suite;
use super::{Action, Setup, Step, Vector};
use crate::codex::CodexHome;
use crate::peer::{PATIENCE, RawPeer, Received};
use crate::web::WebServer;

/// The error for a session that has a live connection.
const STILL_ATTACHED: i32 = -32010;
/// Time between two attempts to resume.
const RESUME_INTERVAL: Duration = Duration::from_millis(20);

/// Replays one vector.
pub(super) async fn replay<C>(
    vector: &Vector,
    suite: Suite,
    web: &WebServer,
    connect: &C,
) -> Result<()>
where
    C: AsyncFn(&Setup) -> Result<RawPeer>,
{
    let mut lines: HashMap<&str, Line> = HashMap::new();
    let scratch = tempfile::tempdir()?;
    let home = CodexHome::new()?;
    let mut bindings = Bindings::new();
    bindings.insert("scratch".to_owned(), json!(scratch.path().canonicalize()?));
    bindings.insert("home".to_owned(), json!(home.path().canonicalize()?));
    bindings.insert("web".to_owned(), json!(web.address.to_string()));
    let setup = vector.setup.expanded(&bindings)?;
    let mut current = "";
    for Step { line: number, action } in &vector.steps {
        if let Action::SwitchTo(name) = action {
            current = name;
            continue;
        }
        if let Action::Files(act) = action {
            // Elsewhere: a large directory takes a while, and others have deadlines to keep.
            let (act, directory) = (act.clone(), scratch.path().to_owned());
            let bindings = bindings.clone();
            let outcome = spawn_blocking(move || act.perform(&directory, &bindings)).await?;
            outcome.with_context(|| format!("line {number}"))?;
            continue;
        }
        let mut line = match lines.remove(current) {
            Some(line) => line,
            None => Line::open(vector, &setup, suite, connect, lines.is_empty()).await?,
        };
        let outcome = tokio::select! {
            outcome = line.perform(action, &mut bindings) => outcome,
            error = listen(lines.values_mut()) => Err(error.context("on another connection")),
        };
        outcome.with_context(|| format!("line {number}"))?;
        lines.insert(current, line);
    }
    lines.values().try_for_each(|line| line.inbox.check_rest())
}

/// Reads all these lines until one fails, so that none looks dead to a server that probes it.
async fn listen(lines: impl Iterator<Item = &mut Line>) -> anyhow::Error {
    let listening: Vec<_> = lines.map(|line| Box::pin(line.listen())).collect();
    if listening.is_empty() { std::future::pending().await } else { select_all(listening).await.0 }
}

/// A connection, and what has come over it so far.
struct Line {
    peer: RawPeer,
    inbox: Inbox,
    additive: Additive,
    closed: bool,
}

impl Line {
    async fn open<C>(
        vector: &Vector,
        setup: &Setup,
        suite: Suite,
        connect: &C,
        from_start: bool,
    ) -> Result<Self>
    where
        C: AsyncFn(&Setup) -> Result<RawPeer>,
    {
        let mut peer = connect(setup).await?;
        if vector.ready {
            peer.handshake().await?;
        }
        let inbox = Inbox::new(Rules { from_start, in_order: suite.is_ours() });
        Ok(Self { peer, inbox, additive: Additive::new(suite.is_ours()), closed: false })
    }

    async fn perform(&mut self, action: &Action, bindings: &mut Bindings) -> Result<()> {
        match action {
            Action::Send(text) => self.send(&expand_sent(text, bindings)?).await,
            Action::Resume(text) => self.resume(&expand_sent(text, bindings)?).await,
            Action::SendBytes(bytes) => {
                self.peer.send_bytes(bytes).await.ok();
                Ok(())
            }
            Action::HangUp => self.peer.close().await,
            Action::Expect(pattern) => self.expect(pattern, bindings).await,
            Action::ExpectAll(patterns) => self.expect_all(patterns, bindings).await,
            Action::ExpectOutput { process, stream, text } => {
                self.expect_output(process, stream, expand(text, bindings)?.as_bytes()).await
            }
            Action::ExpectEnd { process, exit_code } => {
                let exited = json!({"processId": process, "seq": "$int", "exitCode": exit_code,
                    "sandboxDenied": false});
                let closed = json!({"processId": process, "seq": "$int"});
                let exited = json!({"method": "process/exited", "params": exited});
                let closed = json!({"method": "process/closed", "params": closed});
                self.expect(&exited, bindings).await?;
                self.expect(&closed, bindings).await
            }
            Action::ExpectQuiet(patience) => self.expect_quiet(*patience).await,
            Action::ExpectClose => self.expect_close().await,
            Action::SwitchTo(_) | Action::Files(_) => unreachable!("the caller's to do"),
        }
    }

    async fn send(&mut self, text: &str) -> Result<()> {
        self.additive.note(text);
        // What is sent to a server that has hung up is lost. That it has is for `<close` to say.
        self.peer.send_text(text).await.ok();
        Ok(())
    }

    /// Sends a request, and again while the server has not noticed that the session's former
    /// connection is gone.
    async fn resume(&mut self, text: &str) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        let request: Value = serde_json::from_str(text)?;
        let answer = Kind::Answer(request["id"].clone());
        loop {
            self.send(text).await?;
            let message = self.take(|message| answer.covers(message)).await?;
            if message["error"]["code"] != STILL_ATTACHED || Instant::now() > deadline {
                self.inbox.put_back(message);
                return Ok(());
            }
            tokio::time::sleep(RESUME_INTERVAL).await;
        }
    }

    async fn expect(&mut self, pattern: &Value, bindings: &mut Bindings) -> Result<()> {
        let kind = Kind::of(pattern);
        let message = self.take(|message| kind.covers(message)).await?;
        match_value(pattern, &self.additive.without(pattern, &message), bindings)
            .with_context(|| format!("received {message}"))
    }

    async fn expect_all(&mut self, patterns: &[Value], bindings: &mut Bindings) -> Result<()> {
        let mut missing: Vec<&Value> = patterns.iter().collect();
        let additive = self.additive.clone();
        while !missing.is_empty() {
            let mut matched = None;
            self.take(|message| {
                matched = missing.iter().position(|pattern| {
                    let mut trial = bindings.clone();
                    let message = additive.without(pattern, message);
                    let fits = match_value(pattern, &message, &mut trial).is_ok();
                    if fits {
                        *bindings = trial;
                    }
                    fits
                });
                matched.is_some()
            })
            .await
            .with_context(|| format!("none of {missing:?}"))?;
            missing.remove(matched.context("take returns what its condition chose")?);
        }
        Ok(())
    }

    async fn expect_output(&mut self, process: &str, stream: &str, text: &[u8]) -> Result<()> {
        let mut collected = Vec::new();
        let is_ours = |message: &Value| {
            let params = &message["params"];
            message["method"] == "process/output"
                && params["processId"] == process
                && params["stream"] == stream
        };
        while collected != text {
            let message = self
                .take(is_ours)
                .await
                .with_context(|| format!("output so far: {}", shortened(&collected)))?;
            let members = json!({"processId": process, "stream": stream, "seq": "$int",
                "chunk": "$string"});
            let pattern = json!({"method": "process/output", "params": members});
            match_value(&pattern, &message, &mut Bindings::new())?;
            let chunk = message["params"]["chunk"].as_str().unwrap_or_default();
            collected.extend(base64_decode(chunk)?);
            if !text.starts_with(&collected) {
                bail!("output is {}", shortened(&collected));
            }
        }
        Ok(())
    }

    async fn expect_quiet(&mut self, patience: Duration) -> Result<()> {
        ensure!(self.inbox.is_empty(), "{}", self.inbox.describe());
        match self.peer.recv_within(patience).await? {
            Received::Nothing => Ok(()),
            Received::Closed => bail!("connection closed"),
            Received::Message(message) => bail!("received {message}"),
        }
    }

    async fn expect_close(&mut self) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while !self.closed {
            self.receive(deadline).await.context("expected the connection to be closed")?;
        }
        self.inbox.check_rest()
    }

    /// The first message that `chosen` accepts, waiting for it if it has not come yet.
    async fn take(&mut self, mut chosen: impl FnMut(&Value) -> bool) -> Result<Value> {
        let deadline = Instant::now() + PATIENCE;
        let mut looked_at = 0;
        loop {
            looked_at = match self.inbox.take(looked_at, &mut chosen) {
                Ok(message) => return Ok(message),
                Err(length) => length,
            };
            ensure!(!self.closed, "connection closed; {}", self.inbox.describe());
            self.receive(deadline).await.with_context(|| self.inbox.describe())?;
        }
    }

    async fn receive(&mut self, deadline: Instant) -> Result<()> {
        let remaining = deadline.saturating_duration_since(Instant::now());
        let received = self.peer.recv_within(remaining).await?;
        ensure!(received != Received::Nothing, "no such message within {PATIENCE:?}");
        self.take_in(received)
    }

    /// Reads for as long as it is let; returns when something is wrong.
    async fn listen(&mut self) -> anyhow::Error {
        while !self.closed {
            let received = self.peer.recv_within(PATIENCE).await;
            if let Err(error) = received.and_then(|received| self.take_in(received)) {
                return error;
            }
        }
        std::future::pending().await
    }

    fn take_in(&mut self, received: Received) -> Result<()> {
        match received {
            Received::Message(message) => self.inbox.admit(message)?,
            Received::Closed => self.closed = true,
            Received::Nothing => {}
        }
        Ok(())
    }
}

/// The end of an output, for a person to read.
fn shortened(output: &[u8]) -> String {
    let end = &output[output.len().saturating_sub(200)..];
    let omitted = output.len() - end.len();
    let end = String::from_utf8_lossy(end);
    if omitted == 0 { format!("{end:?}") } else { format!("{omitted} bytes and then {end:?}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vector::parse;

    /// Replays a vector against a server that says only what it was told to, then hangs up.
    async fn run(steps: &str, said: &[&str]) -> Result<()> {
        let vectors = parse("t", &format!("@ codex\n=== t\n{steps}"))?;
        let connect = async |_: &Setup| {
            let (ours, theirs) = tokio::io::duplex(1 << 16);
            let (read, write) = tokio::io::split(ours);
            let (their_read, their_write) = tokio::io::split(theirs);
            let mut server = RawPeer::from_io(their_read, their_write);
            for text in said {
                server.send_text(text).await?;
            }
            server.close().await?;
            Ok(RawPeer::from_io(read, write))
        };
        replay(&vectors[0], Suite::Ours, &WebServer::start().await?, &connect).await
    }

    async fn check(steps: &str, said: &[&str], expected: Option<&str>) {
        let outcome = run(steps, said).await.map_err(|error| format!("{error:#}"));
        match (outcome, expected) {
            (Ok(()), None) => {}
            (Err(error), Some(expected)) => assert!(error.contains(expected), "{error}"),
            (outcome, _) => panic!("{outcome:?}, expected {expected:?}"),
        }
    }

    const OUTPUT: &str = r#"{"method":"process/output","params":{"processId":"p","seq":1,"stream":"stdout","chunk":"aGkK"}}"#;
    const EXITED: &str = r#"{"method":"process/exited","params":{"processId":"p","seq":2,"exitCode":0,"sandboxDenied":false}}"#;
    const CLOSED: &str = r#"{"method":"process/closed","params":{"processId":"p","seq":3}}"#;

    #[tokio::test]
    async fn answers_are_found_by_id_and_events_by_process() {
        let answers = [r#"{"id":2,"result":{}}"#, OUTPUT, r#"{"id":1,"result":{}}"#];
        check("< {\"id\":1,\"result\":{}}\n< {\"id\":2,\"result\":{}}", &answers, None).await;
        check("< {\"id\":1,\"result\":{}}", &answers, Some("unexpected message")).await;
        check("< {\"id\":3,\"result\":{}}", &answers, Some("line 3: connection closed")).await;
        check("<* {\"id\":1,\"result\":{}}\n<* {\"id\":2,\"result\":{}}\n<close", &answers, None)
            .await;
    }

    #[tokio::test]
    async fn output_is_joined_and_numbered() {
        let events = [OUTPUT, EXITED, CLOSED];
        check("<output p stdout \"hi\\n\"\n<end p 0\n<close", &events, None).await;
        check("<output p stdout \"ho\\n\"", &events, Some("output is \"hi\\n\"")).await;
        check("<end p 1", &events, Some("in \"exitCode\": expected 1, found 0")).await;
        check("<end p 0", &[OUTPUT, CLOSED], Some("expected seq 2")).await;
        check("<close", &[OUTPUT, EXITED, CLOSED, OUTPUT], Some("after process/closed")).await;
    }

    #[tokio::test]
    async fn our_additions_are_tolerated_and_nothing_else() {
        let steps =
            "> {\"id\":1,\"method\":\"process/read\"}\n< {\"id\":1,\"result\":{\"closed\":true}}";
        let added = r#"{"id":1,"result":{"closed":true,"outputOffset":5}}"#;
        let stray = r#"{"id":1,"result":{"closed":true,"other":5}}"#;
        check(steps, &[added], None).await;
        check(steps, &[stray], Some("stray member \"other\"")).await;
    }

    #[tokio::test]
    async fn quiet_means_that_nothing_is_unread() {
        check(
            "< {\"id\":1,\"result\":{}}\n<quiet 5",
            &[OUTPUT, r#"{"id":1,"result":{}}"#],
            Some("unread"),
        )
        .await;
        check("<quiet 5", &[], Some("connection closed")).await;
    }
}
