//! Rows of accesses.

use std::cmp::Reverse;

use diesel::{
    dsl::{self, auto_type},
    prelude::*,
};
use domain::{
    access::{
        Access, AccessActor, AccessFacts, AccessId, AccessKind, GRANTED, PublicAccessId, RunId,
    },
    api_key::{ApiKeyId, ClientId, Party},
    order::{OrderId, SigningServiceId},
    person::{Doer, PersonId},
    ports::BusyReader,
};
use time::{OffsetDateTime, PrimitiveDateTime};

use crate::{
    Utc,
    party::{party_of, stored_party},
    row_limit,
    schema::{accesses, orders},
};

/// An access.
#[derive(Insertable, Queryable, Selectable)]
// Binds `NULL` for absent values, so the statement text is constant and stays prepared.
#[diesel(table_name = accesses, treat_none_as_default_value = false)]
#[expect(missing_docs, reason = "the columns, which the migrations describe")]
pub struct AccessRow {
    pub at: Utc,
    pub run: i64,
    pub number: i64,
    pub kind: String,
    pub order_id: Option<i64>,
    pub orders: Option<i64>,
    pub position: Option<i64>,
    pub party: Option<i64>,
    pub api_key_id: Option<i64>,
    pub command: Option<String>,
    pub os_user: Option<String>,
    pub address: Option<String>,
    pub request_id: Option<String>,
    pub outcome: String,
    /// The order of a refused request of a key, until a statement has found that its party is a side of it.
    pub asked_order_id: Option<i64>,
    pub person_id: Option<i64>,
    pub subject_id: Option<i64>,
}

impl From<&Access> for AccessRow {
    fn from(access: &Access) -> Self {
        let Access { id, facts, outcome } = access;
        let (mut api_key_id, mut person_id, mut party) = (None, None, None);
        let (mut command, mut os_user) = (None, None);
        match &facts.actor {
            AccessActor::Key { id, party: of } => {
                (api_key_id, party) = (Some(id.0), Some(stored_party(*of)));
            }
            AccessActor::Person { id, party: of } => {
                (person_id, party) = (Some(id.0), Some(stored_party(*of)));
            }
            AccessActor::Operator { command: by, user } => {
                (command, os_user) = (Some(by.clone()), Some(user.clone()));
            }
            AccessActor::Nobody => {}
        }
        let order = facts.order.map(|order| order.0);
        let (order_id, asked_order_id) =
            if facts.are_refused(outcome) { (None, order) } else { (order, None) };
        Self {
            at: Utc(id.at),
            run: id.run.0,
            number: stored_number(id.number),
            kind: facts.kind.as_str().to_owned(),
            order_id,
            orders: facts.orders.map(i64::from),
            position: facts.position.map(i64::from),
            party,
            api_key_id,
            command,
            os_user,
            address: facts.address.map(|address| address.to_string()),
            request_id: facts.request_id.clone(),
            outcome: outcome.clone(),
            asked_order_id,
            person_id,
            subject_id: facts.subject,
        }
    }
}

impl AccessRow {
    /// Returns the access. A value that this version cannot parse becomes `None`, so that one odd row does not
    /// hide the list.
    pub fn into_access(self) -> Access {
        let count = |stored: Option<i64>| stored.and_then(|stored| u32::try_from(stored).ok());
        let party = self.party.map(party_of);
        let actor = match (self.api_key_id, self.person_id, party) {
            (Some(id), _, Some(party)) => AccessActor::Key { id: ApiKeyId(id), party },
            (_, Some(id), Some(party)) => AccessActor::Person { id: PersonId(id), party },
            _ if self.command.is_none() => AccessActor::Nobody,
            _ => AccessActor::Operator {
                command: self.command.unwrap_or_default(),
                user: self.os_user.unwrap_or_default(),
            },
        };
        Access {
            id: AccessId {
                at: self.at.0,
                run: RunId(self.run),
                number: self.number.unsigned_abs(),
            },
            facts: AccessFacts {
                // The query selects the known kinds.
                kind: AccessKind::from_stored(&self.kind).unwrap_or(AccessKind::Read),
                order: self.order_id.or(self.asked_order_id).map(OrderId),
                orders: count(self.orders),
                position: count(self.position),
                subject: self.subject_id,
                actor,
                address: self.address.as_deref().and_then(|text| text.parse().ok()),
                request_id: self.request_id,
            },
            outcome: self.outcome,
        }
    }
}

