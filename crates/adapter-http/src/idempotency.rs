//! Repeats of a request under one `Idempotency-Key` (draft-ietf-httpapi-idempotency-key-header):
//! the header, what is the same request, and the claim of one that is in flight.

use std::{
    collections::{BTreeMap, HashSet},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use actix_web::{HttpRequest, http::header::HeaderName, web};
use domain::{
    api_key::ApiKey,
    create_order::{CreateOrder, CreateOrderError},
    document::ReceivedDocument,
    idempotency::{Answered, Attempt, Claim, Claimed, Fingerprint, IdempotencyKey, MAX_KEY_CHARS},
    order::OrderRequest,
    ports::error_chain,
};
use serde_json::Value;
use sfv::{BareItem, Item, Parser};
use sha2::{Digest as _, Sha256};
use tokio::{task::JoinHandle, time::timeout};
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use crate::{
    api::Api,
    problem::{Problem, logged},
};

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// Says that an answer is that of an earlier request.
pub(crate) const IDEMPOTENCY_REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// Pause before a claim is extended: a third of what it holds.
const EXTENSION: Duration = Duration::from_secs(5);

/// The claim of a request to its key, if it has one.
pub(crate) fn claim(
    request: &HttpRequest,
    key: &ApiKey,
    api: &Api,
) -> Result<Option<Claim>, Problem> {
    let mut values = request.headers().get_all(IDEMPOTENCY_KEY);
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(Problem::malformed("The header Idempotency-Key is given twice."));
    }
    let key = text(value.as_bytes()).and_then(|text| IdempotencyKey::new(key.client(), &text));
    // What the client sent is not repeated: it may be anything.
    let malformed = || {
        Problem::malformed(format!(
            "The header Idempotency-Key must be 1 to {MAX_KEY_CHARS} visible ASCII characters, in quotes or, without spaces, commas, semicolons, \
             quotes and backslashes, bare."
        ))
    };
    Ok(Some(Claim::new(key.ok_or_else(malformed)?, &*api.entropy)))
}

/// The key itself: a String of RFC 9651 section 3.3.3, or, as many clients send it, the bare
/// characters.
pub(crate) fn text(value: &[u8]) -> Option<String> {
    let value = value.trim_ascii();
    if value.first() == Some(&b'"') {
        match Parser::new(value).parse::<Item>().ok()?.bare_item {
            BareItem::String(text) => Some(text.into()),
            _ => None,
        }
    } else {
        let plain = |byte: &u8| byte.is_ascii_graphic() && !b"\",;\\".contains(byte);
        let text = value.iter().all(plain).then(|| value.to_vec())?;
        String::from_utf8(text).ok()
    }
}

/// The attempt of a request that was read: the same as another when operation, fields and documents
/// are the same, however they are written.
pub(crate) fn attempt(
    claim: Claim,
    operation: &str,
    request: &OrderRequest,
    documents: &[ReceivedDocument],
) -> Result<Attempt, Problem> {
    let fields =
        serde_json::to_value(request).map_err(|error| logged(&error, Problem::internal()))?;
    let mut hash = Sha256::new();
    hash_text(&mut hash, operation);
    hash_value(&mut hash, &fields);
    for document in documents {
        hash_text(&mut hash, &document.name_as_sent);
        hash.update(document.file.size.to_be_bytes());
        hash.update(document.file.sha256.0);
    }
    Ok(Attempt { claim, fingerprint: Fingerprint(hash.finalize().into()) })
}

/// With its length, so that no two sequences of texts look the same.
fn hash_text(hash: &mut Sha256, text: &str) {
    hash.update((text.len() as u64).to_be_bytes());
    hash.update(text);
}

/// Members in the order of their names, texts without white space around them, and nothing that is
/// absent: a field that a later version knows changes nothing for requests without it.
fn hash_value(hash: &mut Sha256, value: &Value) {
    match value {
        Value::Object(members) => {
            let members: BTreeMap<_, _> =
                members.iter().filter(|(_, member)| !is_absent(member)).collect();
            hash.update([b'{']);
            hash.update((members.len() as u64).to_be_bytes());
            for (name, member) in members {
                hash_text(hash, name);
                hash_value(hash, member);
            }
        }
        Value::String(text) => {
            hash.update(b"\"");
            hash_text(hash, text.trim());
        }
        scalar => hash_text(hash, &scalar.to_string()),
    }
}

