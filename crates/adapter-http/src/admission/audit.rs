//! The audit entry of a request that uses an order. Its types lead from the table of routes to the use cases, so
//! that an operation without an entry does not compile.

use std::{cell::OnceCell, rc::Rc, sync::Arc};

use actix_web::{HttpRequest, http::StatusCode};
use domain::{
    access::{AccessActor, AccessFacts, AccessKind, DONE, NOT_MODIFIED},
    api_key::{Owner, Scope},
    order::OrderId,
    person::{Caller, Doer, PersonId},
    use_cases::{
        accesses::recorder::{AccessRecorder, BegunAccess},
        change_order::Changer,
    },
};

use crate::{
    admission::{
        authentication::{Admission, admit_any, with_scope},
        peer,
        rate_limit::Policy,
    },
    request::id::RequestId,
    respond::{
        answer::Answer,
        path_number::{identifier, number},
        problem::Problem,
    },
};

/// The audit entry of a request. The handler of each operation on orders takes one, and gets the caller of the
/// request for it. The entry begins with that, and ends with the answer.
#[derive(Clone)]
pub(crate) struct Audit {
    kind: AccessKind,
    begun: Rc<OnceCell<BegunAccess>>,
}

impl Audit {
    /// Returns the entry of a request for this use of an order. It has not begun.
    pub(crate) fn new(kind: AccessKind) -> Self {
        Self { kind, begun: Rc::default() }
    }

    /// Authenticates a request and counts it against the rate limit of its caller, who must have the scope of
    /// the policy.
    pub(crate) async fn admit(
        self,
        request: &HttpRequest,
        admission: &Admission,
        policy: Policy,
    ) -> Result<Admitted, Problem> {
        self.admit_for(request, admission, policy, |_| policy.scope()).await
    }

    /// Like [`Self::admit`], for an operation whose scope depends on the caller.
    pub(crate) async fn admit_for(
        self,
        request: &HttpRequest,
        admission: &Admission,
        policy: Policy,
        scope: impl Fn(&Caller) -> Scope,
    ) -> Result<Admitted, Problem> {
        let Admitted { caller, access } = self.admit_any(request, admission, policy).await?;
        let scope = scope(&caller);
        Ok(Admitted { caller: with_scope(caller, scope)?, access })
    }

    /// Like [`Self::admit`], for an operation that needs no scope.
    pub(crate) async fn admit_any(
        self,
        request: &HttpRequest,
        admission: &Admission,
        policy: Policy,
    ) -> Result<Admitted, Problem> {
        // Nothing is done that could not be recorded.
        if admission.recorder.is_full() {
            return Err(Problem::unavailable());
        }
        // A request over the rate leaves no entry: the rate bounds the rows that a key can add.
        let caller = admit_any(request, admission, policy).await?;
        let facts = facts(request, admission, self.kind, actor(&caller));
        let begin = || BegunAccess::new(Arc::clone(&admission.recorder), facts);
        let access = self.begun.get_or_init(begin).clone();
        Ok(Admitted { caller, access })
    }

    /// Ends the entry with the outcome of the request. One that has not begun leaves nothing.
    pub(crate) fn end(&self, outcome: &Answer) {
        if let Some(access) = self.begun.get() {
            access.end(name(outcome).to_owned());
        }
    }
}

/// Returns the facts of an access. Its order, its document, its person, its key and its webhook are those of the
/// path.
fn facts(
    request: &HttpRequest,
    admission: &Admission,
    kind: AccessKind,
    actor: AccessActor,
) -> AccessFacts {
    AccessFacts {
        kind,
        order: identifier(request, "order_id").map(OrderId),
        orders: None,
        position: number(request, "position"),
        subject: ["person_id", "key_id", "webhook_id"]
            .into_iter()
            .find_map(|name| identifier(request, name)),
        actor,
        address: peer::address(request, &admission.proxies),
        request_id: Some(RequestId::of(request).id.to_string()),
    }
}

/// Returns a caller as the actor of an access.
fn actor(caller: &Caller) -> AccessActor {
    let party = caller.party();
    match caller.doer() {
        Doer::Key(id) => AccessActor::Key { id, party },
        Doer::Person(id) => AccessActor::Person { id, party },
    }
}

/// Returns the name of an outcome among the accesses.
fn name(outcome: &Answer) -> &'static str {
    match outcome {
        Ok(response) if response.status() == StatusCode::NOT_MODIFIED => NOT_MODIFIED,
        Ok(_) => DONE,
        Err(problem) => problem.code().as_str(),
    }
}

/// The entry of a sign-in. It is recorded at the end, when its actor is known. It may outlive its request.
pub(crate) struct SignInAudit {
    recorder: Arc<AccessRecorder>,
    facts: AccessFacts,
}

impl SignInAudit {
    /// Returns the entry of a request.
    pub(crate) fn new(request: &HttpRequest, admission: &Admission) -> Result<Self, Problem> {
        // Nobody signs in if that could not be recorded.
        if admission.recorder.is_full() {
            return Err(Problem::unavailable());
        }
        let facts = facts(request, admission, AccessKind::SignIn, AccessActor::Nobody);
        Ok(Self { recorder: Arc::clone(&admission.recorder), facts })
    }

    /// Records that a caller has signed in.
    pub(crate) fn signed_in(self, caller: &Caller) {
        let subject = match caller.doer() {
            Doer::Key(id) => id.0,
            Doer::Person(id) => id.0,
        };
        let facts = AccessFacts { actor: actor(caller), subject: Some(subject), ..self.facts };
        BegunAccess::new(self.recorder, facts).end(DONE.to_owned());
    }

    /// Records that nobody has signed in, and why. `person` is the one whose passkey was used.
    pub(crate) fn refused(self, outcome: &str, person: Option<PersonId>) {
        let facts = AccessFacts { subject: person.map(|person| person.0), ..self.facts };
        BegunAccess::new(self.recorder, facts).end(outcome.to_owned());
    }
}

/// An admitted request that uses an order: its caller, and the access that it leaves.
pub(crate) struct Admitted {
    caller: Arc<Caller>,
    access: BegunAccess,
}

impl Admitted {
    pub(crate) fn caller(&self) -> &Arc<Caller> {
        &self.caller
    }

    pub(crate) fn owner(&self) -> Owner {
        self.caller.owner()
    }

    pub(crate) fn access(&self) -> &BegunAccess {
        &self.access
    }

    /// Returns the side that asks for a change, with its access.
    pub(crate) fn changer(&self) -> Changer {
        Changer { access: Some(self.access.clone()), ..Changer::of(&self.caller) }
    }
}

/// A use case of orders, which only an admitted request with an audit entry can call.
pub struct Audited<T>(T);

impl<T> Audited<T> {
    /// Demands an audit entry of each call of a use case.
    pub fn new(use_case: T) -> Self {
        Self(use_case)
    }

    /// Returns the use case for a request.
    pub(crate) fn by(&self, _: &Admitted) -> &T {
        &self.0
    }
}
