//! Conformance vectors: conversations written down once, replayed over every transport against our
//! server and, as far as they describe the reference, against the real one.
//!
//! A file holds one or more conversations; each has a connection of its own. Line by line:
//!
//! ```text
//! # comment
//! === title                   a new conversation; what stands before the first one is for all
//! @ codex ready               words about the conversation, see below
//! > {"id":1, …}               send exactly this text
//! >b64 /wA=                   send these bytes
//! >resume {"id":1, …}         the same, and again while it is answered with -32010
//! >close                      end our side of the connection
//! < {"id":1, …}               the next message of that kind must match
//! <* {…}                      a run of such lines: these messages, in any order
//! <output p stdout "text"     output of process p on that stream, however it is cut into chunks
//! <output p stdout "ab" x 9   the same, for a text repeated
//! <end p 0                    process/exited with that code, then process/closed
//! <quiet 200                  nothing unread is left, and nothing comes for so many milliseconds
//! <close                      the server ends the connection
//! --- b                       go on with connection b, which is opened on first use
//! !file a/b "text"            work on the files themselves, see `fixture.rs`
//! ?file a/b "text"            look at the files themselves
//! ```
//!
//! | Word | Meaning |
//! | --- | --- |
//! | `codex` | holds for the reference and for us |
//! | `ours` | holds for us: an addition, or a correction of the reference |
//! | `reference` | holds for the reference only: what such a correction corrects |
//! | `ready` | every connection begins with the handshake already done |
//! | `transports …` | only over these: `memory`, `stdio`, `websocket` |
//! | `args …` | needs a server started with these arguments |
//! | `env NAME=value` | needs a server that has this in its environment |
//!
//! The kind of a message is: the answer to an id; or a notification of that method for that process.
//! So answers and notifications may interleave as they like, while two outputs of a process may not.
//! Patterns are explained in `pattern.rs`. In sent text `$ref(name)` stands for a bound value,
//! `$b64(text)` for a text in base64 and `$repeat(count,text)` for a repetition. Bound from the
//! beginning are `$ref(scratch)` and `$ref(home)`, paths of directories that are removed with the
//! conversation, the second one fit for a `CODEX_HOME`, and `$ref(web)`, the `address:port` of the
//! HTTP server of `web.rs`. They may be used in `env` as well.

mod pattern;

mod inbox;

mod additive;

mod fixture;

mod conversation;

mod replay;

use std::fmt;
use std::fs;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

pub use replay::{Launcher, Report, Setup, Suite, Transport, replay_all};

/// One conversation.
#[derive(Debug, Clone)]
pub(crate) struct Vector {
    /// The file below `vectors/`, and the conversation's title.
    pub(crate) name: String,
    pub(crate) scope: Scope,
    /// Transports it is for; empty means all.
    pub(crate) transports: Vec<Transport>,
    pub(crate) setup: Setup,
    /// Whether connections begin after the handshake.
    pub(crate) ready: bool,
    pub(crate) steps: Vec<Step>,
}

/// Whose behaviour a vector describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    Both,
    Ours,
    Reference,
}

