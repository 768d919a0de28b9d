//! A model that follows a script: an HTTP server on loopback which answers the streaming half of
//! the Responses API that codex speaks, one prepared [`Turn`] for each request.
//!
//! It owns the script and a record of every request. What the tools answered is read back from
//! the requests, since codex sends the whole conversation each time. Nothing here runs codex:
//! that is `codex_exec.rs`.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use anyhow::{Context, Result, bail};
use serde_json::{Map, Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::tap::TaskOwner;

/// A request head; codex sends less than one KiB.
const HEAD_BYTES_MAX: usize = 64 << 10;
/// A request body: the conversation so far, with its instructions and tool outputs.
const BODY_BYTES_MAX: usize = 16 << 20;
/// How long a poll of [`Turn::UntilExit`] may wait for the command. Codex allows 5 s to 5 min.
const POLL_WAIT_MS: u64 = 5_000;

/// What a [`Turn::Computed`] runs: all tool outputs so far in, the turn to take out.
pub type TurnFn = Box<dyn FnMut(&[ToolOutput]) -> Turn + Send>;

/// One answer of the model.
pub enum Turn {
    /// Calls `exec_command` with `cmd` and further arguments, such as `{"tty": true}`.
    ExecCommand {
        /// The shell command line.
        cmd: String,
        /// Further arguments, as a JSON object.
        args: Value,
    },
    /// Calls `write_stdin`. Empty `chars` is a poll.
    WriteStdin {
        /// From [`ToolOutput::session_id`].
        session_id: i64,
        /// What to type.
        chars: String,
        /// Further arguments, as a JSON object.
        args: Value,
    },
    /// Calls `apply_patch`.
    ApplyPatch {
        /// From `*** Begin Patch` to `*** End Patch`.
        patch: String,
    },
    /// Calls any other tool.
    Call {
        /// The tool, such as `view_image`.
        name: &'static str,
        /// Its arguments, as a JSON object.
        args: Value,
    },
    /// Polls the session of the last tool output until it has ended, then goes on with the script.
    UntilExit,
    /// Ends the conversation with this message.
    Say(String),
    /// A turn that depends on what the tools have answered.
    Computed(TurnFn),
}

impl Turn {
    /// Calls `exec_command` with `cmd` alone.
    pub fn exec(cmd: impl Into<String>) -> Self {
        Turn::ExecCommand { cmd: cmd.into(), args: json!({}) }
    }

    /// Calls `exec_command` on a terminal, and returns to the model after 250 ms, which is the
    /// least that codex allows.
    pub fn exec_tty(cmd: impl Into<String>) -> Self {
        Turn::ExecCommand { cmd: cmd.into(), args: json!({"tty": true, "yield_time_ms": 250}) }
    }

    /// Types `chars` into the session of the last tool output.
    pub fn type_text(chars: impl Into<String>) -> Self {
        let chars = chars.into();
        Turn::computed(move |outputs| match outputs.last().and_then(ToolOutput::session_id) {
            Some(session_id) => {
                Turn::WriteStdin { session_id, chars: chars.clone(), args: json!({}) }
            }
            None => Turn::say("there is no session to type into"),
        })
    }

    /// Calls `apply_patch`.
    pub fn patch(patch: impl Into<String>) -> Self {
        Turn::ApplyPatch { patch: patch.into() }
    }

    /// Ends the conversation.
    pub fn say(text: impl Into<String>) -> Self {
        Turn::Say(text.into())
    }

    /// A turn that depends on what the tools have answered.
    pub fn computed(turn: impl FnMut(&[ToolOutput]) -> Turn + Send + 'static) -> Self {
        Turn::Computed(Box::new(turn))
    }
}

/// What one tool call gave the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolOutput {
    /// The call it answers: `call_1` for the first turn of the script, and so on.
    pub call_id: String,
    /// All the text that the model sees, with the heading that codex puts above the output.
    pub text: String,
}

impl ToolOutput {
    /// What the command printed, without the heading.
    pub fn printed(&self) -> &str {
        self.text.split_once("\nOutput:\n").map_or("", |(_, printed)| printed)
    }

    /// The exit code of a command that has ended, or of a patch.
    pub fn exit_code(&self) -> Option<i32> {
        let code = self.heading("Process exited with code ").or(self.heading("Exit code: "))?;
        code.parse().ok()
    }

    /// The session to write to, while the command is running.
    pub fn session_id(&self) -> Option<i64> {
        self.heading("Process running with session ID ")?.parse().ok()
    }

    fn heading(&self, prefix: &str) -> Option<&str> {
        let above = self.text.split("\nOutput:\n").next()?;
        above.lines().find_map(|line| line.strip_prefix(prefix))
    }

    fn from_item(item: &Value) -> Option<Self> {
        let kind = item["type"].as_str()?;
        if !matches!(kind, "function_call_output" | "custom_tool_call_output") {
            return None;
        }
        let text = match &item["output"] {
            Value::String(text) => text.clone(),
            Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect(),
            other @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_)) => {
                other.to_string()
            }
        };
        Some(ToolOutput { call_id: item["call_id"].as_str()?.to_owned(), text })
    }
}

