//! Just enough JSON to follow a server: whose message it is, its number, and how long its chunk is.
//!
//! No tree is built and no base64 decoded, so that a client takes output in faster than any server
//! can send it. Members may come in any order; strings we compare are those that need no escapes.

use memchr::memchr2;

/// What the benchmark wants to know of a message.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Incoming<'a> {
    /// A good answer.
    Answer { id: u64, result: &'a [u8] },
    /// A bad answer.
    Refused { id: Option<u64>, error: &'a [u8] },
    /// A piece of output, still in base64.
    Output { process: usize, seq: u64, chunk: &'a [u8] },
    /// An exit.
    Exited { process: usize, seq: u64 },
    /// The last event of a process.
    Closed { process: usize, seq: u64 },
    /// Something the benchmark does not look at.
    Other,
}

/// Reads a message; none when it is not what a server sends.
pub(crate) fn parse(text: &[u8]) -> Option<Incoming<'_>> {
    let (mut id, mut result, mut error) = (None, None, None);
    let (mut method, mut params) = (&b""[..], &b""[..]);
    for (key, value) in members(text) {
        match key {
            b"id" => id = number(value),
            b"result" => result = Some(value),
            b"error" => error = Some(value),
            b"method" => method = string(value)?,
            b"params" => params = value,
            _ => {}
        }
    }
    match (result, error) {
        (Some(result), _) => return Some(Incoming::Answer { id: id?, result }),
        (None, Some(error)) => return Some(Incoming::Refused { id, error }),
        (None, None) => {}
    }
    let event = match method {
        b"process/output" | b"process/exited" | b"process/closed" => event(params)?,
        _ => return Some(Incoming::Other),
    };
    let Event { process, seq, chunk } = event;
    match method {
        b"process/output" => Some(Incoming::Output { process, seq, chunk: chunk? }),
        b"process/exited" => Some(Incoming::Exited { process, seq }),
        _ => Some(Incoming::Closed { process, seq }),
    }
}

/// The members that events have in common.
struct Event<'a> {
    process: usize,
    seq: u64,
    chunk: Option<&'a [u8]>,
}

fn event(params: &[u8]) -> Option<Event<'_>> {
    let (mut process, mut seq, mut chunk) = (None, None, None);
    for (key, value) in members(params) {
        match key {
            b"processId" => process = number(string(value)?),
            b"seq" => seq = number(value),
            b"chunk" => chunk = Some(string(value)?),
            _ => {}
        }
    }
    Some(Event { process: usize::try_from(process?).ok()?, seq: seq?, chunk })
}

/// How many bytes a base64 text stands for.
pub(crate) fn decoded_len(chunk: &[u8]) -> usize {
    let padding = chunk.iter().rev().take_while(|byte| **byte == b'=').count();
    (chunk.len() / 4 * 3).saturating_sub(padding)
}

/// A whole number; none for anything else.
fn number(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// What stands between the quotes.
fn string(text: &[u8]) -> Option<&[u8]> {
    text.strip_prefix(b"\"")?.strip_suffix(b"\"")
}

/// Keys and values of an object, as raw text. Ends early at what is not JSON.
fn members(object: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let mut rest = object.trim_ascii_start().strip_prefix(b"{").unwrap_or_default();
    std::iter::from_fn(move || {
        rest = rest.trim_ascii_start();
        let (key, after) = rest.split_at_checked(value_len(rest)?)?;
        let after = after.trim_ascii_start().strip_prefix(b":")?.trim_ascii_start();
        let (value, after) = after.split_at_checked(value_len(after)?)?;
        let after = after.trim_ascii_start();
        rest = after.strip_prefix(b",").unwrap_or_default();
        Some((string(key)?, value))
    })
}

/// The length of the value that the text begins with.
fn value_len(text: &[u8]) -> Option<usize> {
    match text.first()? {
        b'"' => string_len(text),
        b'{' | b'[' => nested_len(text),
        _ => text.iter().position(|byte| b",}] \t\r\n".contains(byte)),
    }
}

fn string_len(text: &[u8]) -> Option<usize> {
    let mut at = 1;
    loop {
        at += memchr2(b'"', b'\\', text.get(at..)?)?;
        if text[at] == b'"' {
            return Some(at + 1);
        }
        at += 2;
    }
}

fn nested_len(text: &[u8]) -> Option<usize> {
    let (mut at, mut depth) = (0, 0_usize);
    loop {
        match text.get(at)? {
            b'"' => at += string_len(&text[at..])?,
            b'{' | b'[' => (at, depth) = (at + 1, depth + 1),
            b'}' | b']' => (at, depth) = (at + 1, depth - 1),
            _ => at += 1,
        }
        if depth == 0 {
            return Some(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Option<Incoming<'_>>) {
        assert_eq!(parse(text.as_bytes()), expected, "for {text}");
    }

    #[test]
    fn messages_are_told_apart_whatever_the_order_of_their_members() {
        check(
            r#"{"method":"process/output","params":{"processId":"7","seq":3,"stream":"pty","chunk":"aGkK"}}"#,
            Some(Incoming::Output { process: 7, seq: 3, chunk: b"aGkK" }),
        );
        check(
            r#" { "params" : { "seq" : 4 , "extra" : [ "}" , { } ] , "processId" : "7" } , "method" : "process/closed" } "#,
            Some(Incoming::Closed { process: 7, seq: 4 }),
        );
        check(
            r#"{"method":"process/exited","params":{"processId":"0","seq":1,"exitCode":0}}"#,
            Some(Incoming::Exited { process: 0, seq: 1 }),
        );
        check(
            r#"{"id":12,"result":{"a":"\"\\"}}"#,
            Some(Incoming::Answer { id: 12, result: br#"{"a":"\"\\"}"# }),
        );
        check(
            r#"{"error":{"code":-32601},"id":5}"#,
            Some(Incoming::Refused { id: Some(5), error: br#"{"code":-32601}"# }),
        );
        check(r#"{"method":"process/started","params":{}}"#, Some(Incoming::Other));
    }

    #[test]
    fn what_lacks_a_number_or_an_end_is_nothing() {
        check(r#"{"method":"process/output","params":{"processId":"7","chunk":""}}"#, None);
        check(r#"{"method":"process/closed","params":{"processId":"x","seq":1}}"#, None);
        check(r#"{"result":1}"#, None);
        check(r#"{"method":"process/closed","params":{"seq":1"#, None);
        check(r#"{"method":"process/closed","params":{"a":"\"#, None);
    }

    #[test]
    fn the_length_of_a_chunk_needs_no_decoding() {
        for (text, len) in [("", 0), ("aGk=", 2), ("aA==", 1), ("aGkK", 3)] {
            assert_eq!(decoded_len(text.as_bytes()), len, "{text}");
        }
    }
}
