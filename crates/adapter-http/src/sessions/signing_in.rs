//! The end of every sign-in: the access, the count, the cookie.

use std::sync::Arc;

use actix_web::{HttpRequest, HttpResponse, http::header};
use domain::{
    access::DONE,
    api_key::ApiKey,
    person::{Caller, Doer, Holder, PersonId, Token, TokenHash},
    ports::{LoginError, error_chain},
    use_cases::people::sign_in::{SignIn, SignInError, SignedIn},
};
use prometheus::IntCounterVec;
use serde::Serialize;

use crate::{
    admission::{
        audit::SignInAudit, authentication::failed, cookie::TokenCookie, peer,
        rate_limit::FAILED_AUTHENTICATIONS,
    },
    request::notes::note,
    respond::{
        answer::Answer,
        problem::{Problem, ProblemCode},
    },
    sessions::{path, record::SessionRecord},
    state::Api,
};

/// A sign-in that ends: it leaves an access, and is counted by its way and its outcome.
pub(super) struct SigningIn {
    audit: SignInAudit,
    counts: IntCounterVec,
    way: &'static str,
}

/// A session that has begun.
pub(super) struct Begun {
    token: Token,
    caller: Caller,
}

/// A sign-in that was refused, and the person whose passkey was used.
pub(super) struct Refused {
    error: SignInError,
    person: Option<PersonId>,
}

impl SigningIn {
    /// Returns the sign-in of a request. The name of the way is that in the metrics.
    pub(super) fn new(
        request: &HttpRequest,
        api: &Api,
        way: &'static str,
    ) -> Result<Self, Problem> {
        let audit = SignInAudit::new(request, &api.admission)?;
        Ok(Self { audit, counts: api.metrics.sign_ins.clone(), way })
    }

    /// Records how it has ended. `key` is that of the session, if it is none of a person; `person` the one whose
    /// passkey was used.
    pub(super) fn ended(
        self,
        outcome: Result<SignedIn, SignInError>,
        key: Option<Arc<ApiKey>>,
        person: Option<PersonId>,
    ) -> Result<Begun, Refused> {
        let refused = |error| Refused { error, person };
        let begun = outcome.and_then(|SignedIn { token, session, person }| {
            let holder = person.map(|person| Holder::Person(Arc::new(person)));
            let holder = holder.or(key.map(Holder::Key)).ok_or(SignInError::Unknown)?;
            Ok(Begun { token, caller: Caller::of_session(session, holder) })
        });
        self.count(begun.as_ref().map_or_else(SignInError::as_str, |_| DONE));
        match &begun {
            Ok(begun) => self.audit.signed_in(&begun.caller),
            Err(error) => self.audit.refused(error.as_str(), person),
        }
        begun.map_err(refused)
    }

    /// Records that the request was rejected before.
    pub(super) fn rejected(self, code: ProblemCode) {
        self.count(code.as_str());
        self.audit.refused(code.as_str(), None);
    }

    fn count(&self, outcome: &str) {
        self.counts.with_label_values(&[self.way, outcome]).inc();
    }
}

/// Returns the token of the session that the browser has until now. The new cookie takes its place.
pub(super) fn before(request: &HttpRequest) -> Option<TokenHash> {
    TokenCookie::Session.token(request).map(|token| token.hash())
}

/// Returns the person whose passkey a refused response names.
pub(super) async fn named<T>(
    sign_in: &SignIn,
    outcome: &Result<T, SignInError>,
    response: &str,
) -> Option<PersonId> {
    match outcome {
        Ok(_) | Err(SignInError::Store(_)) => None,
        // A store that fails now leaves the access without a person.
        Err(_) => sign_in.named_person(response).await.ok().flatten(),
    }
}

/// Answers with the session that has begun, whose token only this cookie has.
pub(super) fn answer(
    request: &HttpRequest,
    api: &Api,
    outcome: Result<Begun, Refused>,
    return_to: Option<String>,
) -> Answer {
    let Begun { token, caller } = outcome.map_err(|refused| reported(request, api, refused))?;
    let caller = Arc::new(caller);
    // The session that this one replaces ends here at once.
    api.admission.sessions.begun(&token, Arc::clone(&caller));
    note(request, |notes| {
        notes.message = Some("signed in");
        match caller.doer() {
            Doer::Key(id) => notes.api_key = Some(id),
            Doer::Person(id) => notes.person = Some(id),
        }
    });
    let session = caller.session().ok_or_else(Problem::internal)?;
    let session = SessionRecord::of(&caller, session, api.admission.sessions.terms);
    let location = format!("{}{}", api.base_path, path::SESSION);
    Ok(HttpResponse::Created()
        .insert_header((header::LOCATION, location))
        .append_header(TokenCookie::Session.holding(&token))
        .append_header(TokenCookie::Ceremony.cleared())
        .json(BegunRecord { session, return_to }))
}

/// Counts a refused sign-in against its address and its person. Returns the problem to answer.
fn reported(request: &HttpRequest, api: &Api, Refused { error, person }: Refused) -> Problem {
    let is_outage =
        matches!(error, SignInError::Store(_) | SignInError::Login(LoginError::Unavailable(_)));
    let problem = explained(request, api, error);
    if is_outage {
        return problem;
    }
    let counted = person.map_or(Ok(()), |person| api.admission.rates.refused_sign_in(person));
    let over = |seconds| Problem::rate_limited(FAILED_AUTHENTICATIONS, seconds);
    failed(request, &api.admission, counted.err().map_or(problem, over))
}

/// Returns the problem to answer. Logs why a passkey or a login was not accepted: at the level `debug`, if the address has
/// had its log lines. A person may use another origin, and a stranger may try: neither is a fault of the service.
pub(crate) fn explained(request: &HttpRequest, api: &Api, error: SignInError) -> Problem {
    let (cause, message) = match &error {
        SignInError::Passkey(fault) => (error_chain(fault), "a passkey was not accepted"),
        SignInError::Login(fault @ LoginError::Rejected(_)) => {
            (error_chain(fault), "a login was not accepted")
        }
        _ => return error.into(),
    };
    let peer = peer::address(request, &api.admission.proxies);
    if peer.is_none_or(|peer| api.admission.rates.may_log(peer)) {
        tracing::info!(error = cause, "{message}");
    } else {
        tracing::debug!(error = cause, "{message}");
    }
    error.into()
}

/// The record of a session that has begun.
#[derive(Serialize)]
struct BegunRecord<'a> {
    #[serde(flatten)]
    session: SessionRecord<'a>,
    /// Only after a company's login, whose page was left.
    #[serde(skip_serializing_if = "Option::is_none")]
    return_to: Option<String>,
}
