//! `network_rule`: which hosts may be reached. No part of judging commands.

use std::collections::HashMap;

use crate::rule::Location;

/// How a host is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    /// Plain HTTP.
    Http,
    /// HTTP over TLS, by `CONNECT`.
    Https,
    /// SOCKS5, TCP.
    Socks5Tcp,
    /// SOCKS5, UDP.
    Socks5Udp,
}

impl Protocol {
    /// The word for it in a rules file, or one of its synonyms.
    pub fn parse(word: &str) -> Option<Self> {
        match word {
            "http" => Some(Self::Http),
            "https" | "https_connect" | "http-connect" => Some(Self::Https),
            "socks5_tcp" => Some(Self::Socks5Tcp),
            "socks5_udp" => Some(Self::Socks5Udp),
            _ => None,
        }
    }

    /// As a rules file spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
            Self::Socks5Tcp => "socks5_tcp",
            Self::Socks5Udp => "socks5_udp",
        }
    }
}

/// What a network rule says about its host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// It may be reached.
    Allow,
    /// Somebody is asked: in neither list.
    Prompt,
    /// It may not be reached.
    Deny,
}

impl Access {
    /// The word for it in a rules file.
    pub fn parse(word: &str) -> Option<Self> {
        match word {
            "allow" => Some(Self::Allow),
            "prompt" => Some(Self::Prompt),
            "deny" | "forbidden" => Some(Self::Deny),
            _ => None,
        }
    }

    /// As a rules file spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Prompt => "prompt",
            Self::Deny => "deny",
        }
    }
}

/// A rule about one host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkRule {
    /// Normalised.
    pub host: String,
    /// How it is reached.
    pub protocol: Protocol,
    /// What the rule says.
    pub access: Access,
    /// Why.
    pub justification: Option<String>,
    /// The call that made it.
    pub location: Location,
}

/// Hosts that may and that may not be reached, in the order in which they were first named.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostLists {
    /// May be reached.
    pub allowed: Vec<String>,
    /// May not be reached.
    pub denied: Vec<String>,
}

/// The later rule for a host replaces the earlier; a rule that prompts says nothing.
pub(crate) fn compile(rules: &[NetworkRule]) -> HostLists {
    let mut latest: HashMap<&str, Access> = HashMap::new();
    let mut order = Vec::new();
    for rule in rules.iter().filter(|rule| rule.access != Access::Prompt) {
        if latest.insert(&rule.host, rule.access).is_none() {
            order.push(rule.host.as_str());
        }
    }
    let mut lists = HostLists::default();
    for host in order {
        match latest.get(host) {
            Some(Access::Deny) => lists.denied.push(host.to_owned()),
            Some(Access::Allow | Access::Prompt) | None => lists.allowed.push(host.to_owned()),
        }
    }
    lists
}

/// The host that a text names: without port, brackets, final dots and capitals.
pub fn normal_host(text: &str) -> Result<String, String> {
    let text = text.trim();
    let host = if text.is_empty() {
        text
    } else if text.contains("://") || text.contains(['/', '?', '#']) {
        return Err("network_rule host must be a hostname or IP literal (without scheme or path)"
            .to_owned());
    } else if let Some(rest) = text.strip_prefix('[') {
        let Some((inside, suffix)) = rest.split_once(']') else {
            return Err("network_rule host has an invalid bracketed IPv6 literal".to_owned());
        };
        if !suffix.is_empty() && !is_port(suffix) {
            return Err(format!("network_rule host contains an unsupported suffix: {text}"));
        }
        inside
    } else {
        match text.split_once(':') {
            // More than one colon is an IPv6 literal.
            Some((host, port)) if !host.is_empty() && is_port(&text[host.len()..]) => {
                debug_assert!(!port.contains(':'), "a port is digits");
                host
            }
            Some(_) | None => text,
        }
    };
    let host = host.trim_end_matches('.').trim().to_ascii_lowercase();
    if host.is_empty() {
        return Err("network_rule host cannot be empty".to_owned());
    }
    if host.contains('*') {
        return Err(
            "network_rule host must be a specific host; wildcards are not allowed".to_owned()
        );
    }
    if host.chars().any(char::is_whitespace) {
        return Err("network_rule host cannot contain whitespace".to_owned());
    }
    Ok(host)
}

/// A colon and digits.
fn is_port(suffix: &str) -> bool {
    suffix
        .strip_prefix(':')
        .is_some_and(|port| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_normalised_or_refused() {
        for (text, host) in [
            (" Example.COM. ", "example.com"),
            ("example.com:443", "example.com"),
            ("[::1]:8", "::1"),
            ("[::1]", "::1"),
            ("::1", "::1"),
            ("10.0.0.1:80", "10.0.0.1"),
        ] {
            assert_eq!(normal_host(text).as_deref(), Ok(host), "{text}");
        }
        for (text, complaint) in [
            ("", "cannot be empty"),
            ("...", "cannot be empty"),
            ("https://a", "without scheme or path"),
            ("a/b", "without scheme or path"),
            ("a?b", "without scheme or path"),
            ("a#b", "without scheme or path"),
            ("a b", "whitespace"),
            ("*.a", "wildcards"),
            ("[::1", "bracketed"),
            ("[::1]x", "unsupported suffix"),
        ] {
            assert!(normal_host(text).unwrap_err().contains(complaint), "{text}");
        }
    }

    #[test]
    fn the_later_rule_for_a_host_counts() {
        let location = Location { file: "a".into(), line: 1, column: 1 };
        let rule = |host: &str, access| NetworkRule {
            host: host.to_owned(),
            protocol: Protocol::Https,
            access,
            justification: None,
            location: location.clone(),
        };
        let lists = compile(&[
            rule("a", Access::Allow),
            rule("b", Access::Deny),
            rule("a", Access::Deny),
            rule("b", Access::Prompt),
            rule("c", Access::Prompt),
            rule("d", Access::Allow),
        ]);
        assert_eq!(lists.denied, ["a", "b"]);
        assert_eq!(lists.allowed, ["d"]);
    }
}
