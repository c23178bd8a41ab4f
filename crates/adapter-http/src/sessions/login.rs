//! `POST /api/session/login` and `…/finish`: people sign in at their company, by OpenID Connect.

use actix_web::{HttpRequest, HttpResponse, web};
use domain::{
    person::LoginAnswer,
    request::{
        Code, Sent,
        rules::{optional, required, text},
    },
    use_cases::people::sign_in::SignInError,
};
use garde::Validate;
use serde::Deserialize;
use serde_json::json;

use crate::{
    admission::{authentication::admit_ending, preconditions::Preconditions},
    body::json,
    respond::answer::Answer,
    sessions::{
        invitation::MAX_TOKEN,
        passkey::{ceremony, with_ceremony},
        purpose,
        signing_in::{self, SigningIn},
    },
    state::State,
};

/// The longest name of a provider in characters. All are shorter.
const MAX_PROVIDER: usize = 200;
/// The longest path, `state` or `code` that is read, in characters.
const MAX_TEXT: usize = 8_000;

#[derive(Clone, Default, Deserialize, Validate)]
#[serde(default)]
struct BeginMembers {
    #[garde(custom(required(text(MAX_PROVIDER))))]
    provider: Sent<Code>,
    #[garde(custom(required(purpose::rule)))]
    purpose: Sent<Code>,
    #[garde(custom(optional(text(MAX_TOKEN))))]
    token: Sent<Code>,
    #[garde(custom(optional(text(MAX_TEXT))))]
    return_to: Sent<Code>,
}

#[derive(Clone, Default, Deserialize, Validate)]
#[serde(default)]
struct FinishMembers {
    #[garde(custom(required(text(MAX_TEXT))))]
    state: Sent<Code>,
    #[garde(custom(required(text(MAX_TEXT))))]
    code: Sent<Code>,
    #[garde(custom(optional(text(MAX_TEXT))))]
    iss: Sent<Code>,
}

fn text_of(sent: Sent<Code>) -> String {
    sent.into_value().map(Into::into).unwrap_or_default()
}

pub(crate) async fn begin(
    preconditions: Preconditions,
    request: HttpRequest,
    payload: web::Payload,
    api: State,
) -> Answer {
    purpose::admit(&request, &api)?;
    preconditions.check_creation()?;
    let redirect_uri = api.admission.site.console(&request)?;
    let body: BeginMembers = json::read_small_object(&request, payload).await?;
    let purpose = purpose::read(&request, &api, &body.purpose, &body.token).await?;
    let (provider, return_to) = (text_of(body.provider), text_of(body.return_to));
    let begun = api.sign_in.begin_login(purpose, &provider, &redirect_uri, &return_to).await;
    let (token, url) = begun.map_err(|error| signing_in::explained(&request, &api, error))?;
    Ok(with_ceremony(HttpResponse::Ok(), &token).json(json!({ "url": url })))
}

pub(crate) async fn finish(
    preconditions: Preconditions,
    request: HttpRequest,
    payload: web::Payload,
    api: State,
) -> Answer {
    admit_ending(&request, &api.admission)?;
    preconditions.check_creation()?;
    let signing_in = SigningIn::new(&request, &api, "login")?;
    let body: FinishMembers = json::read_small_object(&request, payload).await?;
    let login_answer = LoginAnswer {
        state: text_of(body.state),
        code: text_of(body.code),
        issuer: body.iss.into_value().map(Into::into),
    };
    let (token, before) = (ceremony(&request), signing_in::before(&request));
    let sign_in = api.sign_in.clone();
    let work = async move {
        let finished = match token {
            Some(token) => sign_in.finish_login(&token, &login_answer, before).await,
            None => Err(SignInError::NoCeremony),
        };
        let (signed_in, return_to) = match finished {
            Ok((signed_in, return_to)) => (Ok(signed_in), Some(return_to)),
            Err(error) => (Err(error), None),
        };
        (signing_in.ended(signed_in, None, None), return_to)
    };
    let (begun, return_to) = api.detached.run_to_end(work, drop).await;
    signing_in::answer(&request, &api, begun, return_to)
}