/// Returns how a number is stored. No run has more than `i64::MAX`.
pub(crate) fn stored_number(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Selects the accesses before one, the newest first; of the kinds that this version knows.
#[auto_type(no_type_alias)]
pub fn accesses_before(before: Option<AccessId>, limit: usize) -> _ {
    let (at, run, number): (Utc, i64, i64) = place(before.unwrap_or(LAST));
    let kinds: Vec<&'static str> = AccessKind::ALL.map(|(_, name)| name).to_vec();
    let limit: i64 = row_limit(limit);
    accesses::table
        .filter(accesses::at.le(at))
        .filter(
            accesses::at
                .lt(at)
                .or(accesses::run.lt(run))
                .or(accesses::run.eq(run).and(accesses::number.lt(number))),
        )
        .filter(accesses::kind.eq_any(kinds))
        .order((accesses::at.desc(), accesses::run.desc(), accesses::number.desc()))
        .limit(limit)
}

/// Selects the accesses from one on, and it, the newest first; of the kinds that this version knows.
#[auto_type(no_type_alias)]
pub fn accesses_from(first: Option<PublicAccessId>, limit: usize) -> _ {
    let first: PublicAccessId = first.unwrap_or(PublicAccessId { at: LAST.at, run: LAST.run });
    let (at, run): (Utc, i64) = (Utc(first.at), first.run.0);
    let kinds: Vec<&'static str> = AccessKind::ALL.map(|(_, name)| name).to_vec();
    // The first is not of the page, if there is one.
    let limit: i64 = row_limit(limit.saturating_add(1));
    accesses::table
        .filter(accesses::at.le(at))
        .filter(accesses::at.lt(at).or(accesses::run.le(run)))
        .filter(accesses::kind.eq_any(kinds))
        .order((accesses::at.desc(), accesses::run.desc(), accesses::number.desc()))
        .limit(limit)
}

/// Selects the order of a refused request, if the party of its key is a side of it.
#[auto_type(no_type_alias)]
pub fn order_of_side(order: i64, party: i64) -> _ {
    let service: i64 = party.saturating_neg();
    let is_side = orders::client_id.eq(party).or(orders::signing_service_id.eq(service));
    orders::table.find(order).filter(is_side).select(orders::id)
}

/// Returns up to `limit` of these accesses, the newest first.
pub fn newest(mut rows: Vec<AccessRow>, limit: usize) -> Vec<Access> {
    rows.sort_unstable_by_key(|row| Reverse((row.at.0, row.run, row.number)));
    rows.truncate(limit);
    rows.into_iter().map(AccessRow::into_access).collect()
}

/// Returns up to `limit` of the accesses that [`accesses_from`] has selected, without the cursor; `None` if
/// they do not begin with it, because it is not one of them.
pub fn page_after(
    cursor: Option<PublicAccessId>,
    rows: Vec<AccessRow>,
    limit: usize,
) -> Option<Vec<Access>> {
    let mut found = rows.into_iter().map(AccessRow::into_access);
    if let Some(cursor) = cursor {
        found.next().filter(|first| PublicAccessId::from(first.id) == cursor)?;
    }
    Some(found.take(limit).collect())
}

/// The condition of an access to an order by one of its sides, or by an operator. Rows of version 0.1.0 may be
/// those of strangers.
#[auto_type(no_type_alias)]
pub fn sides_and_operators(order: OrderId, client: i64, service: i64) -> _ {
    let order: i64 = order.0;
    let sides: Vec<i64> = sides(client, service);
    let hidden: Vec<&'static str> = AccessKind::OF_OPERATORS.map(AccessKind::as_str).to_vec();
    accesses::order_id
        .eq(order)
        .and(accesses::kind.ne_all(hidden))
        .and(accesses::party.is_null().or(accesses::party.eq_any(sides)))
}

fn sides(client: i64, service: i64) -> Vec<i64> {
    let service = Party::Service(SigningServiceId(service));
    vec![stored_party(Party::Client(ClientId(client))), stored_party(service)]
}

/// Is after every access.
const LAST: AccessId =
    AccessId { at: PrimitiveDateTime::MAX.assume_utc(), run: RunId(i64::MAX), number: u64::MAX };

fn place(id: AccessId) -> (Utc, i64, i64) {
    (Utc(id.at), id.run.0, stored_number(id.number))
}

/// Selects the places of the oldest accesses before an instant.
#[auto_type(no_type_alias)]
pub fn oldest_accesses(before: OffsetDateTime, limit: usize) -> _ {
    let before: Utc = Utc(before);
    let limit: i64 = row_limit(limit);
    accesses::table
        .filter(accesses::at.lt(before))
        .order((accesses::at, accesses::run, accesses::number))
        .limit(limit)
        .select((accesses::at, accesses::run, accesses::number))
}

/// Selects the accesses up to a place.
#[auto_type(no_type_alias)]
pub fn accesses_up_to(place: (Utc, i64, i64)) -> _ {
    let (at, run, number): (Utc, i64, i64) = place;
    accesses::table.filter(accesses::at.le(at)).filter(
        accesses::at
            .lt(at)
            .or(accesses::run.lt(run))
            .or(accesses::run.eq(run).and(accesses::number.le(number))),
    )
}

/// Selects the keys and the people that read over `orders` different orders between two instants, and how many.
#[auto_type(no_type_alias)]
pub fn busy_rows(between: (OffsetDateTime, OffsetDateTime), orders: u64) -> _ {
    let since: Utc = Utc(between.0);
    let until: Utc = Utc(between.1);
    let orders: i64 = stored_number(orders);
    let kinds: Vec<&'static str> = AccessKind::SHOWING.map(AccessKind::as_str).to_vec();
    let outcomes: Vec<&'static str> = GRANTED.to_vec();
    accesses::table
        .filter(accesses::at.ge(since))
        // A clock that was ahead for a while leaves rows in the future: they are of no hour yet.
        .filter(accesses::at.le(until))
        .filter(accesses::kind.eq_any(kinds))
        .filter(accesses::outcome.eq_any(outcomes))
        .filter(accesses::api_key_id.is_not_null().or(accesses::person_id.is_not_null()))
        .group_by((accesses::api_key_id, accesses::person_id))
        .having(dsl::count(accesses::order_id).aggregate_distinct().gt(orders))
        .select((
            accesses::api_key_id,
            accesses::person_id,
            dsl::count(accesses::order_id).aggregate_distinct(),
        ))
}

/// Returns what [`busy_rows`] has selected: keys first, each by its identifier.
pub fn busy_readers(rows: Vec<(Option<i64>, Option<i64>, i64)>) -> Vec<BusyReader> {
    let reader = |(key, person, orders): (Option<i64>, Option<i64>, i64)| {
        let key = key.map(|id| Doer::Key(ApiKeyId(id)));
        let doer = key.or_else(|| person.map(|id| Doer::Person(PersonId(id))))?;
        Some(BusyReader { doer, orders: orders.unsigned_abs() })
    };
    let mut readers: Vec<_> = rows.into_iter().filter_map(reader).collect();
    // The databases disagree about the place of NULL.
    readers.sort_unstable_by_key(|reader| reader.doer);
    readers
}

#[cfg(test)]
mod tests {
    use domain::access::DONE;
    use time::macros::datetime;

    use super::*;

    /// Another program may have written them.
    #[test]
    fn odd_values_of_a_row_are_left_out() {
        let row = AccessRow {
            at: Utc(datetime!(2026-11-28 12:00 UTC)),
            run: 7,
            number: 1,
            kind: "read".to_owned(),
            order_id: Some(1),
            orders: Some(i64::MAX),
            position: Some(-1),
            party: None,
            api_key_id: None,
            command: None,
            os_user: None,
            address: Some("fe80::1%eth0".to_owned()),
            request_id: None,
            outcome: DONE.to_owned(),
            asked_order_id: None,
            person_id: None,
            subject_id: None,
        };
        let facts = row.into_access().facts;
        assert_eq!((facts.orders, facts.position, facts.address), (None, None, None));
        assert_eq!((facts.kind, facts.order), (AccessKind::Read, Some(OrderId(1))));
    }
}
