//! ID tokens (OpenID Connect Core 1.0, section 3.1.3.7).

use biscuit::{
    CompactJson, Empty, SingleOrMultiple,
    errors::{Error, ValidationError},
    jwa::SignatureAlgorithm,
    jws,
};
use domain::person::Identity;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use time::{Duration, OffsetDateTime};

use crate::keys::{self, Keys};

/// Greatest difference between the clocks of the provider and of this machine.
pub(crate) const TOLERATED: Duration = Duration::MINUTE;

/// Longest subject in characters (section 2).
const MAX_SUBJECT: usize = 255;

/// Why an ID token does not count. No text repeats what the token says of a person.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    #[error("the ID token cannot be read")]
    Malformed,
    #[error("the ID token is signed by {0:?}, which does not count")]
    Algorithm(SignatureAlgorithm),
    #[error("the provider has no such key as that of the ID token")]
    UnknownKey,
    #[error("the ID token names no key, and the provider has several")]
    NoKid,
    #[error("the signature of the ID token is wrong")]
    Signature,
    #[error("the ID token is of another issuer")]
    Issuer,
    #[error("the subject of the ID token is empty, longer than 255 characters, or not ASCII")]
    Subject,
    #[error("the ID token is for another client")]
    Audience,
    #[error("the ID token is of another login")]
    Nonce,
    #[error("the ID token expired {0} s ago; look at the clocks")]
    Expired(i64),
    #[error("the ID token begins to count in {0} s; look at the clocks")]
    TooEarly(i64),
    #[error("the person had to sign in again, and signed in {0} s before that")]
    NotAgain(i64),
    #[error("the person had to sign in again, and the ID token has no `auth_time`")]
    NoAuthTime,
}

/// The claims that count. `email`, `email_verified` and all others decide nothing.
#[derive(Serialize, Deserialize)]
pub(crate) struct Claims {
    iss: String,
    sub: String,
    aud: SingleOrMultiple<String>,
    azp: Option<String>,
    exp: i64,
    iat: i64,
    nbf: Option<i64>,
    nonce: Option<String>,
    /// Other providers may write it in another form, and it does not matter for most logins.
    auth_time: Option<Value>,
}

impl CompactJson for Claims {}

/// The values that the claims of a login must have.
pub(crate) struct Expected<'a> {
    pub(crate) issuer: &'a str,
    pub(crate) client_id: &'a str,
    pub(crate) nonce: &'a str,
    pub(crate) again_since: Option<OffsetDateTime>,
}

/// An ID token whose signature is not checked yet.
pub(crate) struct IdToken {
    token: jws::Compact<Claims, Empty>,
    algorithm: SignatureAlgorithm,
    kid: Option<String>,
}

impl IdToken {
    /// Reads the header of a token.
    pub(crate) fn parse(text: &str) -> Result<Self, Fault> {
        let token = jws::Compact::<Claims, Empty>::new_encoded(text);
        let header = token.unverified_header().map_err(|_| Fault::Malformed)?.registered;
        if !keys::counts(header.algorithm) {
            return Err(Fault::Algorithm(header.algorithm));
        }
        // The meaning of a critical member must be known (RFC 7515, section 4.1.11), and none is.
        if header.critical.is_some() {
            return Err(Fault::Malformed);
        }
        Ok(Self { token, algorithm: header.algorithm, kid: header.key_id })
    }

    /// Checks the signature.
    ///
    /// # Errors
    /// [`Fault::UnknownKey`]: no key has the identifier of the token and fits its algorithm.
    pub(crate) fn verify(&self, keys: &Keys) -> Result<Claims, Fault> {
        let keys = keys.of(self.algorithm, self.kid.as_deref());
        if self.kid.is_none() && keys.len() > 1 {
            return Err(Fault::NoKid);
        }
        let mut fault = Fault::UnknownKey;
        for key in keys {
            match self.token.decode(&key, self.algorithm) {
                Ok(jws::Compact::Decoded { payload, .. }) => return Ok(payload),
                Err(Error::ValidationError(ValidationError::InvalidSignature)) => {
                    fault = Fault::Signature;
                }
                _ => return Err(Fault::Malformed),
            }
        }
        Err(fault)
    }
}

impl Claims {
    /// Returns whom the provider has signed in, if the token is for this login.
    pub(crate) fn identity(
        self,
        expected: &Expected<'_>,
        now: OffsetDateTime,
    ) -> Result<Identity, Fault> {
        if self.iss != expected.issuer {
            return Err(Fault::Issuer);
        }
        if !self.is_for(expected.client_id) {
            return Err(Fault::Audience);
        }
        if self.nonce.as_deref() != Some(expected.nonce) {
            return Err(Fault::Nonce);
        }
        let (now, tolerated) = (now.unix_timestamp(), TOLERATED.whole_seconds());
        let expired = now.saturating_sub(self.exp);
        if expired > tolerated {
            return Err(Fault::Expired(expired));
        }
        // `iat` may be old: Microsoft Entra sets it back by five minutes.
        let early = self.iat.max(self.nbf.unwrap_or(i64::MIN)).saturating_sub(now);
        if early > tolerated {
            return Err(Fault::TooEarly(early));
        }
        if let Some(since) = expected.again_since {
            // A provider that was asked by `max_age` must tell it (section 3.1.2.1). Not all know that parameter.
            let signed_in = self.auth_time.as_ref().and_then(Value::as_i64);
            let signed_in = signed_in.ok_or(Fault::NoAuthTime)?;
            let before = since.unix_timestamp().saturating_sub(signed_in);
            if before > tolerated {
                return Err(Fault::NotAgain(before));
            }
        }
        let is_subject = (1..=MAX_SUBJECT).contains(&self.sub.len()) && self.sub.is_ascii();
        if !is_subject {
            return Err(Fault::Subject);
        }
        Ok(Identity { issuer: self.iss, subject: self.sub })
    }

    /// A token for several clients must name the one that it was issued to.
    fn is_for(&self, client_id: &str) -> bool {
        let is_issued_to = match &self.azp {
            Some(azp) => azp == client_id,
            None => self.aud.iter().count() == 1,
        };
        is_issued_to && self.aud.contains(client_id)
    }
}
