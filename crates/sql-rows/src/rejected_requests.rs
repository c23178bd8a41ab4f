//! Rows of rejected requests.

use std::collections::BTreeMap;

use diesel::{
    dsl::{self, auto_type, sql},
    expression::{SqlLiteral, UncheckedBind},
    prelude::*,
    sql_types::{BigInt, Bool, Text},
};
use domain::{
    access::RunId,
    api_key::ApiKeyId,
    ports::MailClaim,
    rejected::{MAIL_EVERY, Rejected},
};
use time::OffsetDateTime;

use crate::{
    Instant, OneOf, Utc, row_limit,
    schema::{api_keys, rejected_requests},
};

/// A count of rejected requests.
#[derive(Insertable, Queryable, Selectable)]
#[diesel(table_name = rejected_requests)]
pub struct RejectedRow {
    api_key_id: i64,
    at: Utc,
    code: String,
    run: i64,
    requests: i64,
    faults: String,
    request_ids: String,
}

/// The columns of a count that grow.
#[derive(AsChangeset)]
#[diesel(table_name = rejected_requests)]
pub struct GrownColumns {
    requests: i64,
    faults: String,
    request_ids: String,
}

/// A count, and how many of its requests a mail has told of.
#[derive(Queryable, Selectable)]
#[diesel(table_name = rejected_requests)]
pub struct UntoldRow {
    #[diesel(embed)]
    row: RejectedRow,
    told: i64,
}

impl From<&Rejected> for RejectedRow {
    fn from(count: &Rejected) -> Self {
        let GrownColumns { requests, faults, request_ids } = GrownColumns::from(count);
        Self {
            api_key_id: count.key.0,
            at: Utc(count.at),
            code: count.code.clone(),
            run: count.run.0,
            requests,
            faults,
            request_ids,
        }
    }
}

impl From<&Rejected> for GrownColumns {
    fn from(count: &Rejected) -> Self {
        Self {
            requests: stored_requests(count),
            // Texts become JSON without an error.
            faults: serde_json::to_string(&count.faults).unwrap_or_default(),
            request_ids: serde_json::to_string(&count.request_ids).unwrap_or_default(),
        }
    }
}

impl UntoldRow {
    /// Returns the count of the untold requests. What another program has made unreadable is left out: the number
    /// stays.
    pub fn into_untold(self) -> Rejected {
        let Self { row, told } = self;
        let request_ids: Vec<String> = serde_json::from_str(&row.request_ids).unwrap_or_default();
        let told_ids = usize::try_from(told).unwrap_or(usize::MAX);
        Rejected {
            key: ApiKeyId(row.api_key_id),
            at: row.at.0,
            code: row.code,
            run: RunId(row.run),
            requests: row.requests.saturating_sub(told).unsigned_abs(),
            faults: serde_json::from_str(&row.faults).unwrap_or_default(),
            request_ids: request_ids.into_iter().skip(told_ids).collect(),
        }
    }
}

/// Returns the number of requests of a count as a column has it.
pub fn stored_requests(count: &Rejected) -> i64 {
    i64::try_from(count.requests).unwrap_or(i64::MAX)
}

/// Returns numbers by code.
pub fn by_code(rows: Vec<(String, i64)>) -> BTreeMap<String, u64> {
    rows.into_iter().map(|(code, requests)| (code, requests.unsigned_abs())).collect()
}

/// Selects the numbers of rejected requests of a key by code, of counts that began after an instant.
#[auto_type(no_type_alias)]
pub fn counts_of(key: ApiKeyId, after: OffsetDateTime) -> _ {
    let key: i64 = key.0;
    let after: Utc = Utc(after);
    let requests: SqlLiteral<BigInt> = all_requests();
    rejected_requests::table
        .filter(rejected_requests::api_key_id.eq(key).and(rejected_requests::at.gt(after)))
        .group_by(rejected_requests::code)
        .select((rejected_requests::code, requests))
}

fn all_requests() -> SqlLiteral<BigInt> {
    // A sum of this type is a decimal number on PostgreSQL.
    sql("CAST(sum(requests) AS bigint)")
}

/// Selects the contacts whose mail may be claimed, the longest waiting first.
#[auto_type(no_type_alias)]
pub fn contacts_to_tell(claim: MailClaim) -> _ {
    let rejected_until: Utc = Utc(claim.rejected_until);
    let is_untold = rejected_requests::told.lt(rejected_requests::requests);
    let is_free: IsFree = is_free(claim.now);
    rejected_requests::table
        .inner_join(api_keys::table.on(api_keys::id.eq(rejected_requests::api_key_id)))
        .filter(is_untold)
        .filter(rejected_requests::at.le(rejected_until))
        .filter(api_keys::contact.is_not_null())
        .filter(is_free)
        .order(rejected_requests::at)
        .select(api_keys::contact)
        .limit(1_i64)
}

type BoundInstant<E> = UncheckedBind<E, dsl::AsExprOf<Utc, Instant>>;

type IsFree = SqlLiteral<Bool, BoundInstant<SqlLiteral<Bool, BoundInstant<SqlLiteral<Bool>>>>>;

/// Tells contacts of which no key has a claim, nor had a mail within the hour.
fn is_free(now: OffsetDateTime) -> IsFree {
    sql::<Bool>(
        "NOT EXISTS (SELECT 1 FROM api_keys AS other WHERE lower(other.contact) = lower(api_keys.contact) \
            AND other.next_rejected_mail_at > ",
    )
    .bind::<Instant, _>(Utc(now))
    .sql(" AND other.next_rejected_mail_at <= ")
    .bind::<Instant, _>(Utc(now.saturating_add(MAIL_EVERY * 2)))
    .sql(")")
}

/// Selects the keys with a contact, by identifier.
#[auto_type(no_type_alias)]
pub fn keys_of_contact(contact: String) -> _ {
    let is_of_contact: IsOfContact = is_of_contact(contact);
    api_keys::table.filter(is_of_contact).order(api_keys::id).select(api_keys::id)
}

type IsOfContact = SqlLiteral<Bool, UncheckedBind<SqlLiteral<Bool>, dsl::AsExprOf<String, Text>>>;

fn is_of_contact(contact: String) -> IsOfContact {
    sql::<Bool>("lower(contact) = lower(").bind::<Text, _>(contact).sql(")")
}

/// Returns the identifiers of keys as columns have them.
pub fn key_ids(keys: &[ApiKeyId]) -> Vec<i64> {
    keys.iter().map(|key| key.0).collect()
}

/// Selects the counts of keys with untold requests, the oldest first.
#[auto_type(no_type_alias)]
pub fn untold_of(keys: &[ApiKeyId], limit: usize) -> _ {
    let keys: OneOf<i64> = OneOf::new("rejected_requests.api_key_id", key_ids(keys));
    let limit: i64 = row_limit(limit);
    rejected_requests::table
        .filter(keys)
        .filter(rejected_requests::told.lt(rejected_requests::requests))
        .order(rejected_requests::at)
        .limit(limit)
}

/// Selects a count.
#[auto_type(no_type_alias)]
pub fn count_row(count: &Rejected) -> _ {
    let key: i64 = count.key.0;
    let at: Utc = Utc(count.at);
    let code: String = count.code.clone();
    let run: i64 = count.run.0;
    rejected_requests::table
        .filter(rejected_requests::api_key_id.eq(key).and(rejected_requests::at.eq(at)))
        .filter(rejected_requests::code.eq(code).and(rejected_requests::run.eq(run)))
}
