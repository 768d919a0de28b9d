//! Patterns of names that are denied wherever they match.
//!
//! `*` and `?` stay within one name, `**` crosses directories, `[a-z]` and `[!a-z]` are classes, an
//! unclosed `[` is itself, `{a,b}` stands for both, and `\` takes the next character literally.

use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};

use super::locate::normal;

/// Patterns that the braces of one may stand for.
const ALTERNATIVES_MAX: usize = 256;
/// Bytes in one pattern.
const PATTERN_BYTES_MAX: usize = 4096;

/// A pattern without braces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pattern {
    /// The directory under which it is looked for; for a literal pattern, what it names.
    pub base: PathBuf,
    /// What has to match below it, name by name.
    parts: Vec<Part>,
    /// Which entry it came from.
    pub entry: usize,
    /// As it was written there.
    pub text: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    /// `**`: any directories, or none.
    Any,
    /// One name.
    Name(Vec<Token>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    /// Itself.
    Literal(char),
    /// `?`
    One,
    /// `*`
    Many,
    /// `[…]`
    Class { negated: bool, ranges: Vec<(char, char)> },
}

/// How far a path has come through a pattern: the parts that may match its next name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Progress(Vec<usize>);

/// Reads a pattern, relative to a directory whose own name is taken literally.
pub(crate) fn compile(base: &Path, text: &str) -> Result<Vec<Pattern>, &'static str> {
    if text.len() > PATTERN_BYTES_MAX {
        return Err("is too long");
    }
    if text.contains('\0') {
        return Err("contains a zero byte");
    }
    let mut alternatives = Vec::new();
    expand_braces(text, &mut alternatives)?;
    alternatives.iter().map(|text| Pattern::read(base, text)).collect()
}

impl Pattern {
    fn read(base: &Path, text: &str) -> Result<Self, &'static str> {
        let mut base = if text.starts_with('/') { PathBuf::from("/") } else { base.to_owned() };
        let mut parts = Vec::new();
        for name in text.split('/').filter(|name| !matches!(*name, "" | ".")) {
            if name == "**" {
                if parts.last() != Some(&Part::Any) {
                    parts.push(Part::Any);
                }
                continue;
            }
            let tokens = tokens(name);
            let literal: Option<String> = tokens.iter().map(Token::literal).collect();
            match literal {
                Some(name) if parts.is_empty() => base.push(name),
                Some(name) if name == ".." => return Err("climbs after a wildcard"),
                _ => parts.push(Part::Name(tokens)),
            }
        }
        let base = normal(&base);
        if base == Path::new("/") {
            return Err("would have to be looked for on the whole disk");
        }
        Ok(Self { base, parts, entry: 0, text: String::new() })
    }

    /// The same, remembering where it came from.
    pub(super) fn of_entry(self, entry: usize, text: &str) -> Self {
        Self { entry, text: text.to_owned(), ..self }
    }

    /// Whether it names one path.
    pub(crate) fn is_literal(&self) -> bool {
        self.parts.is_empty()
    }

    /// Nothing matched yet.
    pub(crate) fn start(&self) -> Progress {
        self.closed(vec![0])
    }

    /// One name further; says whether what has that name matches.
    pub(crate) fn advance(&self, from: &Progress, name: &OsStr) -> (Progress, bool) {
        let name: Vec<char> = name.to_string_lossy().chars().collect();
        let mut next = Vec::new();
        let mut matched = false;
        for &at in &from.0 {
            let reached = match self.parts.get(at) {
                Some(Part::Any) => {
                    next.push(at);
                    // At the end it stands for everything inside.
                    (at + 1 == self.parts.len()).then_some(at + 1)
                }
                Some(Part::Name(tokens)) => name_matches(tokens, &name).then_some(at + 1),
                None => None,
            };
            match reached {
                Some(reached) if reached == self.parts.len() => matched = true,
                Some(reached) => next.push(reached),
                None => {}
            }
        }
        (self.closed(next), matched)
    }

    /// Whether the path, or a directory on the way to it, matches.
    pub(crate) fn covers(&self, path: &Path) -> bool {
        let Ok(below) = path.strip_prefix(&self.base) else { return false };
        if self.is_literal() {
            return true;
        }
        let mut progress = self.start();
        for component in below.components() {
            let Component::Normal(name) = component else { return false };
            let (next, matched) = self.advance(&progress, name);
            if matched {
                return true;
            }
            progress = next;
        }
        false
    }

    /// The same as an anchored regular expression, with all that is below a match.
    pub(crate) fn regex(&self) -> String {
        let mut regex = String::from("^");
        for letter in self.base.to_string_lossy().chars() {
            push_literal(&mut regex, letter);
        }
        let mut slash = true;
        for (index, part) in self.parts.iter().enumerate() {
            if std::mem::replace(&mut slash, true) {
                regex.push('/');
            }
            match part {
                Part::Any if index + 1 == self.parts.len() => regex.push_str("[^/]+"),
                Part::Any => {
                    regex.push_str("([^/]+/)*");
                    slash = false;
                }
                Part::Name(tokens) => tokens.iter().for_each(|token| token.push_regex(&mut regex)),
            }
        }
        regex.push_str("(/.*)?$");
        regex
    }

    /// `**` also stands for no directory at all.
    fn closed(&self, mut at: Vec<usize>) -> Progress {
        let mut index = 0;
        while index < at.len() {
            let part = at[index];
            if self.parts.get(part) == Some(&Part::Any) && part + 1 < self.parts.len() {
                at.push(part + 1);
            }
            index += 1;
        }
        at.sort_unstable();
        at.dedup();
        Progress(at)
    }
}

