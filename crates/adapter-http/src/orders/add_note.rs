//! `POST /api/order/{order_id}/notes`: either side adds a note to an order.

use actix_web::{HttpRequest, HttpResponse, http::header, web};
use domain::{
    order::change_request::{NoteBody, NoteRequest},
    use_cases::{add_note::AddedNote, order_error::OrderError, people::name_doers::Viewer},
};

use crate::{
    admission::{
        audit::Audit,
        fingerprint::attempt,
        idempotency_key::{self, IDEMPOTENCY_REPLAYED},
        preconditions::Preconditions,
        rate_limit::Policy,
    },
    body::json,
    orders::{change::scope_of_either_side, path, record::NoteRecord, version},
    request::notes::note,
    respond::answer::Answer,
    state::State,
};

pub(crate) async fn add(
    audit: Audit,
    preconditions: Preconditions,
    request: HttpRequest,
    payload: web::Payload,
    api: State,
) -> Answer {
    let scope = scope_of_either_side;
    let admitted = audit.admit_for(&request, &api.admission, Policy::Changes, scope).await?;
    let caller = admitted.caller();
    let id = path::order_id(&request)?;
    note(&request, |notes| notes.order = Some(id));
    let claim = idempotency_key::claim(&request, caller, &*api.entropy)?;
    let body: NoteBody = json::read_object(&request, payload, &api.json_bodies, caller).await?;
    let sent = NoteRequest::parse(body).map_err(OrderError::rejected)?;
    api.answers.hold(&request, caller.party()).await?;
    // It must not change: stored fingerprints contain it.
    let operation = format!("note of {}", id.0);
    let attempt = claim.map(|claim| attempt(claim, &operation, &sent.text, &[])).transpose()?;
    let adding = api.add_note.by(&admitted).clone();
    let (changer, precondition) = (admitted.changer(), version::of_order(&preconditions));
    let work = async move { adding.add(changer, id, sent, precondition, attempt.as_ref()).await };
    let AddedNote { note: added, replayed } = api.detached.run_to_end(work, drop).await?;
    let messages = ["note added", "note added before, answered again"];
    note(&request, |notes| notes.message = Some(messages[usize::from(replayed)]));
    let mut answer = HttpResponse::Created();
    answer.insert_header((header::LOCATION, path::of_notes(&api.base_path, id)));
    if replayed {
        api.metrics.replays.inc();
        answer.insert_header((IDEMPOTENCY_REPLAYED, "true"));
    }
    let viewer = Viewer::Side(admitted.owner().party);
    let names = api.name_doers.named(viewer, [(added.author, added.by)]).await?;
    Ok(answer.json(NoteRecord::of(&added, &names)))
}

#[cfg(test)]
#[path = "add_note_tests.rs"]
mod tests;
