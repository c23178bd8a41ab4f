//! `GET /api/order/{order_id}/accesses`: a page of the reads and changes of an order.

use actix_web::HttpRequest;
use domain::{
    access::{Access, AccessActor, AccessFacts, PublicAccessId},
    api_key::Party,
    order::Actor,
    use_cases::{
        order_error::OrderError,
        people::name_doers::{DoerNames, Viewer},
    },
};
use serde::Serialize;

use crate::{
    admission::{audit::Audit, rate_limit::Policy},
    orders::path,
    request::notes::note,
    respond::{
        answer::Answer,
        instants::timestamp,
        list::{self, Others, Paging},
    },
    state::State,
};

pub(crate) async fn list(audit: Audit, request: HttpRequest, api: State) -> Answer {
    let admitted = audit.admit(&request, &api.admission, Policy::Reads).await?;
    let id = path::order_id(&request)?;
    note(&request, |notes| notes.order = Some(id));
    let (paging, after) = Paging::parse_older::<PublicAccessId>(request.query_string())?;
    let party = admitted.caller().party();
    let walk = api.walks.acquire(&request, party).await?;
    api.answers.hold(&request, party).await?;
    let reading = api.read_order.by(&admitted);
    let page = match reading.accesses(admitted.owner(), id, after, paging.limit).await {
        Err(OrderError::UnknownCursor) => {
            let detail = "must be the identifier of an access of this list";
            return Err(paging.unknown_cursor("unknown_entry", detail));
        }
        page => page?,
    };
    drop(walk);
    let (accesses, older) = page;
    let own = admitted.caller().party();
    let acts = accesses.iter().filter_map(|access| Some((side(access)?, access.doer())));
    let names = api.name_doers.named(Viewer::Side(own), acts).await?;
    let records = accesses.into_iter().map(|access| {
        let id = PublicAccessId::from(access.id);
        (id, AccessRecord::of(access, own, &names))
    });
    let others = Others { older, newer: false, stopped_at: None };
    list::page(&request, path::of_accesses(&api.base_path, id), &paging, others, records)
}

/// Returns the side of an access; `None` for one of an operator.
fn side(access: &Access) -> Option<Actor> {
    match access.facts.actor {
        AccessActor::Key { party, .. } | AccessActor::Person { party, .. } => Some(match party {
            Party::Client(_) => Actor::Client,
            Party::Service(_) => Actor::Service,
        }),
        AccessActor::Operator { .. } | AccessActor::Nobody => None,
    }
}

/// The record of an access. What tells one key or machine from another is only in those of the own side.
#[derive(Serialize)]
struct AccessRecord {
    id: String,
    at: String,
    kind: &'static str,
    position: Option<u32>,
    actor: &'static str,
    api_key_id: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    person_id: Option<i64>,
    /// The person or the key, for their own side.
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<String>,
    address: Option<String>,
    request_id: Option<String>,
    outcome: String,
}

impl AccessRecord {
    fn of(access: Access, own: Party, names: &DoerNames) -> Self {
        let acting = side(&access);
        let by = acting.and_then(|side| names.by(side, access.doer())).map(str::to_owned);
        let Access { id, facts, outcome } = access;
        let AccessFacts { kind, position, actor, address, request_id, .. } = facts;
        let acting = acting.unwrap_or(Actor::Operator).as_str();
        let (is_own, api_key, person) = match actor {
            AccessActor::Key { id, party } => (party == own, Some(id.0), None),
            AccessActor::Person { id, party } => (party == own, None, Some(id.0)),
            AccessActor::Operator { .. } | AccessActor::Nobody => (false, None, None),
        };
        Self {
            id: PublicAccessId::from(id).to_string(),
            at: timestamp(id.at),
            kind: kind.as_str(),
            position,
            actor: acting,
            api_key_id: api_key.filter(|_| is_own),
            person_id: person.filter(|_| is_own),
            by: by.filter(|_| is_own),
            address: address.filter(|_| is_own).map(|it| it.to_string()),
            request_id: request_id.filter(|_| is_own),
            outcome,
        }
    }
}

#[cfg(test)]
#[path = "list_accesses_tests.rs"]
mod tests;