impl Progress {
    /// Whether nothing below can match any more.
    pub(crate) fn is_over(&self) -> bool {
        self.0.is_empty()
    }
}

impl Token {
    fn literal(&self) -> Option<char> {
        match self {
            Token::Literal(letter) => Some(*letter),
            Token::One | Token::Many | Token::Class { .. } => None,
        }
    }

    fn push_regex(&self, regex: &mut String) {
        match self {
            Token::Literal(letter) => push_literal(regex, *letter),
            Token::One => regex.push_str("[^/]"),
            Token::Many => regex.push_str("[^/]*"),
            // A quote would end the expression where it is written down; deny more instead.
            Token::Class { ranges, .. } if ranges.iter().any(|it| it.0 == '"' || it.1 == '"') => {
                regex.push_str("[^/]");
            }
            Token::Class { negated, ranges } => {
                regex.push_str(if *negated { "[^/" } else { "[" });
                for (low, high) in ranges {
                    push_class(regex, *low);
                    if low != high {
                        regex.push('-');
                        push_class(regex, *high);
                    }
                }
                regex.push(']');
            }
        }
    }

    fn takes(&self, letter: char) -> bool {
        match self {
            Token::Literal(wanted) => *wanted == letter,
            Token::One | Token::Many => true,
            Token::Class { negated, ranges } => {
                ranges.iter().any(|(low, high)| (*low..=*high).contains(&letter)) != *negated
            }
        }
    }
}

/// A letter as itself. A quote would end the expression where it is written down.
fn push_literal(regex: &mut String, letter: char) {
    if letter == '"' {
        regex.push('.');
        return;
    }
    if !letter.is_alphanumeric() && letter.is_ascii() && letter != '/' {
        regex.push('\\');
    }
    regex.push(letter);
}

fn push_class(regex: &mut String, letter: char) {
    match letter {
        '\\' | ']' | '[' | '^' | '-' => regex.extend(['\\', letter]),
        other => regex.push(other),
    }
}

/// Matches one name, in time proportional to the product of the lengths.
fn name_matches(tokens: &[Token], name: &[char]) -> bool {
    let (mut token, mut letter) = (0, 0);
    // Where to try again: the last `*`, and the letter it would swallow next.
    let mut retry = None;
    loop {
        match tokens.get(token) {
            Some(Token::Many) => {
                retry = Some((token, letter));
                token += 1;
                continue;
            }
            Some(wanted) if name.get(letter).is_some_and(|&letter| wanted.takes(letter)) => {
                token += 1;
                letter += 1;
                continue;
            }
            None if letter == name.len() => return true,
            Some(_) | None => {}
        }
        match retry {
            Some((star, swallowed)) if swallowed < name.len() => {
                retry = Some((star, swallowed + 1));
                token = star + 1;
                letter = swallowed + 1;
            }
            _ => return false,
        }
    }
}

fn tokens(name: &str) -> Vec<Token> {
    let letters: Vec<char> = name.chars().collect();
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(&letter) = letters.get(at) {
        at += 1;
        match letter {
            '?' => tokens.push(Token::One),
            // Two stars beside other letters are one.
            '*' if tokens.last() == Some(&Token::Many) => {}
            '*' => tokens.push(Token::Many),
            '\\' if at < letters.len() => {
                tokens.push(Token::Literal(letters[at]));
                at += 1;
            }
            '[' => match class(&letters[at..]) {
                Some((token, used)) => {
                    tokens.push(token);
                    at += used;
                }
                None => tokens.push(Token::Literal('[')),
            },
            other => tokens.push(Token::Literal(other)),
        }
    }
    tokens
}

/// What follows a `[`, and how much of it. A `]` in the first place is itself.
fn class(letters: &[char]) -> Option<(Token, usize)> {
    let negated = matches!(letters.first(), Some('!' | '^'));
    let mut at = usize::from(negated);
    let mut ranges = Vec::new();
    loop {
        let first = *letters.get(at)?;
        if first == ']' && !ranges.is_empty() {
            return Some((Token::Class { negated, ranges }, at + 1));
        }
        match (letters.get(at + 1), letters.get(at + 2)) {
            (Some('-'), Some(&last)) if last != ']' => {
                ranges.push((first, last));
                at += 3;
            }
            _ => {
                ranges.push((first, first));
                at += 1;
            }
        }
    }
}

