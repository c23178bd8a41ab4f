//! Authentication and rate limit, before anything of the body is read.

use std::sync::Arc;

use actix_web::{
    HttpMessage as _, HttpRequest,
    http::header::{self, HeaderMap},
};
use domain::api_key::{ApiKey, PresentedKey};

use crate::{
    api::Api,
    observe::{KeyNote, RefusedPeer},
    peer,
    problem::Problem,
    rate_limit::{FAILED_AUTHENTICATIONS, Policy},
};

/// The key that a request is made with, once it is good and within its rate. What is left of the
/// rate goes with the answer, whatever that is.
pub(crate) async fn admit(
    request: &HttpRequest,
    api: &Api,
    policy: Policy,
) -> Result<Arc<ApiKey>, Problem> {
    let key = match bearer(request.headers()) {
        Ok(token) => match PresentedKey::parse(token) {
            Some(presented) => {
                api.keys.authenticate(&presented).await?.ok_or_else(Problem::invalid_token)
            }
            None => Err(Problem::invalid_token()),
        },
        Err(problem) => Err(problem),
    };
    match key {
        Ok(key) => {
            request.extensions_mut().insert(KeyNote(key.id));
            let Some(allowance) = api.rates.request(policy, &key) else { return Ok(key) };
            request.extensions_mut().insert(allowance);
            allowance
                .taken
                .map(|_| key)
                .map_err(|seconds| Problem::rate_limited(policy.as_str(), seconds))
        }
        Err(problem) => {
            let peer = peer::address(request, &api.trusted_proxies);
            let throttled = peer.and_then(|peer| {
                request.extensions_mut().insert(RefusedPeer(peer));
                api.rates.failure(peer).err()
            });
            Err(throttled
                .map_or(problem, |seconds| Problem::rate_limited(FAILED_AUTHENTICATIONS, seconds)))
        }
    }
}

/// The token of `Authorization: Bearer <token>` (RFC 6750 section 2.1); the scheme in any letter
/// case.
pub(crate) fn bearer(headers: &HeaderMap) -> Result<&str, Problem> {
    let mut values = headers.get_all(header::AUTHORIZATION);
    let value = values
        .next()
        .ok_or_else(|| Problem::unauthorized("Send the header Authorization: Bearer <API key>."))?;
    let malformed = || Problem::unauthorized("The Authorization header must be: Bearer <API key>.");
    let (scheme, token) =
        value.to_str().ok().and_then(|text| text.trim().split_once(' ')).ok_or_else(malformed)?;
    let token = token.trim();
    let whole = scheme.eq_ignore_ascii_case("bearer")
        && !token.is_empty()
        && !token.contains(char::is_whitespace)
        && values.next().is_none();
    if whole { Ok(token) } else { Err(malformed()) }
}

#[cfg(test)]
mod tests {
    use actix_web::test::TestRequest;

    use super::*;

    #[test]
    fn the_scheme_is_bearer_in_any_letter_case() {
        for value in ["Bearer abc", "bearer abc", "BEARER  abc "] {
            let request = TestRequest::default()
                .insert_header((header::AUTHORIZATION, value))
                .to_http_request();
            assert_eq!(bearer(request.headers()), Ok("abc"), "{value}");
        }
    }

    #[test]
    fn anything_else_is_no_credential() {
        for value in ["", "abc", "Bearer", "Bearer ", "Basic abc", "Bearer a b", "Bearerabc"] {
            let request = TestRequest::default()
                .insert_header((header::AUTHORIZATION, value))
                .to_http_request();
            assert!(bearer(request.headers()).is_err(), "{value}");
        }
        let twice = TestRequest::default()
            .append_header((header::AUTHORIZATION, "Bearer a"))
            .append_header((header::AUTHORIZATION, "Bearer b"));
        assert!(bearer(twice.to_http_request().headers()).is_err());
    }
}
