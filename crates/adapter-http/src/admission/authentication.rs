//! Authentication and rate limits. Both are checked before the body is read.

use std::sync::Arc;

use actix_web::{
    HttpMessage as _, HttpRequest,
    http::header::{self, HeaderMap},
};
use domain::{
    api_key::{PresentedKey, Scope},
    person::{Caller, Doer, Token},
    use_cases::{
        accesses::recorder::AccessRecorder, keys::manage_keys::ManageKeys,
        people::sessions::Sessions,
    },
};
use tracing::Instrument as _;

use crate::{
    admission::{
        cookie::TokenCookie,
        peer::{self, Proxies},
        rate_limit::{BEGUN_SIGN_INS, FAILED_AUTHENTICATIONS, Policy, RateLimits},
        site::Site,
    },
    request::{notes::note, trace::STEPS},
    respond::problem::{Problem, ProblemCode},
};

/// Decides which requests are carried out: keys, sessions, rates and trusted proxies.
pub struct Admission {
    /// Authenticates API keys.
    pub keys: ManageKeys,
    /// Finds the sessions of browsers.
    pub sessions: Sessions,
    /// Whether a page may take a key, and get a session in its place.
    pub console_keys: bool,
    /// Tells the requests of the own pages from those of other sites.
    pub site: Site,
    /// Rate limits of API keys and of failed authentications.
    pub rates: Arc<RateLimits>,
    /// Proxies whose header with the client's address is trusted.
    pub proxies: Proxies,
    /// Records the accesses to orders.
    pub recorder: Arc<AccessRecorder>,
}

/// Authenticates a request that uses no order, and counts it against the rate limit of its caller, who must
/// have the scope of the policy.
pub(crate) async fn admit(
    request: &HttpRequest,
    admission: &Admission,
    policy: Policy,
) -> Result<Arc<Caller>, Problem> {
    with_scope(admit_any(request, admission, policy).await?, policy.scope())
}

/// Returns the caller if they have the scope.
pub(super) fn with_scope(caller: Arc<Caller>, scope: Scope) -> Result<Arc<Caller>, Problem> {
    if caller.may(scope) { Ok(caller) } else { Err(Problem::missing_scope(scope)) }
}

/// Like [`admit`], for an operation that needs no scope.
pub(crate) async fn admit_any(
    request: &HttpRequest,
    admission: &Admission,
    policy: Policy,
) -> Result<Arc<Caller>, Problem> {
    let step = tracing::info_span!(target: STEPS, "authenticate");
    match authenticate(request, admission).instrument(step).await {
        Ok(caller) => {
            note(request, |notes| match caller.doer() {
                Doer::Key(id) => notes.api_key = Some(id),
                Doer::Person(id) => notes.person = Some(id),
            });
            if let Some(allowance) = admission.rates.request(policy, &caller) {
                // The remaining quota is sent with the answer, whatever the answer is.
                request.extensions_mut().insert(allowance);
                let over = |seconds| Problem::rate_limited(policy.as_str(), seconds);
                allowance.remaining.map_err(over)?;
            }
            Ok(caller)
        }
        Err(problem) => Err(failed(request, admission, problem)),
    }
}

/// Admits a changing request of the own page in which nobody need be signed in.
pub(crate) fn admit_stranger(request: &HttpRequest, admission: &Admission) -> Result<(), Problem> {
    admission.site.check(request)
}

/// Like [`admit_stranger`], for a request that begins a sign-in, or looks at an invitation. Counts it against the
/// rate of the address.
pub(crate) fn admit_beginning(request: &HttpRequest, admission: &Admission) -> Result<(), Problem> {
    admit_stranger(request, admission)?;
    let Some(peer) = peer::address(request, &admission.proxies) else { return Ok(()) };
    let counted = admission.rates.begun_sign_in(peer);
    counted.map_err(|seconds| Problem::rate_limited(BEGUN_SIGN_INS, seconds))
}

/// Like [`admit_stranger`], for a request that ends a sign-in. Counts it before its ceremony is looked for, which is a
/// change in the store: guesses do not load it.
pub(crate) fn admit_ending(request: &HttpRequest, admission: &Admission) -> Result<(), Problem> {
    admit_stranger(request, admission)?;
    let Some(peer) = peer::address(request, &admission.proxies) else { return Ok(()) };
    let counted = admission.rates.ended_sign_in(peer);
    counted.map_err(|seconds| Problem::rate_limited(FAILED_AUTHENTICATIONS, seconds))
}

/// Counts a failed authentication of the address. Returns the problem to answer: that of the rate, if it is
/// exceeded.
pub(crate) fn failed(request: &HttpRequest, admission: &Admission, problem: Problem) -> Problem {
    let peer = peer::address(request, &admission.proxies);
    note(request, |notes| notes.rejected_peer = peer);
    let counted = peer.map_or(Ok(()), |peer| match problem.code() {
        ProblemCode::SessionEnded => admission.rates.ended_session(peer),
        _ => admission.rates.failure(peer),
    });
    let over = |seconds| Problem::rate_limited(FAILED_AUTHENTICATIONS, seconds);
    counted.err().map_or(problem, over)
}

/// Finds the caller of a key, or else of the session of the browser. Both are looked for here alone.
async fn authenticate(
    request: &HttpRequest,
    admission: &Admission,
) -> Result<Arc<Caller>, Problem> {
    let may_look_up = || {
        let peer = peer::address(request, &admission.proxies);
        peer.is_none_or(|peer| admission.rates.may_look_up(peer))
    };
    if !request.headers().contains_key(header::AUTHORIZATION)
        && let Some(sent) = TokenCookie::Session.text(request)
        && !Site::is_foreign_read(request)
    {
        admission.site.check(request)?;
        let token = Token::parse(sent).ok_or_else(Problem::session_ended)?;
        let caller = admission.sessions.authenticate(&token, may_look_up).await?;
        // An operator who takes keys out of the page ends what they have begun there.
        let may_go_on = |caller: &Arc<Caller>| admission.console_keys || caller.person().is_some();
        return caller.filter(may_go_on).ok_or_else(Problem::session_ended);
    }
    let presented = PresentedKey::parse(bearer(request.headers())?);
    let presented = presented.ok_or_else(Problem::invalid_token)?;
    let key = admission.keys.authenticate(&presented, may_look_up).await?;
    let caller = |key| Arc::new(Caller::from(key));
    key.map(caller).ok_or_else(Problem::invalid_token)
}

/// Returns the token of `Authorization: Bearer <token>` (RFC 6750, section 2.1). The scheme is
/// case-insensitive.
pub fn bearer(headers: &HeaderMap) -> Result<&str, Problem> {
    let mut values = headers.get_all(header::AUTHORIZATION);
    let value = values
        .next()
        .ok_or_else(|| Problem::unauthorized("Send the header Authorization: Bearer <API key>."))?;
    let malformed = || Problem::unauthorized("The Authorization header must be: Bearer <API key>.");
    let (scheme, token) =
        value.to_str().ok().and_then(|text| text.trim().split_once(' ')).ok_or_else(malformed)?;
    let token = token.trim();
    let valid = scheme.eq_ignore_ascii_case("bearer")
        && !token.is_empty()
        && !token.contains(char::is_whitespace)
        && values.next().is_none();
    if valid { Ok(token) } else { Err(malformed()) }
}

#[cfg(test)]
#[path = "authentication_tests.rs"]
mod tests;
