//! Where a server listens, as given on its command line.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

/// What a server listens on when nothing is said: loopback, any free port.
pub const DEFAULT_LISTEN_URL: &str = "ws://127.0.0.1:0";

/// A parsed listen URL. Displays as it is announced, without a trailing slash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListenUrl {
    /// `ws://IP:PORT` or `wss://IP:PORT`.
    WebSocket {
        /// Port 0 means any free port.
        addr: SocketAddr,
        /// Whether connections are TLS.
        tls: bool,
    },
    /// One connection on stdin and stdout.
    Stdio,
}

/// Why a listen URL is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ListenUrlParseError {
    /// The scheme is right, the rest is not a literal address with a port.
    #[error("invalid websocket --listen URL `{url}`; expected `{scheme}IP:PORT`")]
    InvalidWebSocket {
        /// The URL as given.
        url: String,
        /// `ws://` or `wss://`.
        scheme: &'static str,
    },
    /// No scheme we know.
    #[error("unsupported --listen URL `{0}`; expected `ws://IP:PORT` or `stdio`")]
    Unsupported(String),
}

impl FromStr for ListenUrl {
    type Err = ListenUrlParseError;

    fn from_str(url: &str) -> Result<Self, Self::Err> {
        if url == "stdio" || url == "stdio://" {
            return Ok(Self::Stdio);
        }
        for (scheme, tls) in [("ws://", false), ("wss://", true)] {
            if let Some(addr) = url.strip_prefix(scheme) {
                return match addr.parse() {
                    Ok(addr) => Ok(Self::WebSocket { addr, tls }),
                    Err(_) => {
                        Err(ListenUrlParseError::InvalidWebSocket { url: url.to_owned(), scheme })
                    }
                };
            }
        }
        Err(ListenUrlParseError::Unsupported(url.to_owned()))
    }
}

impl fmt::Display for ListenUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WebSocket { addr, tls: false } => write!(f, "ws://{addr}"),
            Self::WebSocket { addr, tls: true } => write!(f, "wss://{addr}"),
            Self::Stdio => f.write_str("stdio"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(url: &str, expected: Result<&str, &str>) {
        let parsed = url.parse::<ListenUrl>();
        let shown = parsed.as_ref().map(ToString::to_string).map_err(ToString::to_string);
        assert_eq!(shown, expected.map(str::to_owned).map_err(str::to_owned), "{url}");
    }

    fn check_invalid(url: &str) {
        let text = format!("invalid websocket --listen URL `{url}`; expected `ws://IP:PORT`");
        check(url, Err(&text));
    }

    fn check_unsupported(url: &str) {
        let text = format!("unsupported --listen URL `{url}`; expected `ws://IP:PORT` or `stdio`");
        check(url, Err(&text));
    }

    #[test]
    fn addresses_and_stdio_are_accepted() {
        check(DEFAULT_LISTEN_URL, Ok("ws://127.0.0.1:0"));
        check("ws://127.0.0.1:34217", Ok("ws://127.0.0.1:34217"));
        check("ws://[::1]:46523", Ok("ws://[::1]:46523"));
        check("ws://0.0.0.0:40739", Ok("ws://0.0.0.0:40739"));
        check("wss://0.0.0.0:443", Ok("wss://0.0.0.0:443"));
        check("stdio", Ok("stdio"));
        check("stdio://", Ok("stdio"));
    }

    #[test]
    fn names_missing_ports_and_paths_are_invalid() {
        check_invalid("ws://localhost:0");
        check_invalid("ws://127.0.0.1");
        check_invalid("ws://127.0.0.1:0/");
        check_invalid("ws://127.0.0.1:99999");
        check_invalid("ws://::1:80");
        check_invalid("ws://");
        let text = "invalid websocket --listen URL `wss://host:1`; expected `wss://IP:PORT`";
        check("wss://host:1", Err(text));
    }

    #[test]
    fn other_schemes_are_unsupported() {
        for url in ["http://127.0.0.1:0", "unix:///run/x", "", "STDIO", "stdio:", "127.0.0.1:0"] {
            check_unsupported(url);
        }
    }
}