fn is_absent(value: &Value) -> bool {
    value.is_null() || value.as_str().is_some_and(|text| text.trim().is_empty())
}

/// Keys of requests without documents that this process is at. It spares the database the wait of
/// one for the other; that one order is placed does not depend on it.
#[derive(Clone, Default)]
pub struct Underway(Arc<Mutex<HashSet<IdempotencyKey>>>);

impl Underway {
    /// The key's turn, until it is dropped.
    pub(crate) fn begin(&self, key: &IdempotencyKey) -> Result<Turn, Problem> {
        let begun = self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(key.clone());
        if begun {
            Ok(Turn { underway: self.clone(), key: key.clone() })
        } else {
            Err(CreateOrderError::InFlight { retry_after: 1 }.into())
        }
    }
}

/// A request that is under way.
pub(crate) struct Turn {
    underway: Underway,
    key: IdempotencyKey,
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.underway.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.key);
    }
}

/// A claim of a request in flight, extended until its end. Dropped with its request, it is
/// released.
pub(crate) struct InFlight {
    api: web::Data<Api>,
    claim: Claim,
    ended: CancellationToken,
    extending: Option<JoinHandle<()>>,
}

/// How a request with a key begins.
pub(crate) enum Begun {
    /// It has the key.
    First(InFlight),
    /// A request was answered under the key, which this one may repeat.
    Again(Answered),
}

impl InFlight {
    /// Claims the key of a request.
    pub(crate) async fn begin(api: &web::Data<Api>, claim: &Claim) -> Result<Begun, Problem> {
        let ended = CancellationToken::new();
        let extending =
            extend(api.create_order.clone(), claim.clone(), ended.clone()).in_current_span();
        // There before the claim is, so that a claim whose client goes away meanwhile is released.
        let own = Self {
            api: api.clone(),
            claim: claim.clone(),
            ended,
            extending: Some(api.runtime.spawn(extending)),
        };
        match api.create_order.claim(claim).await {
            Ok(Claimed::Own) => Ok(Begun::First(own)),
            Ok(Claimed::Answered(answered)) => {
                own.answered();
                Ok(Begun::Again(answered))
            }
            Err(error @ CreateOrderError::InFlight { .. }) => {
                own.answered();
                Err(error.into())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The key has passed to an order, or was never this request's.
    pub(crate) fn answered(mut self) {
        self.ended.cancel();
        self.extending = None;
    }

    /// The request was refused: when this returns, the key is free for the next attempt.
    pub(crate) async fn release(mut self) {
        if let Some(releasing) = self.give_up() {
            // Like everything that runs beside requests, it logs its own failures.
            let _ = releasing.await;
        }
    }

    /// On its own, because who would wait for it may be gone.
    fn give_up(&mut self) -> Option<JoinHandle<()>> {
        let extending = self.extending.take()?;
        self.ended.cancel();
        let (create_order, claim) = (self.api.create_order.clone(), self.claim.clone());
        let release = async move {
            // An extension that is under way would claim the key anew.
            let _ = extending.await;
            if let Err(error) = create_order.release(&claim).await {
                tracing::warn!(
                    error = error_chain(&error),
                    "an idempotency key was not released, and stays in flight for some seconds"
                );
            }
        };
        Some(self.api.placing.spawn_on(release.in_current_span(), &self.api.runtime))
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.give_up();
    }
}

/// A claim that could not be extended, or was lost, may end; that one order is placed does not
/// depend on it.
async fn extend(create_order: CreateOrder, claim: Claim, ended: CancellationToken) {
    while timeout(EXTENSION, ended.cancelled()).await.is_err() {
        if let Err(error) = create_order.claim(&claim).await {
            tracing::debug!(
                error = error_chain(&error),
                "the claim of an idempotency key was not extended"
            );
        }
    }
}

#[cfg(test)]
#[path = "idempotency_tests.rs"]
mod tests;
