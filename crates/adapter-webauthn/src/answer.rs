//! The JSON of a `PublicKeyCredential`, as its method `toJSON()` makes it (WebAuthn level 3, 5.1).

use domain::ports::Cause;
use serde_json::{Map, Value};
use webauthn_rp::{
    DiscoverableAuthentication64, Registration,
    response::{auth::ser_relaxed::DiscoverableAuthenticationRelaxed64, register::ser_relaxed},
};

/// Reads the answer to a registration.
pub fn registration(answer: &str) -> Result<Registration, Cause> {
    let counted = counted(answer, &["attestationObject"])?;
    Ok(serde_json::from_value::<ser_relaxed::RegistrationRelaxed>(counted)?.0)
}

/// Reads the answer to a sign-in.
pub fn sign_in(answer: &str) -> Result<DiscoverableAuthentication64, Cause> {
    let counted = counted(answer, &["authenticatorData", "signature", "userHandle"])?;
    Ok(serde_json::from_value::<DiscoverableAuthenticationRelaxed64>(counted)?.0)
}

/// Keeps the members that count, and `signed` of `response`. The library rejects hints that it does not know.
fn counted(answer: &str, signed: &[&str]) -> Result<Value, Cause> {
    let mut members: Map<String, Value> = serde_json::from_str(answer)?;
    members.retain(|name, _| ["id", "rawId", "type", "response"].contains(&name.as_str()));
    if let Some(Value::Object(response)) = members.get_mut("response") {
        response.retain(|name, _| name == "clientDataJSON" || signed.contains(&name.as_str()));
    }
    Ok(Value::Object(members))
}
