//! Who may open a WebSocket: nobody is asked, or a bearer token is checked.
//!
//! `flags.rs` makes a [`WsAuth`] of the command line; here a request's `Authorization` header is
//! held against it. The texts are part of the protocol: a client sees them as the body of a 401.

mod flags;
mod jwt;

use std::fmt;
use std::time::Duration;

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::limits::TOKEN_BYTES_MAX;

pub use flags::{AuthConfigError, WsAuthFlags, WsAuthMode};

/// How the upgrade of a WebSocket is authenticated.
#[derive(Clone, PartialEq, Eq)]
pub enum WsAuth {
    /// Anyone may connect.
    None,
    /// The presented token has this digest.
    CapabilityToken {
        /// SHA-256 of the token.
        sha256: [u8; 32],
    },
    /// The presented token is a JWT, signed with HS256.
    SignedBearer {
        /// The key of the signature.
        secret: Vec<u8>,
        /// What `iss` has to be, if anything.
        issuer: Option<String>,
        /// What `aud` has to be or contain, if anything.
        audience: Option<String>,
        /// How far the signer's clock may be off.
        max_clock_skew: Duration,
    },
}

/// Why a request is not authenticated. Displays as the body of the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AuthError {
    /// No `Authorization` header.
    #[error("missing websocket bearer token")]
    Missing,
    /// Not `Bearer`, a space, and a token in visible ASCII.
    #[error("invalid authorization header")]
    Header,
    /// Not the token whose digest we know.
    #[error("invalid websocket bearer token")]
    Token,
    /// Malformed, wrongly signed, or a claim of the wrong type.
    #[error("invalid websocket jwt")]
    Jwt,
    /// Past `exp`.
    #[error("expired websocket jwt")]
    Expired,
    /// Before `nbf`.
    #[error("websocket jwt is not valid yet")]
    NotYetValid,
    /// `iss` is not the expected one.
    #[error("websocket jwt issuer mismatch")]
    Issuer,
    /// `aud` does not contain the expected one.
    #[error("websocket jwt audience mismatch")]
    Audience,
}

impl WsAuth {
    /// Checks the value of a request's first `Authorization` header.
    ///
    /// # Errors
    /// The reason, to be answered with status 401.
    pub fn check(&self, authorization: Option<&[u8]>, now_unix: i64) -> Result<(), AuthError> {
        match self {
            Self::None => Ok(()),
            Self::CapabilityToken { sha256 } => {
                let digest: [u8; 32] = Sha256::digest(bearer_token(authorization)?).into();
                if bool::from(digest.ct_eq(sha256)) { Ok(()) } else { Err(AuthError::Token) }
            }
            Self::SignedBearer { secret, issuer, audience, max_clock_skew } => {
                let token = bearer_token(authorization)?;
                if token.len() > TOKEN_BYTES_MAX {
                    return Err(AuthError::Jwt);
                }
                let claims = jwt::verify(token, secret)?;
                let skew = i64::try_from(max_clock_skew.as_secs()).unwrap_or(i64::MAX);
                claims.check(issuer.as_deref(), audience.as_deref(), skew, now_unix)
            }
        }
    }
}

/// Shows the mode and never the secret.
impl fmt::Debug for WsAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("None"),
            Self::CapabilityToken { .. } => f.write_str("CapabilityToken { .. }"),
            Self::SignedBearer { issuer, audience, max_clock_skew, .. } => f
                .debug_struct("SignedBearer")
                .field("issuer", issuer)
                .field("audience", audience)
                .field("max_clock_skew", max_clock_skew)
                .finish_non_exhaustive(),
        }
    }
}

fn bearer_token(authorization: Option<&[u8]>) -> Result<&str, AuthError> {
    let header = authorization.ok_or(AuthError::Missing)?;
    if !header.iter().all(|byte| matches!(byte, b'\t' | 0x20..=0x7e)) {
        return Err(AuthError::Header);
    }
    let header = std::str::from_utf8(header).map_err(|_| AuthError::Header)?;
    match header.split_once(' ') {
        Some((scheme, token))
            if scheme.eq_ignore_ascii_case("bearer") && !token.trim().is_empty() =>
        {
            Ok(token.trim())
        }
        Some(_) | None => Err(AuthError::Header),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capability_tokens_are_compared_by_digest() {
        let auth = WsAuth::CapabilityToken { sha256: Sha256::digest(b"secret").into() };
        let check = |header: Option<&[u8]>, expected| assert_eq!(auth.check(header, 0), expected);
        check(Some(b"Bearer secret"), Ok(()));
        check(Some(b"bEARER secret"), Ok(()));
        check(Some(b"Bearer   secret  "), Ok(()));
        check(None, Err(AuthError::Missing));
        check(Some(b""), Err(AuthError::Header));
        check(Some(b"Bearer"), Err(AuthError::Header));
        check(Some(b"Bearer "), Err(AuthError::Header));
        check(Some(b"Bearer\tsecret"), Err(AuthError::Header));
        check(Some(b"Basic secret"), Err(AuthError::Header));
        check(Some(b"secret"), Err(AuthError::Header));
        check(Some("Bearer sécret".as_bytes()), Err(AuthError::Header));
        check(Some(b"Bearer Secret"), Err(AuthError::Token));
        check(Some(b"Bearer secret extra"), Err(AuthError::Token));
    }

    #[test]
    fn without_authentication_nothing_is_looked_at() {
        assert_eq!(WsAuth::None.check(None, 0), Ok(()));
        assert_eq!(WsAuth::None.check(Some(b"\xff"), 0), Ok(()));
    }

    #[test]
    fn the_bodies_are_those_of_the_protocol() {
        let shown: Vec<String> = [
            AuthError::Missing,
            AuthError::Header,
            AuthError::Token,
            AuthError::Jwt,
            AuthError::Expired,
            AuthError::NotYetValid,
            AuthError::Issuer,
            AuthError::Audience,
        ]
        .iter()
        .map(ToString::to_string)
        .collect();
        let expected = [
            "missing websocket bearer token",
            "invalid authorization header",
            "invalid websocket bearer token",
            "invalid websocket jwt",
            "expired websocket jwt",
            "websocket jwt is not valid yet",
            "websocket jwt issuer mismatch",
            "websocket jwt audience mismatch",
        ];
        assert_eq!(shown, expected);
    }

    #[test]
    fn debug_output_keeps_the_secret() {
        let auth = WsAuth::SignedBearer {
            secret: b"hush-hush".to_vec(),
            issuer: None,
            audience: None,
            max_clock_skew: Duration::ZERO,
        };
        assert!(!format!("{auth:?}").contains("104, 117"));
    }
}
