//! `clatter`'s primitives with the checks it leaves to others, and with randomness that is passed in.

use std::cell::RefCell;

use clatter::KeyPair;
use clatter::bytearray::{ByteArray as _, HeapArray, SensitiveByteArray};
use clatter::crypto::dh::X25519;
use clatter::crypto::kem::rust_crypto_ml_kem::MlKem768;
use clatter::error::{DhError, DhResult, KemError, KemResult};
use clatter::rand_core::{CryptoRng, Error, RngCore};
use clatter::traits::{CryptoComponent, Dh, Kem, Rng};
use subtle::ConstantTimeEq as _;
use zeroize::Zeroizing;

/// X25519 that refuses a result of zeros: it would not depend on our secret.
#[derive(Clone)]
pub(crate) struct CheckedX25519;

impl CryptoComponent for CheckedX25519 {
    fn name() -> &'static str {
        X25519::name()
    }
}

impl Dh for CheckedX25519 {
    type PrivateKey = SensitiveByteArray<[u8; 32]>;
    type PubKey = [u8; 32];
    type Output = SensitiveByteArray<[u8; 32]>;

    fn genkey_rng<R: Rng>(rng: &mut R) -> DhResult<KeyPair<Self::PubKey, Self::PrivateKey>> {
        X25519::genkey_rng(rng)
    }

    fn pubkey(secret: &Self::PrivateKey) -> Self::PubKey {
        X25519::pubkey(secret)
    }

    fn dh(secret: &Self::PrivateKey, public: &Self::PubKey) -> DhResult<Self::Output> {
        let shared = X25519::dh(secret, public)?;
        if bool::from(shared.as_slice().ct_eq(&[0; 32])) {
            return Err(DhError::KeyGeneration);
        }
        Ok(shared)
    }
}

/// ML-KEM-768 that refuses to encapsulate to a key which is not reduced (FIPS 203, section 7.2).
#[derive(Clone)]
pub(crate) struct CheckedMlKem768;

impl CryptoComponent for CheckedMlKem768 {
    fn name() -> &'static str {
        MlKem768::name()
    }
}

impl Kem for CheckedMlKem768 {
    type SecretKey = SensitiveByteArray<HeapArray<2400>>;
    type PubKey = HeapArray<1184>;
    type Ct = HeapArray<1088>;
    type Ss = SensitiveByteArray<[u8; 32]>;

    fn genkey_rng<R: Rng>(rng: &mut R) -> KemResult<KeyPair<Self::PubKey, Self::SecretKey>> {
        MlKem768::genkey_rng(rng)
    }

    fn encapsulate<R: Rng>(key: &[u8], rng: &mut R) -> KemResult<(Self::Ct, Self::Ss)> {
        if !kem_key_is_sound(key) {
            return Err(KemError::Input);
        }
        MlKem768::encapsulate(key, rng)
    }

    fn decapsulate(ciphertext: &[u8], secret: &[u8]) -> KemResult<Self::Ss> {
        MlKem768::decapsulate(ciphertext, secret)
    }
}

/// Whether all coefficients of an encapsulation key, two in three bytes, are below the modulus. The
/// last 32 bytes are a seed.
pub(crate) fn kem_key_is_sound(key: &[u8]) -> bool {
    const MODULUS: u16 = 3329;
    let Some(coefficients) = key.len().checked_sub(32).map(|end| &key[..end]) else { return false };
    coefficients.chunks(3).all(|bytes| match *bytes {
        [low, middle, high] => {
            let (low, middle, high) = (u16::from(low), u16::from(middle), u16::from(high));
            (low | (middle & 0xf) << 8) < MODULUS && (middle >> 4 | high << 4) < MODULUS
        }
        _ => false,
    })
}

thread_local! {
    /// What [`Seeded`] draws from, while [`Seeded::with`] runs.
    static ENTROPY: RefCell<Entropy> = RefCell::default();
}

#[derive(Default)]
struct Entropy {
    bytes: Zeroizing<Vec<u8>>,
    /// More than there are bytes, if more were wanted.
    drawn: usize,
}

/// Randomness that the caller has passed in. `clatter` makes its generator itself, by `Default`, so
/// the bytes cannot be inside; they lie beside it for the time of one call on this thread.
#[derive(Clone, Default)]
pub(crate) struct Seeded;

impl Seeded {
    /// Runs `draw` with these bytes to draw. None if it did not draw exactly these: then the outcome
    /// lacks the randomness it needs.
    pub(crate) fn with<T>(bytes: &[u8], draw: impl FnOnce() -> T) -> Option<T> {
        ENTROPY.set(Entropy { bytes: Zeroizing::new(bytes.to_vec()), drawn: 0 });
        let outcome = draw();
        (ENTROPY.take().drawn == bytes.len()).then_some(outcome)
    }
}

impl RngCore for Seeded {
    fn next_u32(&mut self) -> u32 {
        let mut bytes = [0; 4];
        self.fill_bytes(&mut bytes);
        u32::from_le_bytes(bytes)
    }

    fn next_u64(&mut self) -> u64 {
        let mut bytes = [0; 8];
        self.fill_bytes(&mut bytes);
        u64::from_le_bytes(bytes)
    }

    fn fill_bytes(&mut self, out: &mut [u8]) {
        ENTROPY.with_borrow_mut(|entropy| {
            let end = entropy.drawn + out.len();
            match entropy.bytes.get(entropy.drawn..end) {
                Some(bytes) => out.copy_from_slice(bytes),
                // There is no way to fail here. `with` will, so what is made of it goes nowhere.
                None => out.fill(0),
            }
            entropy.drawn = end;
        });
    }

    fn try_fill_bytes(&mut self, out: &mut [u8]) -> Result<(), Error> {
        self.fill_bytes(out);
        Ok(())
    }
}

impl CryptoRng for Seeded {}
