//! Rows of idempotency keys.

use diesel::{
    dsl::{AsExprOf, auto_type, sql},
    expression::{SqlLiteral, UncheckedBind},
    prelude::*,
    sql_types::{BigInt, Binary, Bool},
};
use domain::{
    api_key::Owner,
    idempotency::{
        AddedRange, Answered, Claim, Fingerprint, IdempotencyKey, IdempotentRequest, KeyUse,
    },
    order::OrderId,
};
use time::OffsetDateTime;

use crate::{
    Unreadable, Utc, digest,
    instant::farthest,
    party::{party_of, stored_party},
    schema::idempotency_keys,
};

/// An idempotency key, claimed or answered.
#[derive(AsChangeset, Insertable)]
// Binds `NULL` for absent values, so the statement text is constant and stays prepared.
#[diesel(table_name = idempotency_keys, primary_key(party, is_test, digest))]
#[diesel(treat_none_as_default_value = false, treat_none_as_null = true)]
pub struct KeyRow {
    party: i64,
    is_test: bool,
    digest: Vec<u8>,
    token: Vec<u8>,
    fingerprint: Option<Vec<u8>>,
    order_id: Option<i64>,
    taken_at: Utc,
    kept_until: Utc,
    first_document: Option<i32>,
    documents: Option<i32>,
    documents_stored: Option<i32>,
}

impl KeyRow {
    /// Returns the row of a claim.
    pub fn claimed(Claim { key, token }: &Claim, taken_at: Utc, kept_until: Utc) -> Self {
        Self {
            party: stored_party(key.owner.party),
            is_test: key.owner.is_test,
            digest: key.digest.to_vec(),
            token: token.0.to_vec(),
            fingerprint: None,
            order_id: None,
            taken_at,
            kept_until,
            first_document: None,
            documents: None,
            documents_stored: None,
        }
    }

    /// Returns the row of a request that created an order, changed it or added documents to it. The instant is that
    /// of the change, or as of which the order was so already.
    pub fn answered(
        IdempotentRequest { attempt, kept_until }: &IdempotentRequest,
        order_id: i64,
        at: Utc,
        added: Option<AddedRange>,
    ) -> Self {
        // An order has few documents.
        let number = |number: u32| i32::try_from(number).unwrap_or(i32::MAX);
        Self {
            fingerprint: Some(attempt.fingerprint.0.to_vec()),
            order_id: Some(order_id),
            first_document: added.map(|added| number(added.first_position)),
            documents: added.map(|added| number(added.count)),
            documents_stored: added.map(|added| number(added.total)),
            ..Self::claimed(&attempt.claim, at, Utc(*kept_until))
        }
    }
}

/// Selects the key of a claim if it is in use at an instant: a request was answered under it, or a
/// request is in progress under another claim. In PostgreSQL, the function
/// `idempotency_key_in_use` repeats this rule for the trigger that protects the rows.
#[auto_type(no_type_alias)]
pub fn key_in_use(claim: &Claim, now: Utc) -> _ {
    let key: (i64, bool, Vec<u8>) = key_row(&claim.key);
    let token: Vec<u8> = claim.token.0.to_vec();
    let farthest: Utc = farthest(now);
    let other_request =
        idempotency_keys::token.ne(token).and(idempotency_keys::kept_until.le(farthest));
    let is_in_use = idempotency_keys::order_id.is_not_null().or(other_request);
    idempotency_keys::table.find(key).filter(idempotency_keys::kept_until.gt(now)).filter(is_in_use)
}

/// The use of an idempotency key.
#[derive(Queryable, Selectable)]
#[diesel(table_name = idempotency_keys)]
pub struct KeyUseRow {
    party: i64,
    fingerprint: Option<Vec<u8>>,
    order_id: Option<i64>,
    taken_at: Utc,
    kept_until: Utc,
    first_document: Option<i32>,
    documents: Option<i32>,
    documents_stored: Option<i32>,
}

