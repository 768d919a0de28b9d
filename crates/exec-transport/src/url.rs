//! `ws://` and `wss://` URLs, small and strict: what is not plainly understood is refused.

use std::net::{IpAddr, Ipv6Addr};

use crate::error::Error;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scheme {
    Ws,
    Wss,
}

/// A parsed URL. All parts are safe to be put in a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WsUrl {
    pub(crate) scheme: Scheme,
    /// A name or an address, without brackets.
    pub(crate) host: String,
    pub(crate) port: u16,
    /// The path with its query, at least `/`.
    pub(crate) target: String,
}

impl WsUrl {
    pub(crate) fn parse(url: &str) -> Result<Self, Error> {
        parse(url).map_err(|reason| Error::Url { url: url.to_owned(), reason })
    }

    /// Host and port for people.
    pub(crate) fn address(&self) -> String {
        format!("{}:{}", self.bracketed_host(), self.port)
    }

    /// Host and port for the `Host` header, which leaves the default port out.
    pub(crate) fn host_header(&self) -> String {
        if self.port == default_port(self.scheme) { self.bracketed_host() } else { self.address() }
    }

    fn bracketed_host(&self) -> String {
        if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() }
    }
}

/// Whether a host, with brackets around an IPv6 address, can only be this machine.
pub(crate) fn is_loopback_host(host: &str) -> bool {
    let literal = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        Some(v6) => v6.parse::<Ipv6Addr>().ok().map(IpAddr::V6),
        None if host.contains(':') => None,
        None => host.parse::<IpAddr>().ok(),
    };
    match literal {
        Some(address) => address.to_canonical().is_loopback(),
        None => host.eq_ignore_ascii_case("localhost"),
    }
}

fn default_port(scheme: Scheme) -> u16 {
    match scheme {
        Scheme::Ws => 80,
        Scheme::Wss => 443,
    }
}

fn parse(url: &str) -> Result<WsUrl, &'static str> {
    let (scheme, rest) = if let Some(rest) = url.strip_prefix("ws://") {
        (Scheme::Ws, rest)
    } else if let Some(rest) = url.strip_prefix("wss://") {
        (Scheme::Wss, rest)
    } else {
        return Err("expected ws:// or wss://");
    };
    let (authority, target) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    if !target.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#') {
        return Err("path must be visible ascii without a fragment");
    }
    let (host, port) = split_authority(authority)?;
    let port = match port {
        None => default_port(scheme),
        Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            digits.parse().ok().filter(|port| *port != 0).ok_or("port must be 1 to 65535")?
        }
        Some(_) => return Err("port must be 1 to 65535"),
    };
    let target = if target.starts_with('/') { target.to_owned() } else { format!("/{target}") };
    Ok(WsUrl { scheme, host: host.to_owned(), port, target })
}

fn split_authority(authority: &str) -> Result<(&str, Option<&str>), &'static str> {
    if let Some(rest) = authority.strip_prefix('[') {
        let (host, after) = rest.split_once(']').ok_or("missing `]`")?;
        if host.parse::<Ipv6Addr>().is_err() {
            return Err("not an ipv6 address");
        }
        return match (after, after.strip_prefix(':')) {
            ("", _) => Ok((host, None)),
            (_, Some(port)) => Ok((host, Some(port))),
            (_, None) => Err("unexpected text after `]`"),
        };
    }
    let (host, port) = match authority.split_once(':') {
        Some((host, port)) => (host, Some(port)),
        None => (authority, None),
    };
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    if host.is_empty() || host.len() > 253 || !host.bytes().all(plain) {
        return Err("host must be a name or an address");
    }
    Ok((host, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(url: &str, expected: &str) {
        let shown = match WsUrl::parse(url) {
            Ok(url) => {
                format!("{:?} {} {} {}", url.scheme, url.address(), url.host_header(), url.target)
            }
            Err(Error::Url { reason, .. }) => reason.to_owned(),
            Err(error) => panic!("{error}"),
        };
        assert_eq!(shown, expected, "{url}");
    }

    #[test]
    fn urls_are_taken_apart() {
        check("ws://127.0.0.1:5", "Ws 127.0.0.1:5 127.0.0.1:5 /");
        check("ws://host", "Ws host:80 host /");
        check("wss://host/", "Wss host:443 host /");
        check("wss://host:80/a/b?c=d", "Wss host:80 host:80 /a/b?c=d");
        check("ws://host?c", "Ws host:80 host /?c");
        check("ws://[::1]:7/x", "Ws [::1]:7 [::1]:7 /x");
        check("ws://[::1]", "Ws [::1]:80 [::1] /");
    }

    #[test]
    fn what_is_not_plain_is_refused() {
        check("http://host", "expected ws:// or wss://");
        check("WS://host", "expected ws:// or wss://");
        check("ws://", "host must be a name or an address");
        check("ws://user@host", "host must be a name or an address");
        check("ws://ho st", "host must be a name or an address");
        check("ws://host\r\nX: y", "host must be a name or an address");
        check("ws://host:0", "port must be 1 to 65535");
        check("ws://host:65536", "port must be 1 to 65535");
        check("ws://host:+1", "port must be 1 to 65535");
        check("ws://host:", "port must be 1 to 65535");
        check("ws://::1:80", "host must be a name or an address");
        check("ws://[::1", "missing `]`");
        check("ws://[x]", "not an ipv6 address");
        check("ws://[::1]x", "unexpected text after `]`");
        check("ws://host/#x", "path must be visible ascii without a fragment");
        check("ws://host/a b", "path must be visible ascii without a fragment");
        check("ws://host/\r\nX: y", "path must be visible ascii without a fragment");
    }

    #[test]
    fn loopback_hosts() {
        for host in
            ["localhost", "LOCALHOST", "127.0.0.1", "127.9.9.9", "[::1]", "[::ffff:127.0.0.1]"]
        {
            assert!(is_loopback_host(host), "{host}");
        }
        for host in ["", "::1", "localhost.", "localhost.evil", "0.0.0.0", "[::]", "[127.0.0.1]"] {
            assert!(!is_loopback_host(host), "{host}");
        }
    }
}