/// The server. Dropped means stopped.
pub struct ScriptedModel {
    addr: SocketAddr,
    state: Arc<Mutex<State>>,
    _task: TaskOwner,
}

impl ScriptedModel {
    /// Listens on a free port of 127.0.0.1. A request beyond the end of the script is answered
    /// with a closing message, so that a run always ends.
    pub async fn start(script: Vec<Turn>) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.context("cannot bind the model")?;
        let addr = listener.local_addr()?;
        let state = Arc::new(Mutex::new(State { script: script.into(), ..State::default() }));
        let task = tokio::spawn(serve(listener, Arc::clone(&state)));
        Ok(ScriptedModel { addr, state, _task: TaskOwner(task) })
    }

    /// For `base_url` of a model provider.
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.addr)
    }

    /// The bodies of all requests for an answer, in order.
    pub fn requests(&self) -> Vec<Value> {
        lock(&self.state).requests.clone()
    }

    /// What the tools have answered so far, in order.
    pub fn tool_outputs(&self) -> Vec<ToolOutput> {
        lock(&self.state).requests.last().map(tool_outputs).unwrap_or_default()
    }
}

#[derive(Default)]
struct State {
    script: VecDeque<Turn>,
    requests: Vec<Value>,
}

impl State {
    /// Takes a request and gives the conversation item that answers it.
    fn answer(&mut self, request: Value) -> Value {
        let outputs = tool_outputs(&request);
        self.requests.push(request);
        let call_id = format!("call_{}", self.requests.len());
        item(self.next_turn(&outputs), &call_id)
    }

    /// The next turn that is an item of its own.
    fn next_turn(&mut self, outputs: &[ToolOutput]) -> Turn {
        loop {
            match self.script.pop_front() {
                None => return Turn::say("the script is over"),
                Some(Turn::Computed(mut turn)) => self.script.push_front(turn(outputs)),
                Some(Turn::UntilExit) => {
                    if let Some(session_id) = outputs.last().and_then(ToolOutput::session_id) {
                        self.script.push_front(Turn::UntilExit);
                        let args = json!({"yield_time_ms": POLL_WAIT_MS});
                        return Turn::WriteStdin { session_id, chars: String::new(), args };
                    }
                }
                Some(
                    turn @ (Turn::ExecCommand { .. }
                    | Turn::WriteStdin { .. }
                    | Turn::ApplyPatch { .. }
                    | Turn::Call { .. }
                    | Turn::Say(_)),
                ) => return turn,
            }
        }
    }
}

fn tool_outputs(request: &Value) -> Vec<ToolOutput> {
    request["input"].as_array().into_iter().flatten().filter_map(ToolOutput::from_item).collect()
}

fn item(turn: Turn, call_id: &str) -> Value {
    match turn {
        Turn::ExecCommand { cmd, args } => {
            function_call(call_id, "exec_command", json!({"cmd": cmd}), args)
        }
        Turn::WriteStdin { session_id, chars, args } => {
            let fixed = json!({"session_id": session_id, "chars": chars});
            function_call(call_id, "write_stdin", fixed, args)
        }
        Turn::Call { name, args } => function_call(call_id, name, args, json!({})),
        Turn::ApplyPatch { patch } => json!({
            "type": "custom_tool_call", "id": format!("item_{call_id}"), "call_id": call_id,
            "name": "apply_patch", "input": patch, "status": "completed",
        }),
        Turn::Say(text) => json!({
            "type": "message", "id": format!("item_{call_id}"), "role": "assistant",
            "content": [{"type": "output_text", "text": text, "annotations": []}],
        }),
        Turn::UntilExit | Turn::Computed(_) => unreachable!("`next_turn` resolves these"),
    }
}

fn function_call(call_id: &str, name: &str, fixed: Value, extra: Value) -> Value {
    let mut arguments = Map::new();
    for part in [fixed, extra] {
        if let Value::Object(members) = part {
            arguments.extend(members);
        }
    }
    json!({
        "type": "function_call", "id": format!("item_{call_id}"), "call_id": call_id,
        "name": name, "arguments": Value::Object(arguments).to_string(), "status": "completed",
    })
}

fn event_stream(item: &Value, number: usize) -> String {
    let id = format!("resp_{number}");
    let usage = json!({
        "input_tokens": 1, "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": 1, "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 2,
    });
    [
        json!({"type": "response.created", "response": {"id": id}}),
        json!({"type": "response.output_item.done", "output_index": 0, "item": item}),
        json!({"type": "response.completed",
               "response": {"id": id, "status": "completed", "output": [item], "usage": usage}}),
    ]
    .iter()
    .map(|event| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or("")))
    .collect()
}

