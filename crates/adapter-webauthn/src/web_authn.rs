//! The ceremonies of WebAuthn: registration (7.1) and sign-in (7.2).

use std::num::NonZeroU32;

use domain::{
    person::{CEREMONY_LIFETIME, Credential, CredentialId, Origin, Person},
    ports::{BegunPasskey, Cause, PasskeyFault, Passkeys},
};
use webauthn_rp::{
    AuthenticatedCredential, DiscoverableAuthenticationServerState,
    DiscoverableCredentialRequestOptions, PublicKeyCredentialCreationOptions,
    RegistrationServerState,
    bin::{Decode as _, Encode as _},
    request::{
        AsciiDomain, PublicKeyCredentialDescriptor, RpId,
        auth::AuthenticationVerificationOptions,
        register::{
            CoseAlgorithmIdentifier, CoseAlgorithmIdentifiers, Extension,
            PublicKeyCredentialUserEntity, RegistrationVerificationOptions, USER_HANDLE_MAX_LEN,
            UserHandle64,
        },
    },
    response::{
        self, AuthTransports,
        register::{DynamicState, StaticState},
    },
};

use crate::answer;

/// The name of the service that browsers and authenticators show beside the host.
pub const RELYING_PARTY: &str = "notary-orders";

/// The algorithms that browsers ask for by default, and Ed25519. Windows Hello has keys of RSA.
const ALGORITHMS: CoseAlgorithmIdentifiers =
    CoseAlgorithmIdentifiers::ALL.remove(CoseAlgorithmIdentifier::Es384);

type State = RegistrationServerState<USER_HANDLE_MAX_LEN>;

/// Passkeys by the crate `webauthn_rp`. The host of an origin is the relying party.
///
/// The library takes challenges from the randomness of the operating system, and measures by the clock of the machine
/// how long a ceremony waits. The storage ends a ceremony at the same age, by the clock of the service.
#[derive(Debug, Clone, Copy, Default)]
pub struct WebAuthn;

impl WebAuthn {
    /// Returns the only value: it has no settings.
    pub fn new() -> Self {
        Self
    }
}

impl Passkeys for WebAuthn {
    fn begin_registration(
        &self,
        origin: &Origin,
        person: &Person,
        existing: &[CredentialId],
    ) -> Result<BegunPasskey, PasskeyFault> {
        begin_registration(origin, person, existing).map_err(PasskeyFault)
    }

    fn finish_registration(
        &self,
        origin: &Origin,
        person: &Person,
        state: &[u8],
        response: &str,
    ) -> Result<Credential, PasskeyFault> {
        finish_registration(origin, person, state, response).map_err(PasskeyFault)
    }

    fn begin_sign_in(&self, origin: &Origin) -> Result<BegunPasskey, PasskeyFault> {
        begin_sign_in(origin).map_err(PasskeyFault)
    }

    fn named_credential(&self, response: &str) -> Result<CredentialId, PasskeyFault> {
        let answer = answer::sign_in(response).map_err(PasskeyFault)?;
        Ok(CredentialId(answer.raw_id().as_ref().to_vec()))
    }

    fn finish_sign_in(
        &self,
        origin: &Origin,
        person: &Person,
        credential: &Credential,
        state: &[u8],
        response: &str,
    ) -> Result<Vec<u8>, PasskeyFault> {
        finish_sign_in(origin, person, credential, state, response).map_err(PasskeyFault)
    }
}

