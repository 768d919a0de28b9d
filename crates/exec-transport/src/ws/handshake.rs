//! The key exchange of the upgrade. It proves that both ends mean WebSocket, nothing more.

use sha1::{Digest, Sha1};

use crate::error::Error;

/// RFC 6455, 1.3.
const GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// `Sec-WebSocket-Accept` for a `Sec-WebSocket-Key`.
pub(crate) fn accept_key(key: &[u8]) -> String {
    let digest = Sha1::new().chain_update(key).chain_update(GUID).finalize();
    base64_simd::STANDARD.encode_to_string(digest)
}

/// A fresh `Sec-WebSocket-Key`.
pub(crate) fn new_key() -> Result<String, Error> {
    let mut nonce = [0; 16];
    getrandom::fill(&mut nonce)?;
    Ok(base64_simd::STANDARD.encode_to_string(nonce))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sample_of_the_rfc() {
        assert_eq!(accept_key(b"dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        assert_eq!(new_key().unwrap().len(), 24);
    }
}
