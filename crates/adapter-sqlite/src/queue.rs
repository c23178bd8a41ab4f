//! The queue of follow-ups.

use async_trait::async_trait;
use diesel::{dsl, prelude::*, sqlite::SqliteConnection};
use domain::{
    follow_up::{FollowUp, FollowUpId},
    ports::{FollowUpQueue, Lease, QueueStats, Settlement, StoreError},
};
use time::{Duration, OffsetDateTime};

use crate::{
    SqliteStore,
    failure::{Failure, Unreadable},
    rows::{FollowUpRow, instant, micros, row_limit},
    schema::follow_ups,
};

#[async_trait]
impl FollowUpQueue for SqliteStore {
    async fn lease(
        &self,
        now: OffsetDateTime,
        lease_for: Duration,
        limit: usize,
    ) -> Result<Vec<Lease>, StoreError> {
        Ok(self.writer.run(move |connection| lease(connection, now, lease_for, limit)).await?)
    }

    async fn settle(
        &self,
        id: FollowUpId,
        token: i64,
        settlement: &Settlement,
    ) -> Result<bool, StoreError> {
        let settlement = settlement.clone();
        Ok(self.writer.run(move |connection| settle(connection, id, token, &settlement)).await?)
    }

    async fn list(&self, buried: bool, limit: usize) -> Result<Vec<FollowUp>, StoreError> {
        Ok(self.reader.run(move |connection| list(connection, buried, limit)).await?)
    }

    async fn retry(&self, id: FollowUpId, now: OffsetDateTime) -> Result<bool, StoreError> {
        Ok(self.writer.run(move |connection| retry(connection, id, now)).await?)
    }

    async fn stats(&self) -> Result<QueueStats, StoreError> {
        Ok(self.reader.run(stats).await?)
    }
}

/// Nobody comes between the two steps: the transaction holds the write lock from its start.
fn lease(
    connection: &mut SqliteConnection,
    now: OffsetDateTime,
    lease_for: Duration,
    limit: usize,
) -> Result<Vec<Lease>, Failure> {
    let now_us = micros(now);
    let free = follow_ups::leased_until_us.is_null().or(follow_ups::leased_until_us.le(now_us));
    let rows: Vec<(FollowUpRow, i64)> = follow_ups::table
        .filter(follow_ups::buried_at_us.is_null())
        .filter(follow_ups::due_at_us.le(now_us))
        .filter(free)
        .order((follow_ups::due_at_us, follow_ups::id))
        .limit(row_limit(limit))
        .select((FollowUpRow::as_select(), follow_ups::lease_token))
        .load(connection)?;
    let until = micros(now.saturating_add(lease_for));
    let mut leases = Vec::with_capacity(rows.len());
    for (row, last_token) in rows {
        let token = last_token + 1;
        diesel::update(follow_ups::table.find(row.id))
            .set((follow_ups::leased_until_us.eq(until), follow_ups::lease_token.eq(token)))
            .execute(connection)?;
        leases.push(Lease { follow_up: row.into_follow_up()?, token });
    }
    Ok(leases)
}

fn settle(
    connection: &mut SqliteConnection,
    id: FollowUpId,
    token: i64,
    settlement: &Settlement,
) -> Result<bool, Failure> {
    let held = follow_ups::table
        .find(id.0)
        .filter(follow_ups::lease_token.eq(token))
        .filter(follow_ups::leased_until_us.is_not_null());
    let failed = (
        follow_ups::leased_until_us.eq(None::<i64>),
        follow_ups::attempts.eq(follow_ups::attempts + 1),
    );
    let settled = match settlement {
        Settlement::Done => diesel::delete(held).execute(connection)?,
        Settlement::RetryAt { due_at, error } => diesel::update(held)
            .set((
                failed,
                follow_ups::due_at_us.eq(micros(*due_at)),
                follow_ups::last_error.eq(error),
            ))
            .execute(connection)?,
        Settlement::Postpone { due_at, error } => {
            let postponed = (
                follow_ups::leased_until_us.eq(None::<i64>),
                follow_ups::due_at_us.eq(micros(*due_at)),
                follow_ups::last_error.eq(error),
            );
            diesel::update(held).set(postponed).execute(connection)?
        }
        Settlement::Bury { at, error } => diesel::update(held)
            .set((
                failed,
                follow_ups::buried_at_us.eq(micros(*at)),
                follow_ups::last_error.eq(error),
            ))
            .execute(connection)?,
    };
    Ok(settled > 0)
}

fn list(
    connection: &mut SqliteConnection,
    buried: bool,
    limit: usize,
) -> Result<Vec<FollowUp>, Failure> {
    let rows: Vec<FollowUpRow> = follow_ups::table
        .filter(follow_ups::buried_at_us.is_not_null().eq(buried))
        .order((follow_ups::created_at_us, follow_ups::id))
        .limit(row_limit(limit))
        .select(FollowUpRow::as_select())
        .load(connection)?;
    Ok(rows.into_iter().map(FollowUpRow::into_follow_up).collect::<Result<_, _>>()?)
}

/// Leaves the lease of a worker that is at it alone, so that the mail is not sent twice at once.
fn retry(
    connection: &mut SqliteConnection,
    id: FollowUpId,
    now: OffsetDateTime,
) -> Result<bool, Failure> {
    let anew = (
        follow_ups::attempts.eq(0),
        follow_ups::created_at_us.eq(micros(now)),
        follow_ups::due_at_us.eq(micros(now)),
        follow_ups::buried_at_us.eq(None::<i64>),
    );
    Ok(diesel::update(follow_ups::table.find(id.0)).set(anew).execute(connection)? > 0)
}

fn stats(connection: &mut SqliteConnection) -> Result<QueueStats, Failure> {
    let pending = follow_ups::table.filter(follow_ups::buried_at_us.is_null());
    let (pending, oldest): (i64, Option<i64>) = pending
        .select((dsl::count_star(), dsl::min(follow_ups::created_at_us)))
        .first(connection)?;
    let buried: i64 = follow_ups::table
        .filter(follow_ups::buried_at_us.is_not_null())
        .count()
        .get_result(connection)?;
    let unreadable = || Unreadable {
        table: "follow_ups",
        row: "(the oldest)".to_owned(),
        column: "created_at_us",
    };
    let readable = |at| instant(at).ok_or_else(unreadable);
    Ok(QueueStats {
        pending: pending.unsigned_abs(),
        buried: buried.unsigned_abs(),
        oldest_created_at: oldest.map(readable).transpose()?,
    })
}
