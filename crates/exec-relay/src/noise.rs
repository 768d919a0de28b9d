//! The Noise channel: `hybridIK` over X25519 and ML-KEM-768, AES-256-GCM, SHA-256, by way of `clatter`.
//! The harness is the initiator, the executor the responder.

mod primitives;

use clatter::bytearray::{ByteArray as _, HeapArray};
use clatter::crypto::cipher::AesGcm;
use clatter::crypto::hash::Sha256;
use clatter::handshakepattern::noise_hybrid_ik;
use clatter::transportstate::TransportState;
use clatter::{Handshaker as _, HybridHandshakeCore, HybridHandshakeParams};

use crate::key::{Identity, PublicKey};
use crate::limits::{AUTHORIZATION_BYTES_MAX, CIPHERTEXT_BYTES_MAX, RECORD_BYTES_MAX, TAG_BYTES};

pub(crate) use primitives::{CheckedMlKem768, CheckedX25519, Seeded, kem_key_is_sound};

type Handshake =
    HybridHandshakeCore<CheckedX25519, CheckedMlKem768, CheckedMlKem768, AesGcm, Sha256, Seeded>;
type Params<'a> = HybridHandshakeParams<'a, CheckedX25519, CheckedMlKem768, CheckedMlKem768>;

/// Separates this use of Noise from every other.
const DOMAIN: &str = "codex-exec-server-relay-noise/v1";
/// Message 1 without its payload.
const MESSAGE1_OVERHEAD: usize = 3568;
/// Message 2; its payload is empty.
const MESSAGE2_BYTES: usize = 3424;
/// What a harness draws: one encapsulation, then its ephemeral keys.
pub const HARNESS_ENTROPY_BYTES: usize = 128;
/// What an executor draws: two encapsulations, then its ephemeral keys.
pub const EXECUTOR_ENTROPY_BYTES: usize = 160;

/// Why the channel failed. Details would help nobody but an attacker.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoiseError {
    /// A handshake message was not what it must be.
    #[error("the handshake failed")]
    Handshake,
    /// The harness's authorization is too long or not UTF-8.
    #[error("the authorization is not at most {AUTHORIZATION_BYTES_MAX} bytes of UTF-8")]
    Authorization,
    /// A record was forged, damaged or out of its place.
    #[error("a record could not be authenticated")]
    Record,
}

/// What both ends must agree on before a handshake can succeed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Context<'a> {
    pub(crate) environment_id: &'a str,
    pub(crate) registration_id: &'a str,
    pub(crate) stream_id: &'a str,
}

impl Context<'_> {
    /// Each part after its length, so that no two contexts look alike.
    pub(crate) fn prologue(&self) -> Vec<u8> {
        let mut prologue = Vec::new();
        for part in [DOMAIN, self.environment_id, self.registration_id, self.stream_id] {
            prologue.extend_from_slice(&(part.len() as u64).to_be_bytes());
            prologue.extend_from_slice(part.as_bytes());
        }
        prologue
    }
}

/// The harness between message 1 and message 2.
pub(crate) struct Initiator(Box<Handshake>);

impl Initiator {
    /// Writes message 1.
    pub(crate) fn start(
        context: Context<'_>,
        identity: &Identity,
        executor: &PublicKey,
        authorization: &str,
        entropy: &[u8; HARNESS_ENTROPY_BYTES],
    ) -> Result<(Self, Vec<u8>), NoiseError> {
        if authorization.len() > AUTHORIZATION_BYTES_MAX {
            return Err(NoiseError::Authorization);
        }
        let prologue = context.prologue();
        let params = Params::new(noise_hybrid_ik(), true)
            .with_prologue(&prologue)
            .with_s(identity.x25519())
            .with_s_kem(identity.mlkem768())
            .with_rs(executor.x25519)
            .with_rs_kem(HeapArray::from_slice(&executor.mlkem768));
        let mut handshake = Handshake::new(params).map_err(|_| NoiseError::Handshake)?;
        let mut message = vec![0; MESSAGE1_OVERHEAD + authorization.len()];
        let written = Seeded::with(entropy, || {
            handshake.write_message(authorization.as_bytes(), &mut message)
        });
        match written {
            Some(Ok(length)) if length == message.len() => Ok((Self(Box::new(handshake)), message)),
            _ => Err(NoiseError::Handshake),
        }
    }

