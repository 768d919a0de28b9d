//! URIs of many paths in one directory, without parsing each: the directory's URI, a slash, and
//! the encoded name. What it makes is what [`PathUri::from_native`] makes, which the tests hold it
//! to; the one difference it cannot make itself (a drive letter) it leaves to that.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use exec_protocol::path_uri::PathUri;

use crate::error::Error;

/// Bytes of a name that stand for themselves.
const PLAIN: [bool; 256] = {
    let mut plain = [false; 256];
    let mut byte = 0x21_u8;
    while byte < 0x7f {
        plain[byte as usize] = !matches!(
            byte,
            b'"' | b'#' | b'%' | b'/' | b'<' | b'>' | b'?' | b'\\' | b'`' | b'{' | b'}'
        );
        byte += 1;
    }
    plain
};

/// Writes the URIs of a directory's entries.
#[derive(Debug, Clone)]
pub(crate) struct UriPrefix {
    /// URI of the directory with a slash at the end; the native path where that would mislead.
    prefix: Prefix,
}

#[derive(Debug, Clone)]
enum Prefix {
    Text(String),
    Native(PathBuf),
}

impl UriPrefix {
    /// Of the entries of that directory.
    pub(crate) fn new(directory: &Path) -> Result<Self, Error> {
        // Only directly below the root can a name look like a drive, and everything below it then
        // is spelled in another way.
        let components = directory.components().count();
        let first = directory.components().nth(1).map(|first| first.as_os_str().as_bytes());
        if components <= 1 || first.is_some_and(|first| first.ends_with(b":")) {
            return Ok(Self { prefix: Prefix::Native(directory.to_owned()) });
        }
        let mut text = String::from(PathUri::from_native(directory)?);
        text.push('/');
        Ok(Self { prefix: Prefix::Text(text) })
    }

    /// Makes `out` the URI of the entry. It has no character that JSON would escape.
    pub(crate) fn write(&self, name: &[u8], out: &mut String) -> Result<(), Error> {
        out.clear();
        match &self.prefix {
            Prefix::Text(prefix) => {
                out.push_str(prefix);
                encode(name, out);
            }
            Prefix::Native(directory) => {
                let path = directory.join(OsStr::from_bytes(name));
                out.push_str(PathUri::from_native(&path)?.as_str());
            }
        }
        Ok(())
    }
}

fn encode(name: &[u8], out: &mut String) {
    let mut rest = name;
    while !rest.is_empty() {
        let plain = rest.iter().position(|&byte| !PLAIN[usize::from(byte)]).unwrap_or(rest.len());
        let (text, tail) = rest.split_at(plain);
        out.push_str(std::str::from_utf8(text).expect("plain bytes are ASCII"));
        if let Some((&byte, tail)) = tail.split_first() {
            const HEX: &[u8; 16] = b"0123456789ABCDEF";
            out.push('%');
            out.push(char::from(HEX[usize::from(byte >> 4)]));
            out.push(char::from(HEX[usize::from(byte & 15)]));
            rest = tail;
        } else {
            rest = tail;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(directory: &[u8], name: &[u8]) {
        let directory = Path::new(OsStr::from_bytes(directory));
        let mut got = String::new();
        UriPrefix::new(directory).unwrap().write(name, &mut got).unwrap();
        let expected = PathUri::from_native(&directory.join(OsStr::from_bytes(name))).unwrap();
        assert_eq!(got, expected.as_str());
        assert_eq!(serde_json::to_string(&got).unwrap(), format!("\"{got}\""));
    }

    #[test]
    fn every_byte_is_encoded_as_the_url_rules_say() {
        for byte in (1..=255u8).filter(|&byte| byte != b'/') {
            check(b"/dir", &[b'a', byte, b'b']);
            check(b"/dir", &[byte, b'x']);
        }
    }

    #[test]
    fn what_looks_like_a_drive_is_spelled_otherwise() {
        for (directory, name) in
            [("/", "C:"), ("/", "usr"), ("/C:", "x"), ("/C:/d", "x"), ("/a:b", "x")]
        {
            check(directory.as_bytes(), name.as_bytes());
        }
    }

    proptest! {
        #[test]
        fn it_agrees_with_the_url_parser(
            directory in proptest::collection::vec(1u8..=255, 1..20),
            name in proptest::collection::vec(1u8..=255, 1..20),
        ) {
            let mut path = vec![b'/'];
            path.extend(directory);
            let odd = |part: &[u8]| part == b"." || part == b"..";
            if !name.contains(&b'/') && !odd(&name)
                && !path.ends_with(b"/") && !path.split(|&b| b == b'/').any(odd)
            {
                check(&path, &name);
            }
        }
    }
}