/// Replaces braces, from the left. Without a partner, or without a comma, a brace is itself.
fn expand_braces(text: &str, into: &mut Vec<String>) -> Result<(), &'static str> {
    let mut ahead = vec![(text.to_owned(), 0)];
    while let Some((text, from)) = ahead.pop() {
        if into.len() + ahead.len() >= ALTERNATIVES_MAX {
            return Err("stands for too many patterns");
        }
        match braces(&text, from) {
            None => into.push(text),
            Some((open, close, choices)) => {
                // What a choice brought along may hold braces too.
                for choice in choices.iter().rev() {
                    let (before, after) = (&text[..open], &text[close + 1..]);
                    ahead.push((format!("{before}{choice}{after}"), open));
                }
            }
        }
    }
    Ok(())
}

/// The first pair of braces with a comma: where it opens and closes, and what it offers.
fn braces(text: &str, from: usize) -> Option<(usize, usize, Vec<String>)> {
    let mut opened: Option<usize> = None;
    let mut choices = Vec::new();
    let mut start = 0;
    let mut depth = 0_usize;
    let mut letters = text[from..].char_indices().map(|(at, letter)| (at + from, letter));
    while let Some((at, letter)) = letters.next() {
        match letter {
            '\\' => {
                letters.next();
            }
            '{' => {
                depth += 1;
                if depth == 1 {
                    (opened, start) = (Some(at), at + 1);
                    choices.clear();
                }
            }
            ',' if depth == 1 => {
                choices.push(text[start..at].to_owned());
                start = at + 1;
            }
            '}' if depth == 1 => {
                let open = opened?;
                if choices.is_empty() {
                    depth = 0;
                    continue;
                }
                choices.push(text[start..at].to_owned());
                return Some((open, at, choices));
            }
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pattern: &str, path: &str, expected: bool) {
        let alternatives = compile(Path::new("/r"), pattern).expect(pattern);
        let got = alternatives.iter().any(|pattern| pattern.covers(Path::new(path)));
        assert_eq!(got, expected, "{pattern} on {path}");
    }

    #[test]
    fn wildcards_match_what_they_say() {
        check("**/*.env", "/r/a.env", true);
        check("**/*.env", "/r/x/.y/a.env", true);
        check("**/*.env", "/r/x.env/inside", true);
        check("**/*.env", "/r/a.envy", false);
        check("**/*.env", "/other/a.env", false);
        check("*.env", "/r/x/a.env", false);
        check("*.env", "/r/.env", true);
        check("a/**/b", "/r/a/b", true);
        check("a/**/b", "/r/a/x/y/b", true);
        check("a/**/b", "/r/a/x/y/c", false);
        check("secret/**", "/r/secret", false);
        check("secret/**", "/r/secret/x", true);
        check("a?c", "/r/aéc", true);
        check("a?c", "/r/ac", false);
        check("[a-c]x", "/r/bx", true);
        check("[!a-c]x", "/r/bx", false);
        check("[]x]", "/r/]", true);
        check("[ab", "/r/[ab", true);
        check("/abs/*.pem", "/abs/k.pem", true);
        check("a\\*", "/r/a*", true);
        check("a\\*", "/r/ab", false);
        check("*a*b*c", "/r/xxaxxbxxc", true);
        check("*a*b*c", "/r/xxaxxcxxb", false);
    }

    #[test]
    fn literal_and_brace_patterns_are_accepted() {
        check("x/secret", "/r/x/secret", true);
        check("x/secret", "/r/x/secret/below", true);
        check("x/secret", "/r/x", false);
        check("*.{env,pem}", "/r/k.pem", true);
        check("*.{env,pem}", "/r/k.crt", false);
        check("{a,b/{c,d}}/x", "/r/b/d/x", true);
        check("{a}", "/r/{a}", true);
        check("{a,b", "/r/{a,b", true);
        check("../q/*", "/q/x", true);
        let bases: Vec<_> = compile(Path::new("/r[1]"), "*.env").unwrap();
        assert_eq!(bases[0].base, Path::new("/r[1]"));
    }

    #[test]
    fn a_pattern_as_a_regular_expression() {
        let regex = |pattern: &str| compile(Path::new("/r.1"), pattern).unwrap()[0].regex();
        assert_eq!(regex("**/*.env"), r"^/r\.1/([^/]+/)*[^/]*\.env(/.*)?$");
        assert_eq!(regex("a/**"), r"^/r\.1/a/[^/]+(/.*)?$");
        assert_eq!(regex("x?[!a-c]\""), r"^/r\.1/x[^/][^/a-c].(/.*)?$");
        assert_eq!(regex("lit"), r"^/r\.1/lit(/.*)?$");
    }

    #[test]
    fn what_cannot_be_looked_for_is_refused() {
        let refused = |pattern: &str| compile(Path::new("/r"), pattern).unwrap_err();
        assert!(refused("/**/*.env").contains("whole disk"));
        assert!(refused("/").contains("whole disk"));
        assert!(refused("*/../x").contains("climbs"));
        assert!(refused(&"{a,b}".repeat(9)).contains("too many"));
        assert!(refused(&"a".repeat(5000)).contains("too long"));
    }
}