    /// Reads message 2.
    pub(crate) fn finish(self, message: &[u8]) -> Result<Channel, NoiseError> {
        let Self(mut handshake) = self;
        // The length leaves no room for a payload.
        if message.len() != MESSAGE2_BYTES {
            return Err(NoiseError::Handshake);
        }
        handshake.read_message(message, &mut []).map_err(|_| NoiseError::Handshake)?;
        Channel::new(*handshake)
    }
}

/// The executor between message 1 and message 2.
pub(crate) struct Responder(Box<Handshake>);

/// Who sent message 1, and what it brought.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) harness: PublicKey,
    pub(crate) authorization: String,
}

impl Responder {
    /// Reads message 1.
    pub(crate) fn read(
        context: Context<'_>,
        identity: &Identity,
        message: &[u8],
    ) -> Result<(Self, Request), NoiseError> {
        let length = message.len().checked_sub(MESSAGE1_OVERHEAD).ok_or(NoiseError::Handshake)?;
        if length > AUTHORIZATION_BYTES_MAX {
            return Err(NoiseError::Authorization);
        }
        let prologue = context.prologue();
        let params = Params::new(noise_hybrid_ik(), false)
            .with_prologue(&prologue)
            .with_s(identity.x25519())
            .with_s_kem(identity.mlkem768());
        let mut handshake = Handshake::new(params).map_err(|_| NoiseError::Handshake)?;
        let mut payload = vec![0; length];
        handshake.read_message(message, &mut payload).map_err(|_| NoiseError::Handshake)?;
        let harness = handshake.get_remote_static().ok_or(NoiseError::Handshake)?;
        let harness = PublicKey::new(*harness.dh(), harness.kem().as_slice().to_vec())
            .map_err(|_| NoiseError::Handshake)?;
        let authorization = String::from_utf8(payload).map_err(|_| NoiseError::Authorization)?;
        Ok((Self(Box::new(handshake)), Request { harness, authorization }))
    }

    /// Writes message 2.
    pub(crate) fn accept(
        self,
        entropy: &[u8; EXECUTOR_ENTROPY_BYTES],
    ) -> Result<(Channel, Vec<u8>), NoiseError> {
        let Self(mut handshake) = self;
        let mut message = vec![0; MESSAGE2_BYTES];
        match Seeded::with(entropy, || handshake.write_message(&[], &mut message)) {
            Some(Ok(MESSAGE2_BYTES)) => Ok((Channel::new(*handshake)?, message)),
            _ => Err(NoiseError::Handshake),
        }
    }
}

/// Encrypts and decrypts records. Their numbers are implicit: each is processed once, in order.
pub(crate) struct Channel(TransportState<AesGcm, Sha256>);

impl Channel {
    fn new(handshake: Handshake) -> Result<Self, NoiseError> {
        handshake.finalize().map(Self).map_err(|_| NoiseError::Handshake)
    }

    /// The plaintext has at most [`RECORD_BYTES_MAX`] bytes.
    pub(crate) fn seal(&mut self, plaintext: &[u8]) -> Result<Vec<u8>, NoiseError> {
        if plaintext.len() > RECORD_BYTES_MAX {
            return Err(NoiseError::Record);
        }
        self.0.send_vec(plaintext).map_err(|_| NoiseError::Record)
    }

    /// After an error the channel is of no use any more.
    pub(crate) fn open(&mut self, ciphertext: &[u8]) -> Result<Vec<u8>, NoiseError> {
        if !(TAG_BYTES..=CIPHERTEXT_BYTES_MAX).contains(&ciphertext.len()) {
            return Err(NoiseError::Record);
        }
        self.0.receive_vec(ciphertext).map_err(|_| NoiseError::Record)
    }

    /// The keys, harness to executor first, and the handshake hash.
    #[cfg(test)]
    fn into_secrets(self) -> ([u8; 32], [u8; 32], [u8; 32]) {
        let hash = self.0.get_handshake_hash();
        let states = self.0.take();
        (*states.initiator_to_responder.take().0, *states.responder_to_initiator.take().0, *hash)
    }
}

impl std::fmt::Debug for Channel {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Channel")
    }
}

#[cfg(test)]
#[path = "noise/vector_tests.rs"]
mod tests;
