//! One attempt as a row of a table, and how it is made.

use std::path::{Path, PathBuf};
use std::time::Duration;

use exec_sandbox::linux::probe::Engine;
use exec_testkit::leaks;
use exec_testkit::peer::RawPeer;
use exec_testkit::probe;
use serde_json::{Value, json};

use super::host::Host;
use super::policy::{Policy, uri};
use super::serving::{RealServer, Role};
use super::world::World;
use crate::support::{PATH, PATIENCE, decode};

/// What is run.
#[derive(Debug, Clone, Copy)]
pub enum Run {
    /// A script of the shell.
    Shell(&'static str),
    /// The probe, with words that the shell expands.
    Probe(&'static str),
}

/// What comes of it in the sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    /// It runs and gets nowhere.
    Contained,
    /// It gets nowhere, and may be refused before it runs.
    ContainedOrRefused,
    /// It is something that must work, and leaves this name in the world (none when empty).
    Works(&'static str),
}

/// What comes of the same without a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Free {
    /// It gets through: the attempt is a real one.
    Escapes,
    /// It gets through where this machine and its user have the rights for it.
    Depends,
    /// It only makes sense inside.
    Never,
    /// It would harm the host and is not tried.
    NotTried,
}

/// A row.
#[derive(Debug, Clone, Copy)]
pub struct Attempt {
    /// The number in the specification's matrix or list of holes, and what is tried.
    pub name: &'static str,
    pub policy: Policy,
    /// A script that changes the world before, in its top folder.
    pub setup: &'static str,
    pub run: Run,
    /// A second command under the same policy, when the first has ended.
    pub then: &'static str,
    /// More variables; `$WORLD` in a value is the world's folder.
    pub env: &'static [(&'static str, &'static str)],
    pub tty: bool,
    /// Whether processes that are left behind count without a sandbox.
    pub leaves: bool,
    pub expect: Expect,
    pub free: Free,
    /// What `sandboxDenied` says, where the specification does.
    pub denied: Option<bool>,
    pub code: Option<i32>,
}

/// A script.
pub const fn sh(name: &'static str, policy: Policy, script: &'static str) -> Attempt {
    Attempt {
        name,
        policy,
        setup: "",
        run: Run::Shell(script),
        then: "",
        env: &[],
        tty: false,
        leaves: false,
        expect: Expect::Contained,
        free: Free::Escapes,
        denied: None,
        code: None,
    }
}

/// A system call.
pub const fn probe(name: &'static str, policy: Policy, words: &'static str) -> Attempt {
    Attempt { run: Run::Probe(words), ..sh(name, policy, "") }
}

impl Attempt {
    pub const fn setup(self, setup: &'static str) -> Self {
        Attempt { setup, ..self }
    }
    pub const fn then(self, then: &'static str) -> Self {
        Attempt { then, ..self }
    }
    pub const fn env(self, env: &'static [(&'static str, &'static str)]) -> Self {
        Attempt { env, ..self }
    }
    pub const fn on_terminal(self) -> Self {
        Attempt { tty: true, ..self }
    }
    pub const fn leaves_processes(self) -> Self {
        Attempt { leaves: true, ..self }
    }
    pub const fn works(self, leaves: &'static str) -> Self {
        Attempt { expect: Expect::Works(leaves), ..self }
    }
    pub const fn or_refused(self) -> Self {
        Attempt { expect: Expect::ContainedOrRefused, ..self }
    }
    pub const fn free(self, free: Free) -> Self {
        Attempt { free, ..self }
    }
    pub const fn denied(self, code: i32) -> Self {
        Attempt { denied: Some(true), code: Some(code), ..self }
    }

    /// What the shell is given.
    fn script(&self) -> String {
        match self.run {
            Run::Shell(script) => script.to_owned(),
            Run::Probe(words) => format!("exec \"$PROBE\" {words}"),
        }
    }
}

/// Whether commands could change bubblewrap itself, so that it is not used.
fn out_of_reach(policy: Policy, role: Role) -> bool {
    let everything = matches!(policy, Policy::EverythingButDenied | Policy::Offline);
    everything && role.engine == Engine::Bwrap && !role.ordinary
}

/// What the host saw of an attempt.
#[derive(Debug, Default)]
pub struct Evidence {
    changed: Vec<PathBuf>,
    leaked: bool,
    heard: bool,
    killed: bool,
    did: bool,
    left: usize,
    /// The answer when it was not started.
    pub refused: Option<Value>,
    pub code: Option<i64>,
    pub denied: bool,
    output: String,
    found: bool,
}

impl Evidence {
    fn escaped(&self, attempt: &Attempt) -> bool {
        let left = attempt.leaves && self.left > 0;
        !self.changed.is_empty() || self.leaked || self.heard || self.killed || self.did || left
    }

