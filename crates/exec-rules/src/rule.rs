//! What a rule is, and when it matches.

use std::fmt;
use std::sync::Arc;

use serde::Serialize;

/// What a rule says about the commands it matches; the stricter, the greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Decision {
    /// Run it without asking.
    Allow,
    /// Ask first.
    Prompt,
    /// Never run it.
    Forbidden,
}

impl Decision {
    /// The word for it in a rules file.
    pub fn parse(word: &str) -> Option<Self> {
        match word {
            "allow" => Some(Self::Allow),
            "prompt" => Some(Self::Prompt),
            "forbidden" => Some(Self::Forbidden),
            _ => None,
        }
    }

    /// As a rules file spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Prompt => "prompt",
            Self::Forbidden => "forbidden",
        }
    }
}

impl fmt::Display for Decision {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// Where something stands in a file. Lines and columns count from 1.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Location {
    /// The file as it was named to us.
    pub file: Arc<str>,
    /// The line.
    pub line: usize,
    /// The column, in characters.
    pub column: usize,
}

impl fmt::Display for Location {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// One position of a pattern. A list of one alternative is the same as the word itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Token {
    /// Exactly this word.
    Single(Box<str>),
    /// One of these words.
    Alts(Box<[Box<str>]>),
}

impl Token {
    /// The words it accepts.
    pub fn words(&self) -> &[Box<str>] {
        match self {
            Self::Single(word) => std::slice::from_ref(word),
            Self::Alts(words) => words,
        }
    }

    fn accepts(&self, word: &str) -> bool {
        self.words().iter().any(|accepted| **accepted == *word)
    }
}

/// A rule for one program: the command begins with these words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrefixRule {
    /// The program. A call with alternatives for it makes one rule for each.
    pub first: Arc<str>,
    /// What follows it.
    pub rest: Arc<[Token]>,
    /// What the rule says.
    pub decision: Decision,
    /// Why, in the words of whoever wrote it.
    pub justification: Option<Arc<str>>,
    /// The call that made it.
    pub location: Location,
}

impl PrefixRule {
    /// Positions of the pattern.
    pub fn len(&self) -> usize {
        1 + self.rest.len()
    }

    /// Never: a pattern has at least its program.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Whether a command matches whose program is known to.
    pub(crate) fn accepts_arguments<S: AsRef<str>>(&self, arguments: &[S]) -> bool {
        arguments.len() >= self.rest.len()
            && self.rest.iter().zip(arguments).all(|(token, word)| token.accepts(word.as_ref()))
    }

    /// The reference's way to show a rule in its complaints.
    pub(crate) fn describe(&self) -> String {
        format!(
            "PrefixRule {{ pattern: PrefixPattern {{ first: {:?}, rest: {:?} }}, decision: {:?}, \
             justification: {:?} }}",
            self.first, self.rest, self.decision, self.justification
        )
    }
}

impl fmt::Display for PrefixRule {
    /// The pattern as a rules file spells it.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "[{}", quoted(&self.first))?;
        for token in &*self.rest {
            match token {
                Token::Single(word) => write!(formatter, ", {}", quoted(word))?,
                Token::Alts(words) => {
                    let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
                    write!(formatter, ", [{}]", words.join(", "))?;
                }
            }
        }
        formatter.write_str("]")
    }
}

/// A string literal that means the same in Starlark and in JSON.
pub fn quoted(text: &str) -> String {
    use fmt::Write as _;
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            control if control < ' ' => {
                write!(out, "\\u{:04x}", u32::from(control)).ok(); // A String never fails.
            }
            other => out.push(other),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stricter_is_the_greater() {
        assert!(Decision::Forbidden > Decision::Prompt && Decision::Prompt > Decision::Allow);
        for decision in [Decision::Allow, Decision::Prompt, Decision::Forbidden] {
            assert_eq!(Decision::parse(decision.as_str()), Some(decision));
        }
        assert_eq!(Decision::parse("deny"), None);
    }

    #[test]
    fn literals_are_json() {
        for text in ["", "a b", "\"\\\n\r\t\u{1}\u{8}\u{c}\u{1f}\u{7f}é\u{2028}"] {
            let back: String = serde_json::from_str(&quoted(text)).unwrap();
            assert_eq!(back, text);
        }
    }
}
