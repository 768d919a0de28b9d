//! The authentication flags of the command line, and the errors that stop a server from starting.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use sha2::{Digest, Sha256};

use super::WsAuth;
use crate::limits::SECRET_FILE_BYTES_MAX;

const DEFAULT_CLOCK_SKEW_SECONDS: u64 = 30;

/// RFC 7518, 3.2: a key as long as the hash.
const SECRET_BYTES_MIN: usize = 32;

/// The value of `--ws-auth`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WsAuthMode {
    /// `capability-token`.
    CapabilityToken,
    /// `signed-bearer-token`.
    SignedBearerToken,
}

/// The flags as given; [`WsAuthFlags::resolve`] checks them together.
#[derive(Debug, Clone, Default)]
pub struct WsAuthFlags {
    /// `--ws-auth`.
    pub mode: Option<WsAuthMode>,
    /// `--ws-token-file`.
    pub token_file: Option<PathBuf>,
    /// `--ws-token-sha256`.
    pub token_sha256: Option<String>,
    /// `--ws-shared-secret-file`.
    pub shared_secret_file: Option<PathBuf>,
    /// `--ws-issuer`.
    pub issuer: Option<String>,
    /// `--ws-audience`.
    pub audience: Option<String>,
    /// `--ws-max-clock-skew-seconds`.
    pub max_clock_skew_seconds: Option<u64>,
}

/// Why the flags are refused. The texts are those of the reference.
#[derive(Debug, thiserror::Error)]
pub enum AuthConfigError {
    /// `--ws-auth` with a stdio listener. For the caller, who knows the listener.
    #[error("WebSocket auth requires a WebSocket listener, not stdio")]
    NotWebSocket,
    /// Flags without a mode.
    #[error(
        "websocket auth flags require `--ws-auth capability-token` or `--ws-auth signed-bearer-token`"
    )]
    NoMode,
    /// A capability token without a source.
    #[error(
        "`--ws-token-file` or `--ws-token-sha256` is required when `--ws-auth capability-token` is set"
    )]
    NoToken,
    /// A capability token with two sources.
    #[error("`--ws-token-file` and `--ws-token-sha256` are mutually exclusive")]
    TwoTokens,
    /// Flags of the other mode.
    #[error(
        "`--ws-shared-secret-file`, `--ws-issuer`, `--ws-audience`, and \
         `--ws-max-clock-skew-seconds` require `--ws-auth signed-bearer-token`"
    )]
    SignedFlags,
    /// Flags of the other mode.
    #[error(
        "`--ws-token-file` and `--ws-token-sha256` require `--ws-auth capability-token`, not \
         `signed-bearer-token`"
    )]
    TokenFlags,
    /// Signed tokens without a secret.
    #[error("`--ws-shared-secret-file` is required when `--ws-auth signed-bearer-token` is set")]
    NoSecret,
    /// Not a digest.
    #[error("--ws-token-sha256 must be a 64-character hex SHA-256 digest")]
    Digest,
    /// The file cannot be read, or is not text.
    #[error("failed to read websocket auth secret {path}: {source}", path = path.display())]
    Read {
        /// The file, as an absolute path.
        path: PathBuf,
        /// The operating system's answer.
        source: io::Error,
    },
    /// Nothing but blanks in the file.
    #[error("websocket auth secret {path} must not be empty", path = path.display())]
    Empty {
        /// The file, as an absolute path.
        path: PathBuf,
    },
    /// Too little in the file.
    #[error("signed websocket bearer secret {path} must be at least 32 bytes", path = path.display())]
    Short {
        /// The file, as an absolute path.
        path: PathBuf,
    },
    /// More seconds than a time has.
    #[error("websocket auth clock skew must fit in a signed 64-bit integer")]
    ClockSkew,
}

impl WsAuthFlags {
    /// Checks the flags together and reads the files they name.
    ///
    /// # Errors
    /// The first mistake, in the order in which the reference looks for them.
    pub fn resolve(self) -> Result<WsAuth, AuthConfigError> {
        let token_flags = self.token_file.is_some() || self.token_sha256.is_some();
        let signed_flags = self.shared_secret_file.is_some()
            || self.issuer.is_some()
            || self.audience.is_some()
            || self.max_clock_skew_seconds.is_some();
        match self.mode {
            None if token_flags || signed_flags => Err(AuthConfigError::NoMode),
            None => Ok(WsAuth::None),
            Some(WsAuthMode::CapabilityToken) if signed_flags => Err(AuthConfigError::SignedFlags),
            Some(WsAuthMode::CapabilityToken) => self.resolve_capability(),
            Some(WsAuthMode::SignedBearerToken) if token_flags => Err(AuthConfigError::TokenFlags),
            Some(WsAuthMode::SignedBearerToken) => self.resolve_signed(),
        }
    }

    fn resolve_capability(self) -> Result<WsAuth, AuthConfigError> {
        let sha256 = match (self.token_file, self.token_sha256) {
            (Some(_), Some(_)) => return Err(AuthConfigError::TwoTokens),
            (None, None) => return Err(AuthConfigError::NoToken),
            (Some(path), None) => Sha256::digest(read_secret(&path)?.1).into(),
            (None, Some(digest)) => parse_digest(digest.trim()).ok_or(AuthConfigError::Digest)?,
        };
        Ok(WsAuth::CapabilityToken { sha256 })
    }

    fn resolve_signed(self) -> Result<WsAuth, AuthConfigError> {
        let path = self.shared_secret_file.ok_or(AuthConfigError::NoSecret)?;
        let (path, secret) = read_secret(&path)?;
        if secret.len() < SECRET_BYTES_MIN {
            return Err(AuthConfigError::Short { path });
        }
        let skew = self.max_clock_skew_seconds.unwrap_or(DEFAULT_CLOCK_SKEW_SECONDS);
        if i64::try_from(skew).is_err() {
            return Err(AuthConfigError::ClockSkew);
        }
        Ok(WsAuth::SignedBearer {
            secret: secret.into_bytes(),
            issuer: non_empty(self.issuer),
            audience: non_empty(self.audience),
            max_clock_skew: Duration::from_secs(skew),
        })
    }
}

/// The absolute path, and the file's content without blanks around it.
fn read_secret(path: &Path) -> Result<(PathBuf, String), AuthConfigError> {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut text = String::new();
    let read = File::open(&path)
        .and_then(|file| file.take(SECRET_FILE_BYTES_MAX + 1).read_to_string(&mut text));
    let source = match read {
        Ok(_) if text.len() as u64 <= SECRET_FILE_BYTES_MAX => {
            let secret = text.trim().to_owned();
            return match secret.is_empty() {
                true => Err(AuthConfigError::Empty { path }),
                false => Ok((path, secret)),
            };
        }
        Ok(_) => io::ErrorKind::FileTooLarge.into(),
        Err(source) => source,
    };
    Err(AuthConfigError::Read { path, source })
}

fn parse_digest(hex: &str) -> Option<[u8; 32]> {
    let (pairs, rest) = hex.as_bytes().as_chunks::<2>();
    if pairs.len() != 32 || !rest.is_empty() {
        return None;
    }
    let mut digest = [0; 32];
    for (byte, pair) in digest.iter_mut().zip(pairs) {
        let [high, low] = pair.map(|digit| char::from(digit).to_digit(16));
        *byte = u8::try_from(high? * 16 + low?).ok()?;
    }
    Some(digest)
}

fn non_empty(text: Option<String>) -> Option<String> {
    text.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
}

#[cfg(test)]
#[path = "flags_tests.rs"]
mod tests;
