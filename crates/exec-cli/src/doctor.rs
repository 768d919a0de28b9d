//! `exec-server doctor`: what this machine can do, and what follows from what it lacks.

mod sandbox;

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};

use exec_process::sys::{Containment, Mechanism};
use exec_server::config::{CONFIG_FILE, config_home};

use crate::args::DoctorArgs;
use crate::exit::Outcome;
use crate::serve::load_config;

struct Finding {
    subject: &'static str,
    state: State,
    detail: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Good,
    Weak,
    Bad,
}

impl State {
    fn as_str(self) -> &'static str {
        match self {
            State::Good => "ok",
            State::Weak => "weak",
            State::Bad => "bad",
        }
    }

    fn colour(self) -> &'static str {
        match self {
            State::Good => "\x1b[32m",
            State::Weak => "\x1b[33m",
            State::Bad => "\x1b[31m",
        }
    }
}

pub(crate) fn doctor(args: &DoctorArgs) -> anyhow::Result<Outcome> {
    let containment = Containment::detect();
    let mut findings =
        vec![kernel(), no_orphan(&containment), terminals(), descriptors(), configuration()];
    findings.extend(sandbox::findings());
    findings.push(limits(&containment));
    if args.json {
        let rows: Vec<_> = findings
            .iter()
            .map(|finding| {
                serde_json::json!({
                    "subject": finding.subject,
                    "state": finding.state.as_str(),
                    "detail": finding.detail,
                })
            })
            .collect();
        println!("{}", serde_json::to_string_pretty(&rows)?);
    } else {
        print(&findings)?;
    }
    let bad = findings.iter().any(|finding| finding.state == State::Bad);
    Ok(if bad { Outcome::Code(1) } else { Outcome::Done })
}

fn print(findings: &[Finding]) -> anyhow::Result<()> {
    let mut stdout = std::io::stdout().lock();
    let colour = stdout.is_terminal();
    for Finding { subject, state, detail } in findings {
        let (on, off) = if colour { (state.colour(), "\x1b[0m") } else { ("", "") };
        writeln!(stdout, "{on}{:<4}{off}  {subject:<14} {detail}", state.as_str())?;
    }
    Ok(())
}

fn kernel() -> Finding {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let release = release.trim();
    let mut numbers = release.split(['.', '-']).map(|part| part.parse::<u32>().unwrap_or(0));
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    // clone3 with a pidfd and cleared handlers: 5.5; close_range with its flag: 5.11.
    let (state, note) = if version >= (5, 11) {
        (State::Good, String::new())
    } else {
        (State::Bad, "; 5.11 or later is needed to start processes".to_owned())
    };
    Finding { subject: "kernel", state, detail: format!("Linux {release}{note}") }
}

fn no_orphan(containment: &Containment) -> Finding {
    let (state, detail) = match containment.mechanism() {
        Mechanism::Cgroup => (State::Good, "cgroup: every descendant can be ended, hostile or not"),
        Mechanism::Tag => (
            State::Weak,
            "tag: every descendant can be ended unless it hides on purpose; a writable cgroup v2 \
             would close that gap",
        ),
    };
    Finding { subject: "no orphan", state, detail: detail.to_owned() }
}

fn limits(containment: &Containment) -> Finding {
    let has = containment.controllers();
    let missing = match (has.memory, has.processes) {
        (true, true) => {
            let detail = "by cgroup: memory and number of processes of each command as a whole";
            return Finding { subject: "limits", state: State::Good, detail: detail.to_owned() };
        }
        (false, true) => "memory",
        (true, false) => "pids",
        (false, false) => "memory and pids",
    };
    let detail = format!(
        "the server's cgroup lacks {missing}: memory is limited for each process instead, and a \
         limit on processes holds only in a sandbox of an ordinary user; start the server in a \
         cgroup v2 whose children have these controllers"
    );
    Finding { subject: "limits", state: State::Weak, detail }
}

fn terminals() -> Finding {
    let open = std::fs::OpenOptions::new().read(true).write(true).open("/dev/ptmx");
    match open {
        Ok(_) => Finding {
            subject: "terminals",
            state: State::Good,
            detail: "/dev/ptmx can be opened".to_owned(),
        },
        Err(error) => Finding {
            subject: "terminals",
            state: State::Bad,
            detail: format!("cannot open /dev/ptmx: {error}; tty processes will not start"),
        },
    }
}

fn descriptors() -> Finding {
    let (soft, hard) = exec_process::sys::descriptor_limit();
    // A process takes up to five: two or three streams, its pidfd and its group.
    let processes = hard / 5;
    let state = if processes >= 200 { State::Good } else { State::Weak };
    let detail = format!("limit {soft}, can be raised to {hard}: about {processes} processes");
    Finding { subject: "descriptors", state, detail }
}

fn configuration() -> Finding {
    let subject = "configuration";
    let home = config_home(|name| std::env::var_os(name).map(PathBuf::from));
    let path = home.as_deref().unwrap_or(Path::new("")).join(CONFIG_FILE);
    match load_config() {
        Err(error) => Finding { subject, state: State::Bad, detail: format!("{error:#}") },
        Ok(_) => {
            let found = if path.exists() { "read from" } else { "defaults; none at" };
            Finding { subject, state: State::Good, detail: format!("{found} {}", path.display()) }
        }
    }
}