impl KeyUseRow {
    /// Returns the use.
    pub fn into_use(self) -> Result<KeyUse, Unreadable> {
        let unreadable = |column| of_party(self.party, column);
        let (Some(order_id), Some(fingerprint)) = (self.order_id, self.fingerprint) else {
            return Ok(KeyUse::InProgress { until: self.kept_until.0 });
        };
        let fingerprint = Fingerprint(digest(fingerprint, || unreadable("fingerprint"))?);
        let number = |number: i32| u32::try_from(number).map_err(|_| unreadable("documents"));
        let range = |((first, count), total)| {
            let (first_position, count, total) = (number(first)?, number(count)?, number(total)?);
            Ok(AddedRange { first_position, count, total })
        };
        let added = self.first_document.zip(self.documents).zip(self.documents_stored);
        let added = added.map(range).transpose()?;
        let order_id = OrderId(order_id);
        let (added, changed_at) = match added {
            Some(AddedRange::NOTHING) => (None, Some(self.taken_at.0)),
            added => (added, None),
        };
        Ok(KeyUse::Answered(Answered { fingerprint, order_id, added, changed_at }))
    }
}

/// The primary key of an idempotency key.
pub type KeyColumns = (i64, bool, Vec<u8>);

type Bound<E, V, T> = SqlLiteral<Bool, UncheckedBind<E, AsExprOf<V, T>>>;

type KeyComparison =
    Bound<Bound<Bound<SqlLiteral<Bool>, i64, BigInt>, bool, Bool>, Vec<u8>, Binary>;

/// Returns a primary key before all others.
pub fn first_key() -> KeyColumns {
    (i64::MIN, false, Vec::new())
}

/// Returns the primary key of an idempotency key.
pub fn key_row(key: &IdempotencyKey) -> KeyColumns {
    (stored_party(key.owner.party), key.owner.is_test, key.digest.to_vec())
}

/// Compares primary keys as rows, which the databases look up in the index. diesel has no such
/// comparison.
fn compare_key(way: &str, (party, is_test, digest): KeyColumns) -> KeyComparison {
    let key = sql::<Bool>(&format!("(party, is_test, digest) {way} ("));
    let key = key.bind::<BigInt, _>(party).sql(", ").bind::<Bool, _>(is_test);
    key.sql(", ").bind::<Binary, _>(digest).sql(")")
}

/// Selects the keys after a key, in their order.
#[auto_type(no_type_alias)]
pub fn keys_after(key: KeyColumns) -> _ {
    let is_later: KeyComparison = compare_key(">", key);
    idempotency_keys::table.filter(is_later).order((
        idempotency_keys::party,
        idempotency_keys::is_test,
        idempotency_keys::digest,
    ))
}

/// Selects the keys after a key up to a last one that are free at an instant.
#[auto_type(no_type_alias)]
pub fn free_keys(after: KeyColumns, last: KeyColumns, now: OffsetDateTime) -> _ {
    let now: Utc = Utc(now);
    let is_later: KeyComparison = compare_key(">", after);
    let is_before: KeyComparison = compare_key("<=", last);
    idempotency_keys::table
        .filter(idempotency_keys::kept_until.le(now))
        .filter(is_later)
        .filter(is_before)
}

/// Selects the key of a claim that no request was answered under.
#[auto_type(no_type_alias)]
pub fn own_claim(claim: &Claim) -> _ {
    let key: (i64, bool, Vec<u8>) = key_row(&claim.key);
    let token: Vec<u8> = claim.token.0.to_vec();
    idempotency_keys::table
        .find(key)
        .filter(idempotency_keys::order_id.is_null().and(idempotency_keys::token.eq(token)))
}

/// Returns the idempotency key of a primary key.
pub fn key_of((party, is_test, bytes): KeyColumns) -> Result<IdempotencyKey, Unreadable> {
    let digest = digest(bytes, || of_party(party, "digest"))?;
    let owner = Owner { party: party_of(party), is_test };
    Ok(IdempotencyKey { owner, digest })
}

fn of_party(party: i64, column: &str) -> Unreadable {
    Unreadable::new("idempotency_keys", &format!("of {}", party_of(party)), &column)
}