#[derive(Debug, Clone)]
pub(crate) struct Step {
    pub(crate) line: usize,
    pub(crate) action: Action,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Action {
    Send(String),
    Resume(String),
    SendBytes(Vec<u8>),
    HangUp,
    Expect(Value),
    ExpectAll(Vec<Value>),
    ExpectOutput {
        process: String,
        stream: String,
        text: String,
    },
    ExpectEnd {
        process: String,
        exit_code: i32,
    },
    ExpectQuiet(Duration),
    ExpectClose,
    SwitchTo(String),
    /// Something done to files, or seen in them; needs no connection.
    Files(fixture::Act),
}

/// Reads every `.txt` file below `directory`, in order of path.
pub(crate) fn load(directory: &Path) -> Result<Vec<Vector>> {
    let mut files = Vec::new();
    collect_files(directory, &mut files)?;
    files.sort();
    let mut vectors = Vec::new();
    for path in files {
        let name = path.strip_prefix(directory)?.with_extension("").display().to_string();
        vectors.extend(parse(&name, &fs::read_to_string(&path)?)?);
    }
    Ok(vectors)
}

fn collect_files(directory: &Path, files: &mut Vec<std::path::PathBuf>) -> Result<()> {
    let entries =
        fs::read_dir(directory).with_context(|| format!("cannot list {}", directory.display()))?;
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() {
            collect_files(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "txt") {
            files.push(path);
        }
    }
    Ok(())
}

/// What has been read so far of a conversation.
#[derive(Clone, Default)]
struct Draft {
    title: String,
    scope: Option<Scope>,
    transports: Vec<Transport>,
    setup: Setup,
    ready: bool,
    steps: Vec<Step>,
}

/// Reads the conversations of one file.
fn parse(file: &str, text: &str) -> Result<Vec<Vector>> {
    let mut preamble = None;
    let mut draft = Draft::default();
    let mut vectors = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let number = index + 1;
        let located = || format!("vectors/{file}.txt:{number}: {line}");
        if let Some(title) = line.strip_prefix("===") {
            if preamble.is_none() {
                preamble = Some(draft.clone());
            } else {
                vectors.push(draft.finish(file)?);
            }
            draft = preamble.clone().unwrap_or_default();
            draft.title = title.trim().to_owned();
        } else if let Some(words) = line.strip_prefix("@ ") {
            draft.direct(words).with_context(located)?;
        } else if !line.trim().is_empty() && !line.starts_with('#') {
            draft.step(number, line).with_context(located)?;
        }
    }
    vectors.push(draft.finish(file)?);
    Ok(vectors)
}

impl Draft {
    /// Takes in the words after an `@`.
    fn direct(&mut self, words: &str) -> Result<()> {
        let mut words = words.split_ascii_whitespace();
        while let Some(word) = words.next() {
            match word {
                "codex" => self.scope = Some(Scope::Both),
                "ours" => self.scope = Some(Scope::Ours),
                "reference" => self.scope = Some(Scope::Reference),
                "ready" => self.ready = true,
                "transports" => {
                    self.transports = words.by_ref().map(str::parse).collect::<Result<_>>()?;
                }
                "args" => self.setup.args.extend(words.by_ref().map(str::to_owned)),
                "env" => {
                    let assignment = words.by_ref().collect::<Vec<_>>().join(" ");
                    let (name, value) = assignment.split_once('=').context("no `=`")?;
                    self.setup.env.push((name.to_owned(), value.to_owned()));
                }
                _ => bail!("unknown word {word:?}"),
            }
        }
        Ok(())
    }

    fn step(&mut self, line: usize, text: &str) -> Result<()> {
        if let Some(pattern) = text.strip_prefix("<* ") {
            let pattern = serde_json::from_str(pattern)?;
            if let Some(Step { action: Action::ExpectAll(patterns), .. }) = self.steps.last_mut() {
                patterns.push(pattern);
                return Ok(());
            }
            self.steps.push(Step { line, action: Action::ExpectAll(vec![pattern]) });
        } else {
            self.steps.push(Step { line, action: text.parse()? });
        }
        Ok(())
    }

    fn finish(self, file: &str) -> Result<Vector> {
        let name = format!("{file}: {}", self.title);
        let scope = self.scope.with_context(|| format!("{name}: codex, ours or reference?"))?;
        let Self { transports, setup, ready, steps, .. } = self;
        Ok(Vector { name, scope, transports, setup, ready, steps })
    }
}

