//! Identities: a static X25519 pair and a static ML-KEM-768 pair, and how their public half is written.

use clatter::KeyPair;
use clatter::bytearray::{ByteArray as _, HeapArray, SensitiveByteArray};
use clatter::crypto::hash::Sha256;
use clatter::traits::{Dh as _, Hash as _, Kem as _};
use serde::{Deserialize, Serialize};

use crate::noise::{CheckedMlKem768, CheckedX25519, Seeded, kem_key_is_sound};

/// The name of the suite in the registry. The handshake hashes another spelling.
pub const SUITE: &str = "Noise_hybridIK_X25519+MLKEM768_AESGCM_SHA256";
/// The length of the seed of an identity: an X25519 secret, then ML-KEM's `d` and `z`.
pub const IDENTITY_SEED_BYTES: usize = 96;
const X25519_BYTES: usize = 32;
const MLKEM768_BYTES: usize = 1184;

/// Why a public key was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// A suite we do not speak.
    #[error("the key belongs to an unknown suite")]
    Suite,
    /// Not padded standard base64, or of the wrong length.
    #[error("{0} is not base64 of {1} bytes")]
    Encoding(&'static str, usize),
    /// Not a key at all.
    #[error("the ML-KEM key is not reduced")]
    Unreduced,
}

/// The public half of an identity. Two are equal when both their parts are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "KeyObject", into = "KeyObject")]
pub struct PublicKey {
    pub(crate) x25519: [u8; X25519_BYTES],
    pub(crate) mlkem768: Vec<u8>,
}

/// A public key in the registry's JSON: these members and no others.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyObject {
    suite: String,
    x25519_public_key: String,
    mlkem768_public_key: String,
}

impl PublicKey {
    /// Checks the raw parts.
    pub fn new(x25519: [u8; 32], mlkem768: Vec<u8>) -> Result<Self, KeyError> {
        if mlkem768.len() != MLKEM768_BYTES {
            return Err(KeyError::Encoding("mlkem768_public_key", MLKEM768_BYTES));
        }
        if !kem_key_is_sound(&mlkem768) {
            return Err(KeyError::Unreduced);
        }
        Ok(Self { x25519, mlkem768 })
    }

    /// The X25519 part.
    pub fn x25519(&self) -> &[u8; 32] {
        &self.x25519
    }

    /// The ML-KEM-768 part.
    pub fn mlkem768(&self) -> &[u8] {
        &self.mlkem768
    }

    /// SHA-256 over both parts, X25519 first, for people to compare.
    pub fn fingerprint(&self) -> [u8; 32] {
        let mut hash = Sha256::default();
        hash.input(&self.x25519);
        hash.input(&self.mlkem768);
        *hash.result()
    }
}

impl TryFrom<KeyObject> for PublicKey {
    type Error = KeyError;

    fn try_from(object: KeyObject) -> Result<Self, KeyError> {
        if object.suite != SUITE {
            return Err(KeyError::Suite);
        }
        let decode = |text: &str| base64_simd::STANDARD.decode_to_vec(text).unwrap_or_default();
        let x25519 = <[u8; X25519_BYTES]>::try_from(decode(&object.x25519_public_key))
            .map_err(|_| KeyError::Encoding("x25519_public_key", X25519_BYTES))?;
        Self::new(x25519, decode(&object.mlkem768_public_key))
    }
}

impl From<PublicKey> for KeyObject {
    fn from(key: PublicKey) -> Self {
        Self {
            suite: SUITE.to_owned(),
            x25519_public_key: base64_simd::STANDARD.encode_to_string(key.x25519),
            mlkem768_public_key: base64_simd::STANDARD.encode_to_string(key.mlkem768),
        }
    }
}

/// Both pairs of an end. Made from a seed, which is all that has to be kept to have it again.
pub struct Identity {
    x25519: KeyPair<[u8; 32], SensitiveByteArray<[u8; 32]>>,
    mlkem768: KeyPair<HeapArray<1184>, SensitiveByteArray<HeapArray<2400>>>,
}

impl Identity {
    /// The seed must come from the system's generator, or from where an earlier one was kept.
    pub fn from_seed(seed: [u8; IDENTITY_SEED_BYTES]) -> Self {
        let seed = SensitiveByteArray::new(seed);
        let (x25519, mlkem768) = seed.split_at(X25519_BYTES);
        let secret = SensitiveByteArray::<[u8; 32]>::from_slice(x25519);
        let x25519 = KeyPair::new(CheckedX25519::pubkey(&secret), secret);
        let mlkem768 = Seeded::with(mlkem768, || CheckedMlKem768::genkey_rng(&mut Seeded));
        let Some(Ok(mlkem768)) = mlkem768 else {
            unreachable!("ML-KEM draws d and z, 64 bytes, and nothing of it can fail");
        };
        Self { x25519, mlkem768 }
    }

    /// The half that may be known.
    pub fn public_key(&self) -> PublicKey {
        let mlkem768 = self.mlkem768.public.as_slice().to_vec();
        PublicKey { x25519: self.x25519.public, mlkem768 }
    }

    pub(crate) fn x25519(&self) -> KeyPair<[u8; 32], SensitiveByteArray<[u8; 32]>> {
        self.x25519.clone()
    }

    pub(crate) fn mlkem768(&self) -> KeyPair<HeapArray<1184>, SensitiveByteArray<HeapArray<2400>>> {
        self.mlkem768.clone()
    }
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Never the secrets.
        formatter.debug_struct("Identity").field("public", &self.public_key()).finish()
    }
}