    /// What is not as the row says, for a run in the sandbox.
    pub fn objection(&self, attempt: &Attempt, role: Role) -> Option<String> {
        let complaint = match attempt.expect {
            _ if self.refused.is_some() && out_of_reach(attempt.policy, role) => {
                let said = self.refused.as_ref().map(Value::to_string).unwrap_or_default();
                if said.contains("a command could have changed it") {
                    return None;
                }
                "refused for another reason".to_owned()
            }
            _ if self.left > 0 => "processes are left".to_owned(),
            Expect::ContainedOrRefused if self.refused.is_some() => {
                let code = self.refused.as_ref().map_or(&Value::Null, |error| &error["code"]);
                if *code == -32602 || *code == -32603 {
                    return None;
                };
                "refused with another code".to_owned()
            }
            _ if self.refused.is_some() => "refused".to_owned(),
            Expect::Works(_) if self.code != Some(0) || !self.found => "does not work".to_owned(),
            Expect::Works(_) => return None,
            _ if self.escaped(attempt) => "ESCAPED".to_owned(),
            _ if attempt.code.is_some_and(|code| Some(i64::from(code)) != self.code) => {
                format!("another exit code than {:?}", attempt.code)
            }
            _ if attempt.denied.is_some_and(|denied| denied != self.denied) => {
                "sandboxDenied is wrong".to_owned()
            }
            _ => return None,
        };
        Some(format!("{}: {complaint}: {self:?}", attempt.name))
    }

    /// What is not as the row says, for a run without a sandbox; and whether it got through.
    pub fn free_objection(&self, attempt: &Attempt) -> (Option<String>, bool) {
        let works = matches!(attempt.expect, Expect::Works(_));
        let through =
            if works { self.code == Some(0) && self.found } else { self.escaped(attempt) };
        let wrong = match attempt.free {
            Free::Escapes => !through,
            Free::Never => through && !works,
            Free::Depends | Free::NotTried => false,
        };
        let objection = wrong.then(|| format!("{}: without a sandbox: {self:?}", attempt.name));
        (objection, through)
    }
}

/// Where attempts are made.
pub struct Stage<'a> {
    pub host: &'a Host,
    pub server: &'a RealServer,
    pub probe: PathBuf,
}

