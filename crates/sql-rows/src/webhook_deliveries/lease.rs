//! Which webhook deliveries are leased, and when an endpoint is due again.

use std::collections::HashMap;

use diesel::{
    backend::Backend,
    expression::{AppearsOnTable, Expression, ValidGrouping, is_aggregate},
    prelude::*,
    query_builder::{AstPass, QueryFragment, QueryId},
    serialize::ToSql,
    sql_types::{Bool, HasSqlType, Nullable},
};
use domain::{
    ports::{WebhookLease, WebhookSlots},
    webhook::{EventType, PER_ENDPOINT},
};
use time::Duration;

use crate::{
    Instant, Utc,
    instant::farthest,
    party::{party_of, stored_party},
    webhook_deliveries::WebhookDeliveryRow,
    webhook_endpoints::TargetRow,
};

/// Most endpoints of each kind that a lease looks at, so that it is short.
pub const LOOKED_AT: usize = 128;

/// Delay after which a delivery that cannot be read is read again.
pub const UNREADABLE_DELAY: Duration = Duration::HOUR;

/// An endpoint that has something to do, and as many of its due deliveries as it may get, the longest
/// due first.
pub struct Waiting {
    /// The endpoint.
    pub target: TargetRow,
    /// The identifiers of the deliveries.
    pub due: Vec<i64>,
}

/// Returns the parties that get no further slot.
pub fn full_parties(slots: &WebhookSlots, is_proven: bool) -> Vec<i64> {
    let full = slots.busy.keys().filter(|party| !slots.has_room(**party, is_proven));
    full.map(|party| stored_party(*party)).collect()
}

/// Chooses the deliveries that get the free slots, in their order: each endpoint gets one before any
/// gets two, and the longest waiting endpoint comes first.
pub fn chosen(waiting: &[Waiting], slots: &WebhookSlots) -> Vec<i64> {
    let deliveries = waiting.iter().flat_map(|Waiting { target, due }| {
        due.iter()
            .enumerate()
            .map(move |(round, id)| (round, target.due_at, target.id, *id, target))
    });
    let mut deliveries: Vec<_> = deliveries.collect();
    deliveries
        .sort_unstable_by_key(|&(round, since, endpoint, id, _)| (round, since, endpoint, id));
    let mut slots = slots.clone();
    let mut chosen = Vec::new();
    for (.., id, target) in deliveries {
        let (party, is_proven) = (party_of(target.party), target.is_proven());
        if slots.has_room(party, is_proven) {
            slots.take(party, is_proven);
            chosen.push(id);
        }
    }
    chosen
}

/// Returns the endpoints of a lease that do not wait for a slot: those that got one, and those that
/// have nothing due.
pub fn put_offs(waiting: &[Waiting], leased: &[i64]) -> Vec<i64> {
    let is_put_off = |waiting: &&Waiting| {
        waiting.due.is_empty() || waiting.due.iter().any(|id| leased.contains(id))
    };
    waiting.iter().filter(is_put_off).map(|waiting| waiting.target.id).collect()
}

/// Returns the leases of rows, in the order of their choice, and the rows that cannot be read.
pub fn leases(
    rows: Vec<(WebhookDeliveryRow, i64, Option<String>)>,
    waiting: Vec<Waiting>,
    chosen: &[i64],
) -> (Vec<WebhookLease>, Vec<i64>) {
    let targets: HashMap<i64, TargetRow> =
        waiting.into_iter().map(|waiting| (waiting.target.id, waiting.target)).collect();
    let place: HashMap<i64, usize> = chosen.iter().copied().zip(0..).collect();
    let (mut leases, mut unreadable) = (Vec::new(), Vec::new());
    for (row, token, body) in rows {
        let Some(target) = targets.get(&row.endpoint_id) else { continue };
        let id = row.id;
        match row.into_lease(token, body, target.clone()) {
            Ok(lease) => leases.push(lease),
            Err(_) => unreadable.push(id),
        }
    }
    leases.sort_unstable_by_key(|lease| place.get(&lease.delivery.id.0).copied());
    (leases, unreadable)
}

/// When the endpoint can next get an attempt; `NULL` without deliveries. At its limit of parallel attempts: when
/// the first lease ends. An endpoint with a delivery that is due already queues behind others, from now on.
#[derive(Debug, Clone, Copy, QueryId)]
pub struct NextDue(Clock);