async fn serve(listener: TcpListener, state: Arc<Mutex<State>>) {
    let mut connections = tokio::task::JoinSet::new();
    while let Ok((socket, _)) = listener.accept().await {
        let state = Arc::clone(&state);
        // A request that cannot be read is codex's to notice: its connection closes.
        connections.spawn(async move { answer_one(socket, &state).await.ok() });
        while connections.try_join_next().is_some() {}
    }
}

/// One request for each connection: `connection: close` keeps the reading simple.
async fn answer_one(mut socket: TcpStream, state: &Mutex<State>) -> Result<()> {
    let request = read_request(&mut socket).await?;
    let (kind, body) = if request.method == "POST" && request.path.ends_with("/responses") {
        let body: Value = serde_json::from_slice(&request.body).context("the body is not JSON")?;
        let mut state = lock(state);
        let item = state.answer(body);
        ("text/event-stream", event_stream(&item, state.requests.len()))
    } else if request.path.split('?').next().is_some_and(|path| path.ends_with("/models")) {
        ("application/json", json!({"object": "list", "data": [], "models": []}).to_string())
    } else {
        ("application/json", json!({}).to_string())
    };
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len(),
    );
    socket.write_all(head.as_bytes()).await?;
    socket.write_all(body.as_bytes()).await?;
    socket.shutdown().await?;
    Ok(())
}

struct Request {
    method: String,
    path: String,
    body: Vec<u8>,
}

async fn read_request(socket: &mut TcpStream) -> Result<Request> {
    let mut bytes = Vec::new();
    let head_len = loop {
        if let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
        if bytes.len() > HEAD_BYTES_MAX {
            bail!("the request head is longer than {HEAD_BYTES_MAX} bytes");
        }
        if socket.read_buf(&mut bytes).await? == 0 {
            bail!("the request ended in its head");
        }
    };
    let mut body = bytes.split_off(head_len);
    let head = String::from_utf8(bytes).context("the request head is not UTF-8")?;
    let (method, path, body_len) = parse_head(&head)?;
    if body_len > BODY_BYTES_MAX {
        bail!("the request body is longer than {BODY_BYTES_MAX} bytes");
    }
    while body.len() < body_len {
        if socket.read_buf(&mut body).await? == 0 {
            bail!("the request ended in its body");
        }
    }
    body.truncate(body_len);
    Ok(Request { method, path, body })
}

fn parse_head(head: &str) -> Result<(String, String, usize)> {
    let mut lines = head.lines();
    let mut words = lines.next().unwrap_or_default().split(' ');
    let method = words.next().unwrap_or_default().to_owned();
    let path = words.next().context("the request line has no path")?.to_owned();
    let mut body_len = 0;
    for (name, value) in lines.filter_map(|line| line.split_once(':')) {
        if name.eq_ignore_ascii_case("content-length") {
            body_len = value.trim().parse().context("content-length is not a number")?;
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            bail!("chunked requests are not read");
        }
    }
    Ok((method, path, body_len))
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().expect("no holder of the model's lock panics")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(text: &str) -> ToolOutput {
        ToolOutput { call_id: "call_1".to_owned(), text: text.to_owned() }
    }

    #[test]
    fn the_heading_of_a_tool_output_is_understood() {
        let ended = output("Wall time: 0.1 seconds\nProcess exited with code 3\nOutput:\na\nb\n");
        assert_eq!((ended.exit_code(), ended.session_id()), (Some(3), None));
        assert_eq!(ended.printed(), "a\nb\n");
        // What a command prints is not taken for a heading.
        let running =
            output("Process running with session ID 7\nOutput:\nProcess exited with code 3\n");
        assert_eq!((running.exit_code(), running.session_id()), (None, Some(7)));
        let patched = output("Exit code: 1\nWall time: 0 seconds\nOutput:\nFailed to write\n");
        assert_eq!((patched.exit_code(), patched.printed()), (Some(1), "Failed to write\n"));
        let refused = output("exec_command failed: …");
        assert_eq!((refused.exit_code(), refused.printed()), (None, ""));
    }

    #[test]
    fn until_exit_polls_while_the_session_runs() {
        let script = vec![Turn::UntilExit, Turn::say("done")].into();
        let mut state = State { script, ..State::default() };
        let request = |text| {
            let output = json!({"type": "function_call_output", "call_id": "c", "output": text});
            json!({"input": [output]})
        };
        let poll = state.answer(request("Process running with session ID 7\nOutput:\n"));
        assert_eq!(poll["name"], "write_stdin");
        let end = state.answer(request("Process exited with code 0\nOutput:\n"));
        assert_eq!(end["content"][0]["text"], "done");
    }

    #[test]
    fn a_request_head_gives_method_path_and_length() {
        let head = "POST /v1/responses HTTP/1.1\r\nContent-Length: 12\r\n\r\n";
        let expected = ("POST".to_owned(), "/v1/responses".to_owned(), 12);
        assert_eq!(parse_head(head).unwrap(), expected);
        assert!(parse_head("POST\r\n\r\n").is_err());
        assert!(parse_head("POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n").is_err());
    }
}
