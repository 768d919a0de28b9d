//! Paths on the wire: `file:` URIs. A native absolute path is accepted too, for old clients.
//!
//! Decoding checks what is true on every platform; whether the path can exist on *this* executor
//! is asked by [`PathUri::to_native`], because a client may well name a path of another system.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use url::Url;

/// Carries a path that has no faithful spelling as a URI, as base64url of its bytes.
const UNFAITHFUL: &str = "file:///%00/bad/path/";

/// A path, as a normalised `file:` URI.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(with = "String"))]
pub struct PathUri(String);

/// Why a string is not a path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PathUriError {
    /// Not a URI at all.
    #[error("invalid URI: {0}")]
    Syntax(#[from] url::ParseError),
    /// A URI, but not of a file.
    #[error("unsupported path URI scheme `{0}`")]
    Scheme(String),
    /// `?…`
    #[error("query parameters are not allowed in path URIs")]
    Query,
    /// `#…`
    #[error("fragments are not allowed in path URIs")]
    Fragment,
    /// User name, password or port.
    #[error("invalid URI: a file URI has no user and no port")]
    Authority,
    /// Cannot name a file on this executor.
    #[error("'{0}' is invalid on 'linux'")]
    Foreign(String),
}

impl PathUri {
    /// The URI of an absolute native path.
    pub fn from_native(path: &Path) -> Result<Self, PathUriError> {
        let url =
            Url::from_file_path(path).map_err(|()| url::ParseError::RelativeUrlWithoutBase)?;
        // Asked of the URI, not of the path, which may begin with more than one slash. A reader
        // would resolve `..` by itself, without asking the file system.
        let resolved = url.path_segments().is_some_and(|mut parts| parts.any(|part| part == ".."));
        if resolved || drive_letter(url.path().as_bytes()) {
            let bytes = path.as_os_str().as_bytes();
            let text = base64_simd::URL_SAFE_NO_PAD.encode_to_string(bytes);
            return Ok(Self(format!("{UNFAITHFUL}{text}")));
        }
        Ok(Self(url.into()))
    }

    /// The URI as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The path on this executor.
    pub fn to_native(&self) -> Result<PathBuf, PathUriError> {
        let foreign = || PathUriError::Foreign(self.0.clone());
        if let Some(text) = self.0.strip_prefix(UNFAITHFUL) {
            let bytes = base64_simd::URL_SAFE_NO_PAD.decode_to_vec(text).map_err(|_| foreign())?;
            // What has a spelling of its own must use it, or one file would have two names.
            let unfaithful = |path: &PathBuf| {
                Self::from_native(path).is_ok_and(|uri| uri.0.starts_with(UNFAITHFUL))
            };
            return native(bytes).filter(unfaithful).ok_or_else(foreign);
        }
        let rest = self.0.strip_prefix("file://").ok_or_else(foreign)?;
        // A host other than this machine; `localhost` is gone since normalisation.
        if !rest.starts_with('/') || drive_letter(rest.as_bytes()) {
            return Err(foreign());
        }
        native(plain(percent_decode(rest))).ok_or_else(foreign)
    }
}

/// Bytes to a path: no NUL, one leading slash, no trailing one.
fn native(bytes: Vec<u8>) -> Option<PathBuf> {
    if bytes.contains(&0) || bytes.first() != Some(&b'/') {
        return None;
    }
    let start = bytes.iter().position(|&byte| byte != b'/').map_or(0, |first| first - 1);
    let end = bytes.iter().rposition(|&byte| byte != b'/').map_or(1, |last| last + 1);
    Some(PathBuf::from(OsStr::from_bytes(&bytes[start..end.max(start + 1)])))
}

/// `/C:` or `/C:/…`: a first segment of this form always means a Windows drive.
fn drive_letter(path: &[u8]) -> bool {
    matches!(path, [b'/', letter, b':'] | [b'/', letter, b':', b'/', ..]
        if letter.is_ascii_alphabetic())
}

/// A `..` that only decoding has shown, behind a `%2F`, is resolved like those that the URL parser
/// sees: by name, before links. Of many slashes one is left. The reference does so too.
fn plain(path: Vec<u8>) -> Vec<u8> {
    let is_odd = |part: &[u8]| matches!(part, b"" | b"." | b"..");
    if !path.split(|&byte| byte == b'/').skip(1).any(is_odd) {
        return path;
    }
    let mut parts: Vec<&[u8]> = Vec::new();
    for part in path.split(|&byte| byte == b'/') {
        match part {
            b".." => drop(parts.pop()),
            b"." | b"" => {}
            _ => parts.push(part),
        }
    }
    [b"/".as_slice(), &parts.join(&b'/')].concat()
}

fn percent_decode(text: &str) -> Vec<u8> {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let hex =
            |offset: usize| bytes.get(at + offset).and_then(|&byte| char::from(byte).to_digit(16));
        match (bytes[at], hex(1), hex(2)) {
            (b'%', Some(high), Some(low)) => {
                out.push(u8::try_from(high * 16 + low).expect("two hex digits make a byte"));
                at += 3;
            }
            (byte, ..) => {
                out.push(byte);
                at += 1;
            }
        }
    }
    out
}