/// The condition of an endpoint that may get another attempt at an instant.
#[derive(Debug, Clone, Copy, QueryId)]
pub struct IsFree(Clock);

/// The present, and the farthest end of a lease.
#[derive(Debug, Clone, Copy)]
struct Clock {
    present: Utc,
    farthest: Utc,
}

impl Clock {
    fn at(present: Utc) -> Self {
        Self { present, farthest: farthest(present) }
    }
}

impl NextDue {
    /// Uses this instant as the present.
    pub fn at(now: Utc) -> Self {
        Self(Clock::at(now))
    }
}

impl IsFree {
    /// Uses this instant as the present.
    pub fn at(instant: Utc) -> Self {
        Self(Clock::at(instant))
    }
}

/// The attempts in progress at an endpoint, and how many it may have.
const IN_PROGRESS: &str = "FROM webhook_deliveries AS d \
    WHERE d.endpoint_id = webhook_endpoints.id \
    AND d.leased_until > clock.present AND d.leased_until <= clock.farthest";

fn may_have() -> String {
    format!("CASE WHEN webhook_endpoints.succeeded_at IS NULL THEN 1 ELSE {PER_ENDPOINT} END")
}

impl Expression for NextDue {
    type SqlType = Nullable<Instant>;
}

impl<G> ValidGrouping<G> for NextDue {
    type IsAggregate = is_aggregate::Never;
}

impl<G> ValidGrouping<G> for IsFree {
    type IsAggregate = is_aggregate::Never;
}

impl Expression for IsFree {
    type SqlType = Bool;
}

impl AppearsOnTable<crate::schema::webhook_endpoints::table> for NextDue {}
impl AppearsOnTable<crate::schema::webhook_endpoints::table> for IsFree {}

impl<DB: Backend + HasSqlType<Instant>> QueryFragment<DB> for NextDue
where
    Utc: ToSql<Instant, DB>,
{
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, DB>) -> QueryResult<()> {
        let events = EventType::ALL.map(|event| format!("'{}'", event.as_str())).join(", ");
        out.push_sql(&format!(
            "(SELECT CASE WHEN (SELECT count(*) {IN_PROGRESS}) >= {may_have} \
            THEN (SELECT min(d.leased_until) {IN_PROGRESS}) \
            ELSE (SELECT min(next.at) FROM (\
                SELECT min(d.leased_until) AS at {IN_PROGRESS} UNION ALL SELECT first.at FROM (\
                    SELECT CASE WHEN d.due_at < clock.present THEN clock.present ELSE d.due_at END \
                        AS at FROM webhook_deliveries AS d \
                    WHERE d.endpoint_id = webhook_endpoints.id \
                    AND d.delivered_at IS NULL AND d.failed_at IS NULL AND (d.leased_until IS NULL \
                        OR d.leased_until <= clock.present OR d.leased_until > clock.farthest) \
                    AND d.event IN ({events}) ORDER BY d.due_at, d.id LIMIT 1) AS first) AS next) \
            END FROM ",
            may_have = may_have()
        ));
        clock(&self.0, &mut out)?;
        out.push_sql(")");
        Ok(())
    }
}

impl<DB: Backend + HasSqlType<Instant>> QueryFragment<DB> for IsFree
where
    Utc: ToSql<Instant, DB>,
{
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, DB>) -> QueryResult<()> {
        out.push_sql(&format!("(SELECT (SELECT count(*) {IN_PROGRESS}) < {} FROM ", may_have()));
        clock(&self.0, &mut out)?;
        out.push_sql(")");
        Ok(())
    }
}

/// Adds the present and the farthest end of a lease.
fn clock<'b, DB: Backend + HasSqlType<Instant>>(
    clock: &'b Clock,
    out: &mut AstPass<'_, 'b, DB>,
) -> QueryResult<()>
where
    Utc: ToSql<Instant, DB>,
{
    out.push_sql("(SELECT ");
    out.push_bind_param::<Instant, _>(&clock.present)?;
    out.push_sql(" AS present, ");
    out.push_bind_param::<Instant, _>(&clock.farthest)?;
    out.push_sql(" AS farthest) AS clock");
    Ok(())
}