impl Stage<'_> {
    /// Makes one attempt, and says what the host saw. `confined` says whether the policy applies.
    pub async fn play(&self, attempt: &Attempt, confined: bool) -> Evidence {
        let mut world = World::new(attempt.policy, self.server.owner(), attempt.setup);
        let script = attempt.script();
        if format!("{script}{}", attempt.then).contains("$VICTIM") {
            world.start_victim(self.server.owner());
        }
        world.remember();
        let mut peer = RawPeer::websocket(&self.server.url).await.unwrap();
        peer.handshake().await.unwrap();
        let mut evidence = Evidence::default();
        for (id, script) in [("first", script.as_str()), ("then", attempt.then)] {
            if !script.is_empty() {
                let params = self.params(attempt, &world, id, script, confined);
                self.run(&mut peer, params, id, &mut evidence).await;
            }
        }
        self.look(attempt, &mut world, confined, &mut evidence).await;
        peer.close().await.ok();
        evidence
    }

    /// Starts a command and follows it to its end.
    async fn run(&self, peer: &mut RawPeer, params: Value, id: &str, evidence: &mut Evidence) {
        let confined = !params["sandbox"].is_null();
        let answer = peer.call("process/start", params).await.unwrap();
        if let Some(error) = answer.get("error") {
            evidence.refused = Some(error.clone());
            return;
        }
        let kind = if confined { "linuxSeccomp" } else { "none" };
        assert_eq!(answer["result"]["sandboxType"], kind);
        loop {
            let message = peer.recv().await.unwrap().expect("the connection lives");
            let params = &message["params"];
            if params["processId"] != id {
                continue;
            }
            match message["method"].as_str() {
                Some("process/output") => {
                    evidence.output += &String::from_utf8_lossy(&decode(&params["chunk"]));
                }
                Some("process/exited") => {
                    evidence.code = params["exitCode"].as_i64();
                    evidence.denied = params["sandboxDenied"] == true;
                }
                Some("process/closed") => return,
                _ => {}
            }
        }
    }

    /// Looks for what came of it.
    async fn look(
        &self,
        attempt: &Attempt,
        world: &mut World,
        confined: bool,
        evidence: &mut Evidence,
    ) {
        let policy = attempt.policy;
        if attempt.leaves {
            self.look_for_processes(world, confined, evidence).await;
        }
        // What was made for the time of a command goes a moment after it.
        let restored = || world.changed(policy).is_empty();
        let patience = if confined { Duration::from_secs(2) } else { Duration::ZERO };
        leaks::wait_until(patience, "everything as it was", restored).await.ok();
        evidence.changed = world.changed(policy);
        evidence.leaked = evidence.output.contains(&world.secret);
        evidence.did = evidence.output.lines().any(|line| line.trim() == probe::DID);
        evidence.killed = world.victim_is_dead();
        let came = || self.host.has_heard(&world.nonce);
        // It may still be on its way.
        let patience = match attempt.script().contains("$NONCE") {
            true if confined => Duration::from_millis(100),
            true => Duration::from_secs(2),
            false => Duration::ZERO,
        };
        evidence.heard = leaks::wait_until(patience, "a message", came).await.is_ok();
        evidence.found = match attempt.expect {
            Expect::Works(name) => name.is_empty() || world.join(name).exists(),
            _ => false,
        };
    }

    /// Looks for processes that are left behind, and ends them.
    async fn look_for_processes(&self, world: &World, confined: bool, evidence: &mut Evidence) {
        // Those that end with the command may take a moment; those that stay, stay.
        let patience = if confined { PATIENCE / 4 } else { Duration::ZERO };
        let nobody = || leaks::marked(&world.nonce).is_empty();
        leaks::wait_until(patience, "no process", nobody).await.ok();
        let left = leaks::marked(&world.nonce);
        evidence.left = left.len();
        for pid in left {
            // SAFETY: takes numbers only; the process carries our word.
            unsafe { libc::kill(pid as i32, libc::SIGKILL) };
        }
    }

    fn params(
        &self,
        attempt: &Attempt,
        world: &World,
        id: &str,
        script: &str,
        confined: bool,
    ) -> Value {
        let mut env = json!({
            "PATH": PATH,
            "WORLD": world.path(),
            "WS": world.join("ws"),
            "OUT": world.join("out"),
            "SHM": world.shared_memory(),
            "NONCE": world.nonce,
            "PROBE": self.probe,
            "SERVER_PID": self.server.pid().to_string(),
            "SERVER_PORT": self.server.url.rsplit(':').next(),
        });
        let variables = env.as_object_mut().unwrap();
        for (name, value) in &self.host.variables {
            variables.insert((*name).to_owned(), json!(value));
        }
        if let Some(victim) = &world.victim {
            variables.insert("VICTIM".to_owned(), json!(victim.id().to_string()));
        }
        let folder = world.path().display().to_string();
        for (name, value) in attempt.env {
            let value = value.replace("$WORLD", &folder).replace("$PATH", PATH);
            let value = value.replace("$HOST", &self.host.folder().display().to_string());
            variables.insert((*name).to_owned(), json!(value));
        }
        if !confined {
            variables.insert("PROBE_PRIVATE".to_owned(), json!("1"));
        }
        let programs = self.probe.parent().unwrap_or(Path::new("/"));
        let context = if confined { attempt.policy.context(world, programs) } else { Value::Null };
        json!({
            "processId": id,
            "argv": ["/bin/sh", "-c", script],
            "cwd": uri(&world.join("ws")),
            "env": env,
            "tty": attempt.tty,
            "sandbox": context,
        })
    }
}
