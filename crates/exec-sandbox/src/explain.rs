//! A policy and its plan, for people: one fact on each line, always in the same order.

use std::fmt::{self, Display, Formatter, Write as _};
use std::path::Path;

use exec_protocol::sandbox as wire;

use crate::plan::{Access, Filter, MaskMode, Mount, Network, Plan, Root};
use crate::policy::{Decision, Origin, Policy, Reason, Rule, State};

/// Prints what is allowed and how that is made true.
pub fn explain(policy: &Policy, plan: &Plan) -> String {
    let mut text = String::new();
    write_all(&mut text, policy, plan).expect("a string takes all that is written");
    text
}

/// Prints why a path may be used or not: `read-only: entry 3 says so for /srv/repo/.git`.
pub fn explain_path(policy: &Policy, path: &Path) -> String {
    let Decision { access, reason } = policy.decide(path);
    format!("{}: {}", allowed(access), Because(&reason))
}

fn write_all(text: &mut String, policy: &Policy, plan: &Plan) -> fmt::Result {
    let network = match policy.network {
        wire::Network::Enabled => "open",
        wire::Network::Restricted => "closed",
    };
    writeln!(text, "network: {network}")?;
    writeln!(text, "working directory: {}", Shown(policy.cwd()))?;
    if policy.restricts_files() {
        writeln!(text, "files:")?;
        for (path, rule) in policy.rules() {
            let missing =
                if matches!(rule.state, State::Missing { .. }) { ", missing" } else { "" };
            let (access, origin) = (allowed(rule.access), Cause(rule));
            writeln!(text, "  {access:<10} {}  ({origin}{missing})", Shown(path))?;
        }
        for skipped in policy.skipped() {
            let (path, entry) = (Shown(&skipped.path), skipped.entry);
            writeln!(text, "  no effect  {path}  (entry {entry}: {})", skipped.reason)?;
        }
    } else {
        writeln!(text, "files: unrestricted")?;
    }
    let filter = match plan.filter {
        Filter::None => "none",
        Filter::Restricted => "no sockets, no breaking in",
        Filter::NetworkOpen => "no breaking in",
    };
    let reach = match plan.network {
        Network::Isolated => "a namespace of its own",
        Network::Host => "the host's",
    };
    writeln!(text, "plan:\n  network: {reach}\n  system calls: {filter}")?;
    let Some(view) = &plan.view else { return writeln!(text, "  file system: the host's") };
    for mount in &view.mounts {
        writeln!(text, "  {}", Step(mount))?;
    }
    for placeholder in &view.placeholders {
        writeln!(text, "  on the host, while it runs: {}", Shown(&placeholder.path))?;
    }
    Ok(())
}

fn allowed(access: wire::Access) -> &'static str {
    match access {
        wire::Access::Read => "read-only",
        wire::Access::Write => "writable",
        wire::Access::Deny => "denied",
    }
}

/// A path without the characters that would move a terminal's cursor.
struct Shown<'a>(&'a Path);

impl Display for Shown<'_> {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        for letter in self.0.to_string_lossy().chars() {
            match letter.is_control() {
                true => write!(formatter, "{}", letter.escape_default())?,
                false => formatter.write_char(letter)?,
            }
        }
        Ok(())
    }
}

/// Who made a rule.
struct Cause<'a>(&'a Rule);

impl Display for Cause<'_> {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        match &self.0.origin {
            Origin::Entry(entry) => write!(formatter, "entry {entry}"),
            Origin::Pattern(entry) => write!(formatter, "entry {entry}, by pattern"),
            Origin::WayTo(entry) => write!(formatter, "on the way to entry {entry}"),
            Origin::Metadata => formatter.write_str("protected name"),
            Origin::Repository(by) => write!(formatter, "repository named by {}", Shown(by)),
            Origin::Platform => formatter.write_str("system files"),
            Origin::Launcher => formatter.write_str("needed to start"),
            Origin::Server => formatter.write_str("the server's own"),
        }
    }
}

/// Why a path may be used or not.
struct Because<'a>(&'a Reason<'a>);

impl Display for Because<'_> {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            Reason::Unrestricted => formatter.write_str("files are not restricted"),
            Reason::NoRule => formatter.write_str("nothing allows it"),
            Reason::Pattern(entry, text) => {
                write!(formatter, "entry {entry}, pattern {}", Shown(Path::new(text)))
            }
            Reason::Rule(path, rule) => write!(formatter, "{} for {}", Cause(rule), Shown(path)),
        }
    }
}

/// One mount.
struct Step<'a>(&'a Mount);

impl Display for Step<'_> {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            Mount::Root(Root::HostReadOnly) => formatter.write_str("root: the host's, read-only"),
            Mount::Root(Root::HostWritable) => formatter.write_str("root: the host's, writable"),
            Mount::Root(Root::Empty) => formatter.write_str("root: empty"),
            Mount::Devices => formatter.write_str("private devices on /dev"),
            Mount::SharedMemory => formatter.write_str("the host's /dev/shm"),
            Mount::Processes => formatter.write_str("its own processes on /proc"),
            Mount::SealRoot => formatter.write_str("root: sealed"),
            Mount::Bind { path, access: Access::ReadOnly } => {
                write!(formatter, "read-only {}", Shown(path))
            }
            Mount::Bind { path, access: Access::Writable } => {
                write!(formatter, "writable {}", Shown(path))
            }
            Mount::Pin(path) => write!(formatter, "in place {}", Shown(path)),
            Mount::PinLink(path) => write!(formatter, "link in place {}", Shown(path)),
            Mount::Link { path, target } => {
                write!(formatter, "link {} to {}", Shown(path), Shown(target))
            }
            Mount::MaskFile(path) => write!(formatter, "masked file {}", Shown(path)),
            Mount::MaskDirectory { path, mode, .. } => {
                let mode = match mode {
                    MaskMode::Closed => "closed",
                    MaskMode::Passage => "passage",
                    MaskMode::Listed => "empty",
                };
                write!(formatter, "masked directory {} ({mode})", Shown(path))
            }
        }
    }
}