impl TryFrom<String> for PathUri {
    type Error = PathUriError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        if text.starts_with('/') {
            return Self::from_native_text(text);
        }
        if is_canonical(&text) {
            return Ok(Self(text));
        }
        let mut url = Url::parse(&text)?;
        if url.scheme() != "file" {
            return Err(PathUriError::Scheme(url.scheme().to_owned()));
        }
        if url.query().is_some() {
            return Err(PathUriError::Query);
        }
        if url.fragment().is_some() {
            return Err(PathUriError::Fragment);
        }
        if !url.username().is_empty() || url.password().is_some() || url.port().is_some() {
            return Err(PathUriError::Authority);
        }
        if let [b'/', letter, b':', ..] = *url.path().as_bytes()
            && drive_letter(&url.path().as_bytes()[..url.path().len().min(4)])
        {
            let upper = format!("/{}{}", letter.to_ascii_uppercase() as char, &url.path()[2..]);
            url.set_path(&upper);
        }
        let uri = Self(url.into());
        let nul = !uri.0.starts_with(UNFAITHFUL) && uri.0.contains("%00");
        if nul { Err(PathUriError::Foreign(uri.0)) } else { Ok(uri) }
    }
}

impl PathUri {
    fn from_native_text(text: String) -> Result<Self, PathUriError> {
        if text.contains('\0') {
            return Err(PathUriError::Foreign(text));
        }
        Self::from_native(Path::new(&text))
    }
}

/// Whether the text already is what normalisation would make of it: the usual case, decided
/// without a parser. `file:///` and segments of plain characters, none empty, `.`, `..` or a drive.
fn is_canonical(text: &str) -> bool {
    let Some(path) = text.strip_prefix("file:///") else { return false };
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_~+@,.".contains(byte);
    path.split('/').all(|segment| {
        !segment.is_empty()
            && !matches!(segment, "." | "..")
            && segment.as_bytes().iter().all(plain)
    })
}

impl From<PathUri> for String {
    fn from(uri: PathUri) -> Self {
        uri.0
    }
}

impl fmt::Display for PathUri {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(uri: &str, expected: &str) {
        let got = PathUri::try_from(uri.to_owned())
            .and_then(|uri| uri.to_native())
            .map_or_else(|error| error.to_string(), |path| path.to_string_lossy().into_owned());
        assert_eq!(got, expected, "for {uri}");
    }

    #[test]
    fn every_spelling_of_a_path_becomes_that_path() {
        for uri in [
            "file:///srv/x",
            "FILE:///srv/x",
            "file:/srv/x",
            "file:srv/x",
            "file:////srv/x",
            "file://localhost/srv/x",
            "file:///srv/a/../x",
            "file:///srv/a%2F..%2Fx",
            "file:///..%2F..%2Fsrv%2F.%2F/x",
            "file:///srv/./x",
            "file:///srv%2Fx",
            "file:///srv\\x",
            "file:///srv/x/",
            "/srv/x",
        ] {
            check(uri, "/srv/x");
        }
        check("file:///", "/");
        check("/", "/");
        check("file:///a%20b/é c", "/a b/é c");
        check("/with space/%41?#", "/with space/%41?#");
    }

    #[test]
    fn what_is_no_path_here_is_refused_in_words() {
        check("x", "invalid URI: relative URL without a base");
        check("", "invalid URI: relative URL without a base");
        check("http://h/x", "unsupported path URI scheme `http`");
        check("file:///x?q", "query parameters are not allowed in path URIs");
        check("file:///x#f", "fragments are not allowed in path URIs");
        check("file:///%00", "'file:///%00' is invalid on 'linux'");
        check("file:///c:/x", "'file:///C:/x' is invalid on 'linux'");
        check("file://srv/x", "'file://srv/x' is invalid on 'linux'");
        check("/a\0b", "'/a\0b' is invalid on 'linux'");
        for uri in ["file://u@h/x", "file://h:1/x"] {
            assert!(PathUri::try_from(uri.to_owned()).is_err(), "{uri}");
        }
    }

    #[test]
    fn emitted_uris_are_percent_encoded() {
        let emit = |bytes: &[u8]| {
            PathUri::from_native(Path::new(OsStr::from_bytes(bytes))).unwrap().to_string()
        };
        assert_eq!(emit("/srv/sp ace%é.txt".as_bytes()), "file:///srv/sp%20ace%25%C3%A9.txt");
        assert_eq!(emit(b"/bad\xff"), "file:///bad%FF");
        assert_eq!(emit(b"/C:/x"), "file:///%00/bad/path/L0M6L3g");
    }

    proptest::proptest! {
        #[test]
        fn a_native_path_survives_the_wire(bytes in proptest::collection::vec(1u8..=255, 0..40)) {
            let path = Path::new("/").join(OsStr::from_bytes(&bytes));
            // Segments that URL parsing resolves are the sender's to resolve.
            let plain = path.as_os_str().as_bytes().split(|&b| b == b'/').skip(1)
                .all(|part| !part.is_empty() && part != b"." && part != b"..");
            if plain {
                let sent = String::from(PathUri::from_native(&path).unwrap());
                let back = PathUri::try_from(sent).unwrap();
                proptest::prop_assert_eq!(back.to_native().unwrap(), path);
            }
        }

        #[test]
        fn the_short_cut_agrees_with_the_parser(text in "file:///[a-zA-Z:./%+@~-]{0,12}") {
            if is_canonical(&text) {
                proptest::prop_assert_eq!(Url::parse(&text).unwrap().to_string(), text);
            }
        }
    }
}
