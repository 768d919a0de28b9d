//! What a fuzz target calls for the heads of HTTP messages. Panics when a verdict contradicts itself.

use std::time::Duration;

use crate::accept::{AcceptPolicy, AllowedHosts};
use crate::auth::WsAuth;
use crate::connect::parse_answer;
use crate::http::{Verdict, judge};
use crate::limits::Limits;

/// The key of RFC 6455's example, so that a corpus can answer it.
const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";

/// Judges arbitrary bytes as a request and as an answer. What is decided of a beginning stays
/// decided when more comes, and nobody gets in without the token.
#[doc(hidden)]
pub fn fuzz_http_head(bytes: &[u8]) {
    let open = policy(WsAuth::None, AllowedHosts::Any);
    let closed = policy(WsAuth::CapabilityToken { sha256: [7; 32] }, AllowedHosts::Loopback);
    for policy in [&open, &closed] {
        let verdict = judge(bytes, policy, 0);
        match &verdict {
            Verdict::ReadMore => {}
            Verdict::Answer(answer) => assert!(answer.starts_with("HTTP/1.1 "), "{answer}"),
            Verdict::Upgrade { answer, head_len } => {
                assert!(matches!(policy.auth, WsAuth::None), "let in without a token");
                assert!(answer.starts_with("HTTP/1.1 101 ") && *head_len <= bytes.len());
            }
        }
        let early = ends(bytes).map(|end| judge(&bytes[..end], policy, 0));
        let mut decided = early.filter(|verdict| *verdict != Verdict::ReadMore);
        assert!(decided.all(|early| early == verdict), "{verdict:?}");
    }
    let answer = |bytes: &[u8]| match parse_answer(bytes, KEY) {
        Ok(None) => None,
        Ok(Some(answer)) => Some(format!("{answer:?}")),
        Err(error) => Some(error.to_string()),
    };
    let whole = answer(bytes);
    let mut decided = ends(bytes).filter_map(|end| answer(&bytes[..end]));
    assert!(decided.all(|early| Some(early) == whole), "{whole:?}");
}

/// Where to cut: not everywhere, for that is quadratic.
fn ends(bytes: &[u8]) -> impl Iterator<Item = usize> {
    (0..bytes.len()).step_by(1 + bytes.len() / 48)
}

fn policy(auth: WsAuth, allowed_hosts: AllowedHosts) -> AcceptPolicy {
    let head_timeout = Duration::from_secs(1);
    AcceptPolicy { auth, allowed_hosts, limits: Limits::default(), head_timeout }
}