fn begin_registration(
    origin: &Origin,
    person: &Person,
    existing: &[CredentialId],
) -> Result<BegunPasskey, Cause> {
    let relying_party = relying_party(origin)?;
    let handle = handle(person)?;
    // Any transport: whether an authenticator has the passkey does not depend on it.
    let transports = AuthTransports::decode(0)?;
    let existing = existing.iter().map(|id| {
        let id = response::CredentialId::decode(id.0.clone())?;
        Ok(PublicKeyCredentialDescriptor { id, transports })
    });
    let existing = existing.collect::<Result<_, Cause>>()?;
    let user = PublicKeyCredentialUserEntity::from(&handle);
    let mut options = PublicKeyCredentialCreationOptions::passkey(&relying_party, user, existing);
    options.pub_key_cred_params = ALGORITHMS;
    options.timeout = lifetime()?;
    // Browsers protect discoverable credentials by themselves. To enforce it would shut out authenticators without it.
    options.extensions = Extension::default();
    let (state, options) = options.start_ceremony()?;

    // The library takes no name with a space for a user, and none at all for the relying party.
    let mut options = serde_json::to_value(&options)?;
    let name = person.person.name.as_str();
    let account = person.person.email.as_ref().map_or(name, |email| email.as_str());
    options["rp"]["name"] = RELYING_PARTY.into();
    options["user"]["name"] = account.into();
    options["user"]["displayName"] = name.into();
    Ok(BegunPasskey { options: options.to_string(), state: state.encode()? })
}

fn finish_registration(
    origin: &Origin,
    person: &Person,
    state: &[u8],
    response: &str,
) -> Result<Credential, Cause> {
    let answer = answer::registration(response)?;
    let options = RegistrationVerificationOptions::<&str, &str> {
        allowed_origins: &[origin.as_str()],
        error_on_unsolicited_extensions: false,
        ..RegistrationVerificationOptions::default()
    };
    let state = State::decode(state)?;
    let made = state.verify(&relying_party(origin)?, &answer, &options)?;
    if *made.user_id() != handle(person)? {
        return Err("the ceremony is of another person".into());
    }
    Ok(Credential {
        id: CredentialId(made.id().as_ref().to_vec()),
        fixed: made.static_state().encode()?,
        changing: made.dynamic_state().encode()?.to_vec(),
    })
}

fn begin_sign_in(origin: &Origin) -> Result<BegunPasskey, Cause> {
    let relying_party = relying_party(origin)?;
    let mut options = DiscoverableCredentialRequestOptions::passkey(&relying_party);
    options.0.timeout = lifetime()?;
    let (state, options) = options.start_ceremony()?;
    Ok(BegunPasskey { options: serde_json::to_string(&options)?, state: state.encode()? })
}

fn finish_sign_in(
    origin: &Origin,
    person: &Person,
    credential: &Credential,
    state: &[u8],
    response: &str,
) -> Result<Vec<u8>, Cause> {
    let answer = answer::sign_in(response)?;
    let id = response::CredentialId::decode(credential.id.0.as_slice())?;
    let handle = handle(person)?;
    let fixed = StaticState::decode(credential.fixed.as_slice())?;
    let changing = DynamicState::decode(credential.changing.as_slice().try_into()?)?;
    let mut known = AuthenticatedCredential::new(id, &handle, fixed, changing)?;
    let options = AuthenticationVerificationOptions::<&str, &str> {
        allowed_origins: &[origin.as_str()],
        error_on_unsolicited_extensions: false,
        ..AuthenticationVerificationOptions::default()
    };
    let state = DiscoverableAuthenticationServerState::decode(state)?;
    state.verify(&relying_party(origin)?, &answer, &mut known, &options)?;
    Ok(known.dynamic_state().encode()?.to_vec())
}

fn relying_party(origin: &Origin) -> Result<RpId, Cause> {
    Ok(RpId::Domain(AsciiDomain::try_from(origin.host().to_owned())?))
}

fn handle(person: &Person) -> Result<UserHandle64, Cause> {
    Ok(UserHandle64::decode(person.person.handle.0)?)
}

/// Returns how long browsers and the library wait for the person: milliseconds.
fn lifetime() -> Result<NonZeroU32, Cause> {
    Ok(u32::try_from(CEREMONY_LIFETIME.whole_milliseconds())?.try_into()?)
}
