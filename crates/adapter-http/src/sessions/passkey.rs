//! `POST /api/session/passkey` and `…/finish`: people sign in by a passkey.

use actix_web::{HttpRequest, HttpResponse, HttpResponseBuilder, http::header::ContentType, web};
use domain::{
    person::{PersonName, Token, person_request::is_name},
    request::{
        Code, Member, Sent, Word,
        rules::{any, optional, required, text},
    },
    use_cases::people::sign_in::SignInError,
};
use garde::Validate;
use serde::Deserialize;

use crate::{
    admission::{authentication::admit_ending, cookie::TokenCookie, preconditions::Preconditions},
    body::json,
    respond::answer::Answer,
    sessions::{
        invitation::MAX_TOKEN,
        purpose,
        signing_in::{self, SigningIn},
    },
    state::State,
};

#[derive(Clone, Default, Deserialize, Validate)]
#[serde(default)]
struct BeginMembers {
    #[garde(custom(required(purpose::rule)))]
    purpose: Sent<Code>,
    #[garde(custom(optional(text(MAX_TOKEN))))]
    token: Sent<Code>,
}

/// The members of the end of a ceremony.
#[derive(Clone, Default, Deserialize, Validate)]
#[serde(default)]
pub(crate) struct FinishMembers {
    #[garde(custom(required(any)))]
    credential: Sent<Credential>,
    #[garde(custom(optional(is_name)))]
    name: Sent<Word>,
}

/// The answer of an authenticator: the text of an object, which the library of WebAuthn reads.
#[derive(Clone)]
struct Credential(String);

impl Member for Credential {
    const EXPECTED: &'static str = "must be an object";

    fn of_object(json: &str) -> serde_json::Result<Sent<Self>> {
        Ok(Sent::Value(Self(json.to_owned())))
    }
}

impl FinishMembers {
    /// Returns the answer of the authenticator, and the name of the passkey.
    pub(crate) fn into_parts(self) -> (String, Option<PersonName>) {
        let response = self.credential.into_value().map(|Credential(json)| json);
        let name = self.name.value().and_then(|name| PersonName::new(name).ok());
        (response.unwrap_or_default(), name)
    }
}

pub(crate) async fn begin(
    preconditions: Preconditions,
    request: HttpRequest,
    payload: web::Payload,
    api: State,
) -> Answer {
    purpose::admit(&request, &api)?;
    preconditions.check_creation()?;
    let origin = api.admission.site.passkey_origin(&request)?;
    let body: BeginMembers = json::read_small_object(&request, payload).await?;
    let purpose = purpose::read(&request, &api, &body.purpose, &body.token).await?;
    let begun_passkey = api.sign_in.begin_passkey(purpose, &origin).await;
    let (token, options) =
        begun_passkey.map_err(|error| signing_in::explained(&request, &api, error))?;
    Ok(begun(&token, &options))
}

pub(crate) async fn finish(
    preconditions: Preconditions,
    request: HttpRequest,
    payload: web::Payload,
    api: State,
) -> Answer {
    admit_ending(&request, &api.admission)?;
    preconditions.check_creation()?;
    let signing_in = SigningIn::new(&request, &api, "passkey")?;
    let body: FinishMembers = json::read_small_object(&request, payload).await?;
    let (response, name) = body.into_parts();
    let (token, before) = (ceremony(&request), signing_in::before(&request));
    let sign_in = api.sign_in.clone();
    let work = async move {
        let signed_in = match token {
            Some(token) => sign_in.finish_passkey(&token, &response, name, before).await,
            None => Err(SignInError::NoCeremony),
        };
        let person = signing_in::named(&sign_in, &signed_in, &response).await;
        signing_in.ended(signed_in, None, person)
    };
    let begun = api.detached.run_to_end(work, drop).await;
    signing_in::answer(&request, &api, begun, None)
}

/// Returns the token of the ceremony that the browser has begun.
pub(crate) fn ceremony(request: &HttpRequest) -> Option<Token> {
    TokenCookie::Ceremony.token(request)
}

/// Answers with the options for the browser, which the library of WebAuthn has written.
pub(crate) fn begun(token: &Token, options: &str) -> HttpResponse {
    with_ceremony(HttpResponse::Ok(), token)
        .content_type(ContentType::json())
        .body(format!(r#"{{"publicKey":{options}}}"#))
}

/// Adds the cookie of a ceremony that has begun.
pub(super) fn with_ceremony(
    mut response: HttpResponseBuilder,
    token: &Token,
) -> HttpResponseBuilder {
    response.append_header(TokenCookie::Ceremony.holding(token));
    response
}
