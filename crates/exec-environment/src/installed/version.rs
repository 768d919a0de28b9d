//! Which of several installed versions counts.

use std::cmp::Ordering;

/// A version that somebody works on, and that hides the released ones.
const LOCAL: &str = "local";

/// The local version, or else the highest.
pub(super) fn newest(versions: Vec<String>) -> Option<String> {
    if versions.iter().any(|version| version == LOCAL) {
        return Some(LOCAL.to_owned());
    }
    // Not `max_by`: the order is not transitive where only some are semantic versions.
    versions.into_iter().reduce(|best, next| match compare(&best, &next) {
        Ordering::Less => next,
        Ordering::Equal | Ordering::Greater => best,
    })
}

/// As semantic versions if both are, else as texts.
fn compare(a: &str, b: &str) -> Ordering {
    match (Semantic::parse(a), Semantic::parse(b)) {
        (Some(left), Some(right)) => left.cmp(&right),
        _ => a.cmp(b),
    }
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Semantic<'a> {
    numbers: [u64; 3],
    /// A release comes after all of its candidates.
    release: bool,
    candidate: Vec<Part<'a>>,
    build: Vec<Part<'a>>,
}

/// Numbers come before words.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Part<'a> {
    Number(u64),
    Word(&'a str),
}

impl<'a> Semantic<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let (rest, build) = text.split_once('+').map_or((text, None), |(r, b)| (r, Some(b)));
        let (numbers, candidate) = rest.split_once('-').map_or((rest, None), |(n, c)| (n, Some(c)));
        let mut parts = numbers.split('.').map(number);
        let numbers = [parts.next()??, parts.next()??, parts.next()??];
        if parts.next().is_some() {
            return None;
        }
        Some(Self {
            numbers,
            release: candidate.is_none(),
            candidate: parse_parts(candidate)?,
            build: parse_parts(build)?,
        })
    }
}

fn number(text: &str) -> Option<u64> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    let padded = text.len() > 1 && text.starts_with('0');
    if digits && !padded { text.parse().ok() } else { None }
}

fn parse_parts(text: Option<&str>) -> Option<Vec<Part<'_>>> {
    let Some(text) = text else { return Some(Vec::new()) };
    let part = |part| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        let word = |part: &'_ str| !part.is_empty() && part.bytes().all(plain);
        word(part).then(|| number(part).map_or(Part::Word(part), Part::Number))
    };
    text.split('.').map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_version_counts() {
        let check = |versions: &[&str], expected: &str| {
            let mut versions: Vec<String> = versions.iter().map(|&v| v.to_owned()).collect();
            versions.sort_unstable();
            assert_eq!(newest(versions.clone()).as_deref(), Some(expected), "{versions:?}");
        };
        check(&["1.0.0", "2.0.0"], "2.0.0");
        check(&["1.10.0", "1.9.0"], "1.10.0");
        check(&["local", "9.0.0"], "local");
        check(&["abc", "0.1"], "abc");
        check(&["1.0.0-rc1", "1.0.0"], "1.0.0");
        check(&["1.0.0-alpha.2", "1.0.0-alpha.10"], "1.0.0-alpha.10");
        check(&["1.0.0+a", "1.0.0+b"], "1.0.0+b");
        check(&["zzz", "local2"], "zzz");
        check(&["1.0.0", "0abc"], "1.0.0");
        check(&["10", "9"], "9");
        check(&["1.0.0", "1.5"], "1.5");
        check(&["10.0.0", "9", "9.5.0"], "9.5.0");
        assert_eq!(newest(Vec::new()), None);
    }
}
