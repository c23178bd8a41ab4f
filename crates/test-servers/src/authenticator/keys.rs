//! The keys of an authenticator: those of the crate `passkey-crypto`, and RSA by `ring`.

use passkey_crypto::{
    AvailableBackend, AvailablePublicKey, AvailableRng, AvailableSecretKey, AvailableSha2, CoseKey,
    CoseKeyConversionError, CryptoBackend, Error, PublicKeyT, SecretKeyT,
    coset::{Algorithm as CoseAlgorithm, KeyType, Label, cbor::Value},
    iana,
};
use ring::{
    rand::SystemRandom,
    rsa::{KeyPair, PublicKeyComponents},
    signature::RSA_PKCS1_SHA256,
};

/// The only key of RSA, in PKCS #8: `ring` makes none. Its public part is beside it.
const RSA: &[u8] = include_bytes!("rs256.pk8");
const RSA_PUBLIC: &[u8] = include_bytes!("rs256.spki");

/// An algorithm of signatures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Algorithm {
    /// ECDSA on P-256: phones and security keys.
    Es256,
    /// Ed25519: some security keys.
    EdDsa,
    /// RSA: Windows Hello. All authenticators have the same key.
    Rs256,
}

/// Makes keys of one algorithm.
pub struct Keys {
    pub algorithm: Algorithm,
}

impl CryptoBackend for Keys {
    type Rng = AvailableRng;
    type Sha256 = AvailableSha2;
    type SecretKey = SecretKey;

    fn enumerate_algorithms(&self) -> Vec<iana::Algorithm> {
        vec![match self.algorithm {
            Algorithm::Es256 => iana::Algorithm::ES256,
            Algorithm::EdDsa => iana::Algorithm::EdDSA,
            Algorithm::Rs256 => iana::Algorithm::RS256,
        }]
    }

    fn generate_key(&self, algorithm: iana::Algorithm) -> Result<SecretKey, Error> {
        match algorithm {
            iana::Algorithm::RS256 => Ok(SecretKey::rsa()),
            algorithm => Ok(SecretKey::Other(Box::new(AvailableBackend.generate_key(algorithm)?))),
        }
    }
}

pub enum SecretKey {
    Rsa(Box<KeyPair>),
    Other(Box<AvailableSecretKey>),
}

impl SecretKey {
    fn rsa() -> Self {
        Self::Rsa(Box::new(KeyPair::from_pkcs8(RSA).unwrap()))
    }
}

impl SecretKeyT for SecretKey {
    type PublicKey = PublicKey;

    fn from_cose_key(key: &CoseKey) -> Result<Self, CoseKeyConversionError> {
        if is_rsa(key) {
            Ok(Self::rsa())
        } else {
            Ok(Self::Other(Box::new(AvailableSecretKey::from_cose_key(key)?)))
        }
    }

    fn sign(&mut self, target: &[u8]) -> Vec<u8> {
        match self {
            Self::Other(key) => key.sign(target),
            Self::Rsa(key) => {
                let mut signature = vec![0; key.public().modulus_len()];
                let random = SystemRandom::new();
                key.sign(&RSA_PKCS1_SHA256, &random, target, &mut signature).unwrap();
                signature
            }
        }
    }

    fn public_key(&self) -> PublicKey {
        PublicKey(match self {
            Self::Other(key) => key.public_key().to_cose_key(),
            Self::Rsa(_) => self.to_cose_key(),
        })
    }

    /// The private part of the key of RSA is not in it.
    fn to_cose_key(&self) -> CoseKey {
        match self {
            Self::Other(key) => key.to_cose_key(),
            Self::Rsa(key) => {
                let public = PublicKeyComponents::<Vec<u8>>::from(key.public());
                CoseKey {
                    kty: KeyType::Assigned(iana::KeyType::RSA),
                    alg: Some(CoseAlgorithm::Assigned(iana::Algorithm::RS256)),
                    // RFC 8230, 4.
                    params: vec![
                        (Label::Int(-1), Value::Bytes(public.n)),
                        (Label::Int(-2), Value::Bytes(public.e)),
                    ],
                    ..CoseKey::default()
                }
            }
        }
    }
}

pub struct PublicKey(CoseKey);

impl PublicKeyT for PublicKey {
    fn verify(&self, _target: &[u8], _signature: &[u8]) -> Result<(), Error> {
        Err("an authenticator only signs".into())
    }

    fn der_from_cose_key(key: &CoseKey) -> Result<Vec<u8>, CoseKeyConversionError> {
        if is_rsa(key) {
            Ok(RSA_PUBLIC.to_vec())
        } else {
            AvailablePublicKey::der_from_cose_key(key)
        }
    }

    fn to_cose_key(&self) -> CoseKey {
        self.0.clone()
    }
}

fn is_rsa(key: &CoseKey) -> bool {
    key.kty == KeyType::Assigned(iana::KeyType::RSA)
}
