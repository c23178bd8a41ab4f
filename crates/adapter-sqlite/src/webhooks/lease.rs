//! Leases webhook deliveries.

use diesel::{prelude::*, sqlite::SqliteConnection};
use domain::ports::{WebhookLease, WebhookSlots};
use sql_rows::{
    Prepared, Utc, row_limit,
    schema::{webhook_deliveries, webhook_endpoints},
    webhook_deliveries::{
        WebhookDeliveryRow, due_of,
        lease::{
            IsFree, LOOKED_AT, NextDue, UNREADABLE_DELAY, Waiting, chosen, full_parties, leases,
            put_offs,
        },
        leased_of,
    },
    webhook_endpoints::{TargetRow, due_endpoints},
};
use time::{Duration, OffsetDateTime};

use crate::{failure::Failure, store::columns};

/// Leases what is due, for as many attempts as there are slots.
pub(crate) fn lease_due(
    connection: &mut SqliteConnection,
    now: OffsetDateTime,
    lease_for: Duration,
    slots: &WebhookSlots,
) -> Result<Vec<WebhookLease>, Failure> {
    use webhook_deliveries::{body, id, lease_token, leased_until, table};

    let (until, now) = (Utc(now.saturating_add(lease_for)), Utc(now));
    let waiting = waiting(connection, now, slots)?;
    if waiting.is_empty() {
        return Ok(Vec::new());
    }
    let chosen = chosen(&waiting, slots);
    let put_offs = put_offs(&waiting, &chosen);
    let rows: Vec<(WebhookDeliveryRow, i64, Option<String>)> =
        diesel::update(table.filter(id.eq_any(&chosen)))
            .set((leased_until.eq(until), lease_token.eq(lease_token + 1)))
            .returning((columns::<WebhookDeliveryRow>(), lease_token, body))
            .get_results(connection)?;
    let (leases, unreadable) = leases(rows, waiting, &chosen);
    if !unreadable.is_empty() {
        let later = Utc(now.0.saturating_add(UNREADABLE_DELAY));
        diesel::update(table.filter(id.eq_any(unreadable)))
            .set((leased_until.eq(None::<Utc>), webhook_deliveries::due_at.eq(later)))
            .execute(connection)?;
    }
    put_off(connection, now, put_offs)?;
    Ok(leases)
}

/// Looks up the endpoints that have waited longest, and what they may get.
fn waiting(
    connection: &mut SqliteConnection,
    now: Utc,
    slots: &WebhookSlots,
) -> Result<Vec<Waiting>, Failure> {
    use webhook_endpoints::succeeded_at;

    let due = |is_proven, free: usize| {
        due_endpoints(now, full_parties(slots, is_proven))
            .limit(row_limit(free.min(slots.limit).min(LOOKED_AT)))
            .select(columns::<TargetRow>())
    };
    let proven = due(true, slots.limit).filter(succeeded_at.is_not_null());
    let unproven = due(false, slots.unproven).filter(succeeded_at.is_null());
    let mut targets = proven.get_results(connection)?;
    targets.extend(unproven.get_results(connection)?);
    let waiting = targets.into_iter().map(|target: TargetRow| {
        let leased: i64 = leased_of(target.id, now).count().get_result(connection)?;
        let free = row_limit(target.attempts()).saturating_sub(leased).max(0);
        let due = due_of(target.id, now).limit(free).get_results(connection)?;
        Ok(Waiting { target, due })
    });
    waiting.collect()
}

/// Notes when endpoints have something to do next.
pub(super) fn put_off(
    connection: &mut SqliteConnection,
    now: Utc,
    endpoints: Vec<i64>,
) -> Result<(), Failure> {
    for endpoint in endpoints {
        let endpoint = diesel::update(webhook_endpoints::table.find(endpoint));
        let put_off = endpoint.set(webhook_endpoints::due_at.eq(NextDue::at(now)));
        Prepared(put_off).execute(connection)?;
    }
    Ok(())
}

/// Notes that endpoints have deliveries that are due at an instant. Returns those that there are. One
/// that may have no other attempt now is due when an attempt ends.
pub(crate) fn wake(
    connection: &mut SqliteConnection,
    endpoints: &[i64],
    at: Utc,
) -> Result<Vec<i64>, Failure> {
    let own = || webhook_endpoints::table.filter(webhook_endpoints::id.eq_any(endpoints.to_vec()));
    let found = own().select(webhook_endpoints::id).get_results(connection)?;
    let is_later = webhook_endpoints::due_at.is_null().or(webhook_endpoints::due_at.gt(at));
    diesel::update(own().filter(is_later.and(IsFree::at(at))))
        .set(webhook_endpoints::due_at.eq(at))
        .execute(connection)?;
    Ok(found)
}
