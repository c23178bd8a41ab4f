//! The keys with which an issuer signs (RFC 7517).

use biscuit::{
    Empty,
    jwa::{Algorithm, SignatureAlgorithm},
    jwk::{AlgorithmParameters, EllipticCurve, JWK, PublicKeyUse},
    jws::Secret,
};
use domain::ports::LoginError;
use serde::Deserialize;
use serde_json::Value;

use SignatureAlgorithm::{ES256, ES384, PS256, PS384, PS512, RS256, RS384, RS512};

/// The algorithms that count: the asymmetric ones of ring. So a secret that is known, such as a public key, signs
/// nothing.
const ALGORITHMS: [SignatureAlgorithm; 8] =
    [RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384];

/// The set of keys cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("the keys of the provider are not a set of JSON web keys")]
struct BadKeys;

#[derive(Deserialize)]
struct KeySet {
    keys: Vec<Value>,
}

/// The keys that can check a signature.
#[derive(Debug)]
pub(crate) struct Keys(Vec<JWK<Empty>>);

impl Keys {
    /// Reads a set. Other keys in it, such as those of algorithms to come, are left out (RFC 7517, section 5).
    pub(crate) fn parse(body: &[u8]) -> Result<Self, LoginError> {
        let set: KeySet =
            serde_json::from_slice(body).map_err(|_| LoginError::Rejected(BadKeys.into()))?;
        let keys = set.keys.into_iter().filter_map(|key| serde_json::from_value(key).ok());
        Ok(Self(keys.filter(is_usable).collect()))
    }

    /// Returns their number.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the keys that may have signed with an algorithm under an identifier, or under none.
    pub(crate) fn of(&self, algorithm: SignatureAlgorithm, kid: Option<&str>) -> Vec<Secret> {
        let is_it = |key: &&JWK<Empty>| {
            fits(key, algorithm) && (kid.is_none() || key.common.key_id.as_deref() == kid)
        };
        self.0.iter().filter(is_it).filter_map(secret).collect()
    }
}

fn is_usable(key: &JWK<Empty>) -> bool {
    let is_for_signatures =
        matches!(key.common.public_key_use, None | Some(PublicKeyUse::Signature));
    is_for_signatures && ALGORITHMS.iter().any(|algorithm| fits(key, *algorithm))
}

/// Returns whether a key is of the kind of an algorithm, and, if it names one, of this one.
fn fits(key: &JWK<Empty>, algorithm: SignatureAlgorithm) -> bool {
    let is_of_kind = match (&key.algorithm, algorithm) {
        // ring takes no others.
        (AlgorithmParameters::RSA(rsa), RS256 | RS384 | RS512 | PS256 | PS384 | PS512) => {
            (2048..=8192).contains(&rsa.n.bits())
        }
        (AlgorithmParameters::EllipticCurve(point), ES256) => point.curve == EllipticCurve::P256,
        (AlgorithmParameters::EllipticCurve(point), ES384) => point.curve == EllipticCurve::P384,
        _ => false,
    };
    let names_no_other = |named: &Algorithm| *named == Algorithm::Signature(algorithm);
    is_of_kind && key.common.algorithm.as_ref().is_none_or(names_no_other)
}

fn secret(key: &JWK<Empty>) -> Option<Secret> {
    match &key.algorithm {
        AlgorithmParameters::RSA(rsa) => Some(rsa.jws_public_key_secret()),
        AlgorithmParameters::EllipticCurve(point) => Some(point.jws_public_key_secret()),
        _ => None,
    }
}

/// Returns whether an algorithm counts.
pub(crate) fn counts(algorithm: SignatureAlgorithm) -> bool {
    ALGORITHMS.contains(&algorithm)
}
