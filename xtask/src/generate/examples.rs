//! Examples for the reference, taken word for word from the vectors: what is shown is what is tested.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde_json::Value;

/// Every exchange and every notification that the vectors show.
#[derive(Debug, Default)]
pub(super) struct Examples {
    exchanges: Vec<Exchange>,
    notices: Vec<Text>,
}

/// A request with its answer.
#[derive(Debug)]
struct Exchange {
    sent: Text,
    answer: Text,
}

/// One line of a vector.
#[derive(Debug, Clone)]
struct Text {
    /// The file below `vectors/`, without its ending.
    file: String,
    text: String,
    value: Value,
}

impl Text {
    /// Nothing, if it is not JSON; some vectors are about that.
    fn new(file: &str, text: &str) -> Option<Self> {
        let value = serde_json::from_str(text).ok()?;
        Some(Self { file: file.to_owned(), text: text.to_owned(), value })
    }

    fn method(&self) -> Option<&str> {
        self.value["method"].as_str()
    }

    /// Whether something in it stands for something else.
    fn has_placeholder(&self) -> bool {
        self.text.contains('$')
    }
}

impl Examples {
    /// Reads every vector that our server is held to.
    pub(super) fn load(directory: &Path) -> Result<Self> {
        let mut files = Vec::new();
        collect(directory, &mut files)?;
        files.sort();
        let mut examples = Self::default();
        for path in files {
            let file = path.strip_prefix(directory)?.with_extension("").display().to_string();
            let text = fs::read_to_string(&path)
                .with_context(|| format!("cannot read {}", path.display()))?;
            examples.read(&file, &text);
        }
        Ok(examples)
    }

    fn read(&mut self, file: &str, text: &str) {
        let mut conversations = text.split("\n===");
        // What stands before the first conversation is for all of them.
        let for_all = conversations.next().unwrap_or_default();
        for conversation in conversations {
            let is_about_us = scope(conversation).or(scope(for_all)) != Some("reference");
            if is_about_us {
                self.read_conversation(file, conversation);
            }
        }
    }

    fn read_conversation(&mut self, file: &str, conversation: &str) {
        let mut asked: Vec<(&str, Text)> = Vec::new();
        let mut connection = "";
        for line in conversation.lines() {
            let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
            match verb {
                "---" => connection = rest,
                ">" => asked.extend(Text::new(file, rest).map(|text| (connection, text))),
                "<" | "<*" => {
                    let Some(said) = Text::new(file, rest) else { continue };
                    if said.method().is_some() {
                        self.notices.push(said);
                        continue;
                    }
                    let is_answered = |(to, sent): &(&str, Text)| {
                        *to == connection && sent.value.get("id") == said.value.get("id")
                    };
                    if let Some(index) = asked.iter().position(is_answered) {
                        let (_, sent) = asked.remove(index);
                        self.exchanges.push(Exchange { sent, answer: said });
                    }
                }
                _ => {}
            }
        }
    }

    /// The plainest exchange of a method: one that succeeds, spelt out, from its own file.
    pub(super) fn request(&self, method: &str) -> Option<(&str, &str)> {
        let of_method = |exchange: &&Exchange| {
            exchange.sent.method() == Some(method) && shows_a_result(&exchange.answer.value)
        };
        let rank = |exchange: &&Exchange| {
            let Exchange { sent, answer } = exchange;
            (
                sent.has_placeholder(),
                answer.text.contains("$more"),
                answer.has_placeholder(),
                !is_about(&sent.file, method),
            )
        };
        let best = self.exchanges.iter().filter(of_method).min_by_key(rank)?;
        Some((&best.sent.text, &best.answer.text))
    }

    /// The plainest notification of that name.
    pub(super) fn notice(&self, method: &str) -> Option<&str> {
        let of_method = |notice: &&Text| notice.method() == Some(method);
        let best =
            self.notices.iter().filter(of_method).min_by_key(|text| text.has_placeholder())?;
        Some(&best.text)
    }
}

/// Whether a call succeeds, and more is shown of its result than that it is one.
fn shows_a_result(answer: &Value) -> bool {
    answer.get("result").is_some_and(|result| !result.is_string())
}

/// The word that says whose behaviour a conversation describes, if it says so.
fn scope(text: &str) -> Option<&str> {
    let words = text.lines().filter_map(|line| line.strip_prefix("@ "));
    let mut words = words.flat_map(str::split_ascii_whitespace);
    words.rfind(|word| ["codex", "ours", "reference"].contains(word))
}

/// `process/start` is what `process/start.txt` is about, and `initialize` the whole folder.
fn is_about(file: &str, method: &str) -> bool {
    file == method || file.split('/').next() == Some(method)
}

fn collect(directory: &Path, files: &mut Vec<std::path::PathBuf>) -> Result<()> {
    let entries =
        fs::read_dir(directory).with_context(|| format!("cannot list {}", directory.display()))?;
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|ending| ending == "txt") {
            files.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const VECTOR: &str = r#"# About.
@ codex ready
=== not of ours
@ reference
> {"id":1,"method":"a/b","params":"theirs"}
< {"id":1,"result":{}}
=== an error and a success
> not JSON
> {"id":1,"method":"a/b","params":"wrong"}
< {"id":1,"error":{"code":1,"message":""}}
> {"id":2,"method":"a/b","params":"right"}
> {"id":3,"method":"a/c"}
< {"method":"a/said","params":{"seq":"$int"}}
<* {"id":3,"result":{"seq":"$int"}}
<* {"id":2,"result":{}}
< {"method":"a/said","params":{"seq":1}}
=== two connections
--- one
> {"id":1,"method":"a/d"}
--- two
< {"id":1,"result":{"not":"the answer"}}
--- one
< {"id":1,"result":{"the":"answer"}}
> {"id":2,"method":"a/e"}
< {"id":2,"result":"$bind(e)"}
"#;

    #[test]
    fn the_plainest_exchange_is_shown() {
        let mut examples = Examples::default();
        examples.read("a/b", VECTOR);
        let check = |method, sent: &str, answer: &str| {
            assert_eq!(examples.request(method), Some((sent, answer)));
        };
        check("a/b", r#"{"id":2,"method":"a/b","params":"right"}"#, r#"{"id":2,"result":{}}"#);
        check("a/c", r#"{"id":3,"method":"a/c"}"#, r#"{"id":3,"result":{"seq":"$int"}}"#);
        check("a/d", r#"{"id":1,"method":"a/d"}"#, r#"{"id":1,"result":{"the":"answer"}}"#);
        assert_eq!(examples.request("a/e"), None);
        assert_eq!(examples.request("a/unheard"), None);
        assert_eq!(examples.notice("a/said"), Some(r#"{"method":"a/said","params":{"seq":1}}"#));
    }
}
