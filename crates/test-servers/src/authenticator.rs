//! An authenticator of passkeys with its browser: the crates `passkey-…` of 1Password. It signs what a page asks for,
//! so a test can play a page that tampers with the options, a copied key, and a person who is not verified.

mod keys;

use std::{
    pin::pin,
    task::{Context, Poll, Waker},
};

use async_trait::async_trait;
use passkey_authenticator::{
    CredentialStore, DiscoverabilitySupport, StoreInfo, UiHint, UserCheck, UserValidationMethod,
};
use passkey_client::{Client, DefaultClientData, WebauthnError};
use passkey_types::{
    Passkey,
    ctap2::{
        Aaguid, Ctap2Error, StatusCode,
        make_credential::{Options, PublicKeyCredentialRpEntity, PublicKeyCredentialUserEntity},
    },
    webauthn::{
        CredentialCreationOptions, CredentialRequestOptions, PublicKeyCredentialDescriptor,
    },
};
use url::Url;

pub use self::keys::Algorithm;
use self::keys::Keys;

/// An authenticator. A clone is a copied key.
#[derive(Clone)]
pub struct Authenticator {
    /// Whether it checks who uses it, by a finger or a PIN.
    pub verifies_user: bool,
    /// Whether new passkeys count their uses.
    pub counts: bool,
    algorithm: Algorithm,
    passkeys: Vec<Passkey>,
}

impl Default for Authenticator {
    fn default() -> Self {
        Self::of(Algorithm::Es256)
    }
}

impl Authenticator {
    /// Returns an authenticator without passkeys, like that of a phone: it verifies its user and does not count.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns one whose passkeys have this algorithm.
    pub fn of(algorithm: Algorithm) -> Self {
        Self { verifies_user: true, counts: false, algorithm, passkeys: Vec::new() }
    }

    /// Sets the counters of all passkeys. The next sign-in counts on from there; without a counter it tells zero.
    pub fn set_counters(&mut self, counter: Option<u32>) {
        for passkey in &mut self.passkeys {
            passkey.counter = counter;
        }
    }

    /// Makes a passkey. `options` is the JSON of `publicKey` in the argument of `navigator.credentials.create`.
    /// Returns the JSON of the credential.
    ///
    /// # Errors
    /// What the browser throws.
    pub fn create(&mut self, options: &str, origin: &str) -> Result<String, WebauthnError> {
        let request = CredentialCreationOptions { public_key: parsed(options) };
        let mut browser = Client::new(self.device()).allows_insecure_localhost(true);
        let made = now(browser.register(&url(origin), request, DefaultClientData))?;
        Ok(serde_json::to_string(&made).unwrap())
    }

    /// Signs in by the newest passkey of the relying party. `options` is the JSON of `publicKey` in the argument of
    /// `navigator.credentials.get`. Returns the JSON of the credential.
    ///
    /// # Errors
    /// What the browser throws.
    pub fn get(&mut self, options: &str, origin: &str) -> Result<String, WebauthnError> {
        let request = CredentialRequestOptions { public_key: parsed(options) };
        let mut browser = Client::new(self.device()).allows_insecure_localhost(true);
        let signed = now(browser.authenticate(&url(origin), request, DefaultClientData))?;
        Ok(serde_json::to_string(&signed).unwrap())
    }

    fn device(&mut self) -> passkey_authenticator::Authenticator<Store<'_>, User, Keys> {
        let user = User { is_verified: self.verifies_user };
        let keys = Keys { algorithm: self.algorithm };
        let store = Store(&mut self.passkeys);
        let aaguid = Aaguid::new_empty();
        let mut device = passkey_authenticator::Authenticator::new(aaguid, store, user, keys);
        device.set_make_credentials_with_signature_counter(self.counts);
        device
    }
}

fn parsed<T: serde::de::DeserializeOwned>(options: &str) -> T {
    serde_json::from_str(options).unwrap()
}

fn url(origin: &str) -> Url {
    Url::parse(origin).unwrap()
}

/// Returns the value of a future that waits for nothing.
fn now<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("the authenticator waits"),
    }
}

/// Agrees to everything.
struct User {
    is_verified: bool,
}

#[async_trait]
impl UserValidationMethod for User {
    type PasskeyItem = Passkey;

    async fn check_user<'a>(
        &self,
        hint: UiHint<'a, Passkey>,
        _presence: bool,
        _verification: bool,
    ) -> Result<UserCheck, Ctap2Error> {
        match hint {
            UiHint::InformExcludedCredentialFound(_) => Err(Ctap2Error::CredentialExcluded),
            _ => Ok(UserCheck { presence: true, verification: self.is_verified }),
        }
    }

    fn is_presence_enabled(&self) -> bool {
        true
    }

    fn is_verification_enabled(&self) -> Option<bool> {
        Some(self.is_verified)
    }
}

/// The passkeys of an authenticator, the newest last.
struct Store<'a>(&'a mut Vec<Passkey>);

#[async_trait]
impl CredentialStore for Store<'_> {
    type PasskeyItem = Passkey;

    async fn find_credentials(
        &self,
        ids: Option<&[PublicKeyCredentialDescriptor]>,
        rp_id: &str,
        _user_handle: Option<&[u8]>,
    ) -> Result<Vec<Passkey>, StatusCode> {
        let is_asked_for = |passkey: &&Passkey| {
            passkey.rp_id == rp_id
                && ids.is_none_or(|ids| ids.iter().any(|id| id.id == passkey.credential_id))
        };
        let found: Vec<_> = self.0.iter().rev().filter(is_asked_for).cloned().collect();
        if found.is_empty() { Err(Ctap2Error::NoCredentials.into()) } else { Ok(found) }
    }

    async fn save_credential(
        &mut self,
        passkey: Passkey,
        _user: PublicKeyCredentialUserEntity,
        _rp: PublicKeyCredentialRpEntity,
        _options: Options,
    ) -> Result<(), StatusCode> {
        self.0.push(passkey);
        Ok(())
    }

    async fn update_credential(&mut self, used: &Passkey) -> Result<(), StatusCode> {
        for passkey in &mut *self.0 {
            if passkey.credential_id == used.credential_id {
                passkey.clone_from(used);
            }
        }
        Ok(())
    }

    async fn get_info(&self) -> StoreInfo {
        StoreInfo { discoverability: DiscoverabilitySupport::Full }
    }
}
