//! Messages as lines: one for each `\n`, with an optional `\r` before it. Sans-IO.
//!
//! Blank lines are skipped, and an unterminated last line is never reported.

use crate::error::Error;

#[derive(Debug)]
pub(crate) struct LineDecoder {
    /// The start of a line whose end has not come yet.
    partial: Vec<u8>,
    bytes_max: usize,
}

impl LineDecoder {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self { partial: Vec::new(), bytes_max }
    }

    /// The next line, taken from the front of `input`; `None` when all of `input` is used up.
    pub(crate) fn decode(&mut self, input: &mut &[u8]) -> Result<Option<Vec<u8>>, Error> {
        while let Some(end) = memchr::memchr(b'\n', input) {
            let (head, rest) = (&input[..end], &input[end + 1..]);
            *input = rest;
            self.check_length(head)?;
            let mut line = std::mem::take(&mut self.partial);
            line.extend_from_slice(head);
            if line.last() == Some(&b'\r') {
                line.pop();
            }
            if line.len() > self.bytes_max {
                return Err(self.too_large(line.len()));
            }
            if line.trim_ascii().is_empty() {
                continue;
            }
            return match std::str::from_utf8(&line) {
                Ok(_) => Ok(Some(line)),
                Err(_) => Err(Error::NotUtf8),
            };
        }
        self.check_length(input)?;
        self.partial.extend_from_slice(input);
        *input = &[];
        Ok(None)
    }

    /// Refuses bytes that no terminator could make acceptable any more. One byte over is fine as
    /// long as it may turn out to be the `\r` of the terminator.
    fn check_length(&self, more: &[u8]) -> Result<(), Error> {
        let len = self.partial.len() + more.len();
        let last = more.last().or(self.partial.last());
        let spare = usize::from(last == Some(&b'\r'));
        if len > self.bytes_max + spare { Err(self.too_large(len)) } else { Ok(()) }
    }

    fn too_large(&self, len: usize) -> Error {
        Error::MessageTooLarge { len, max: self.bytes_max }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines found when `input` arrives in pieces of `step` bytes, and how it ended.
    fn lines(input: &[u8], step: usize) -> (Vec<String>, Result<(), String>) {
        let mut decoder = LineDecoder::new(8);
        let mut found = Vec::new();
        for mut piece in input.chunks(step) {
            loop {
                match decoder.decode(&mut piece) {
                    Ok(Some(line)) => found.push(String::from_utf8(line).unwrap()),
                    Ok(None) => break,
                    Err(error) => return (found, Err(error.to_string())),
                }
            }
        }
        (found, Ok(()))
    }

    fn check(input: &[u8], expected: &[&str], error: Option<&str>) {
        for step in 1..=input.len() {
            let (found, end) = lines(input, step);
            assert_eq!(found, expected, "{input:?} in steps of {step}");
            match (&end, error) {
                (Ok(()), None) => {}
                (Err(text), Some(part)) => assert!(text.contains(part), "{text}"),
                (Ok(()), Some(_)) | (Err(_), None) => panic!("{input:?}: {end:?}"),
            }
        }
    }

    #[test]
    fn lines_are_cut_at_newlines_wherever_the_reads_end() {
        check(b"{}\n", &["{}"], None);
        check(b"{}\r\n[]\n", &["{}", "[]"], None);
        check(b" a \n", &[" a "], None);
        check(b"\n  \n\r\n\t\na\n", &["a"], None);
        check(b"a\nunended", &["a"], None);
        check(b"a\r\r\n", &["a\r"], None);
        check("é\n".as_bytes(), &["é"], None);
    }

    #[test]
    fn the_limit_counts_neither_newline_nor_carriage_return() {
        check(b"12345678\n", &["12345678"], None);
        check(b"12345678\r\n", &["12345678"], None);
        check(b"a\n12345678\r9\n", &["a"], Some("over the limit of 8"));
        check(b"a\n123456789\n", &["a"], Some("over the limit of 8"));
        check(b"123456789", &[], Some("over the limit of 8"));
        check(b"         \n", &[], Some("over the limit of 8"));
    }

    #[test]
    fn a_line_that_is_not_utf8_is_an_error() {
        check(b"a\n\xff\n", &["a"], Some("not valid utf-8"));
    }
}