impl FromStr for Action {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let (verb, rest) = text.split_once(' ').unwrap_or((text, ""));
        Ok(match verb {
            ">" => Action::Send(rest.to_owned()),
            ">b64" => Action::SendBytes(pattern::base64_decode(rest)?),
            ">resume" => Action::Resume(rest.to_owned()),
            ">close" => Action::HangUp,
            "<" => Action::Expect(serde_json::from_str(rest)?),
            "<output" => parse_output(rest)?,
            "<end" => {
                let (process, exit_code) = rest.split_once(' ').context("no exit code")?;
                Action::ExpectEnd { process: process.to_owned(), exit_code: exit_code.parse()? }
            }
            "<quiet" => Action::ExpectQuiet(Duration::from_millis(rest.parse()?)),
            "<close" => Action::ExpectClose,
            "---" => Action::SwitchTo(rest.to_owned()),
            _ if verb.starts_with(['!', '?']) => Action::Files(text.parse()?),
            _ => bail!("unknown verb {verb:?}"),
        })
    }
}

/// `process stream "text"`, or `process stream "text" x count`
fn parse_output(text: &str) -> Result<Action> {
    let mut parts = text.splitn(3, ' ');
    let (process, stream) = (parts.next(), parts.next());
    let quoted = parts.next().context("expected a process, a stream and a text")?;
    let (quoted, count) = match quoted.rsplit_once("\" x ") {
        Some((quoted, count)) => (format!("{quoted}\""), count.parse()?),
        None => (quoted.to_owned(), 1),
    };
    Ok(Action::ExpectOutput {
        process: process.unwrap_or_default().to_owned(),
        stream: stream.unwrap_or_default().to_owned(),
        text: serde_json::from_str::<String>(&quoted)?.repeat(count),
    })
}

impl FromStr for Transport {
    type Err = anyhow::Error;

    fn from_str(name: &str) -> Result<Self> {
        Ok(match name {
            "memory" => Transport::Memory,
            "stdio" => Transport::Stdio,
            "websocket" => Transport::WebSocket,
            _ => bail!("unknown transport {name:?}"),
        })
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Transport::Memory => "memory",
            Transport::Stdio => "stdio",
            Transport::WebSocket => "websocket",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_preamble_holds_for_every_conversation() {
        let text = "# about\n@ codex ready\n=== one\n> {}\n<quiet 5\n\n=== two\n@ ours transports stdio\n\
                    @ env A=b c\n<* {\"id\":1}\n<* {\"id\":2}\n<output p stdout \"x\" x 3\n<end p -1\n";
        let vectors = parse("f", text).unwrap();
        let [one, two] = vectors.as_slice() else { panic!("{vectors:?}") };
        assert_eq!((one.name.as_str(), one.scope, one.ready), ("f: one", Scope::Both, true));
        assert_eq!(one.steps[0].action, Action::Send("{}".into()));
        assert_eq!(one.steps[1].line, 5);
        assert_eq!((two.scope, two.ready), (Scope::Ours, true));
        assert_eq!(two.transports, [Transport::Stdio]);
        assert_eq!(two.setup.env, [("A".to_owned(), "b c".to_owned())]);
        assert_eq!(two.steps[0].action, Action::ExpectAll(vec![json!({"id":1}), json!({"id":2})]));
        let output = Action::ExpectOutput {
            process: "p".into(),
            stream: "stdout".into(),
            text: "xxx".into(),
        };
        assert_eq!(two.steps[1].action, output);
        assert_eq!(two.steps[2].action, Action::ExpectEnd { process: "p".into(), exit_code: -1 });
    }

    #[test]
    fn a_mistake_is_shown_with_its_line() {
        let check = |text: &str, expected: &str| {
            let error = format!("{:#}", parse("f", text).unwrap_err());
            assert!(error.contains(expected), "{error}");
        };
        check("@ codex\n=== t\n<maybe 5", "vectors/f.txt:3: <maybe 5: unknown verb");
        check("@ codex\n=== t\n< {", "vectors/f.txt:3");
        check("@ codecs", "unknown word");
        check("=== t\n> {}", "codex, ours or reference?");
    }

    #[test]
    fn the_vectors_of_this_repository_can_be_read() {
        assert!(!load(&crate::codex::workspace_dir().join("vectors")).unwrap().is_empty());
    }
}
