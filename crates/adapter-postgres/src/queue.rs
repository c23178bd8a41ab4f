//! The queue of follow-ups.

use async_trait::async_trait;
use diesel::{
    dsl,
    pg::Pg,
    prelude::*,
    query_builder::{AstPass, Query, QueryFragment, QueryId},
    sql_types::{Array, BigInt},
};
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use domain::{
    follow_up::{FollowUp, FollowUpId},
    ports::{FollowUpQueue, Lease, QueueStats, Settlement, StoreError},
};
use futures_util::future::{BoxFuture, FutureExt as _};
use time::{Duration, OffsetDateTime};

use crate::{
    PostgresStore,
    batch::{Shared, Waiting, Work},
    failure::{Failure, store_error},
    rows::{FollowUpRow, row_limit, storable},
    schema::follow_ups,
    statement::{Prepared, With},
};

diesel::table! {
    /// Follow-ups that a statement has locked.
    due (id) {
        id -> BigInt,
    }
}

diesel::allow_tables_to_appear_in_same_query!(follow_ups, due);

#[async_trait]
impl FollowUpQueue for PostgresStore {
    async fn lease(
        &self,
        now: OffsetDateTime,
        lease_for: Duration,
        limit: usize,
    ) -> Result<Vec<Lease>, StoreError> {
        Ok(self
            .pool
            .run(move |connection| lease(connection, now, lease_for, limit).boxed())
            .await?)
    }

    async fn settle(
        &self,
        id: FollowUpId,
        token: i64,
        settlement: &Settlement,
    ) -> Result<bool, StoreError> {
        self.settlements
            .run(Settled { id: id.0, token, settlement: settlement.clone() })
            .await
            .map_err(store_error)
    }

    async fn list(&self, buried: bool, limit: usize) -> Result<Vec<FollowUp>, StoreError> {
        Ok(self.pool.run(move |connection| list(connection, buried, limit).boxed()).await?)
    }

    async fn retry(&self, id: FollowUpId, now: OffsetDateTime) -> Result<bool, StoreError> {
        Ok(self.pool.run(move |connection| retry(connection, id, now).boxed()).await?)
    }

    async fn stats(&self) -> Result<QueueStats, StoreError> {
        Ok(self.pool.run(|connection| stats(connection).boxed()).await?)
    }
}

async fn lease(
    connection: &mut AsyncPgConnection,
    now: OffsetDateTime,
    lease_for: Duration,
    limit: usize,
) -> Result<Vec<Lease>, Failure> {
    let free =
        follow_ups::leased_until.is_null().or(follow_ups::leased_until.le(now).assume_not_null());
    let common = follow_ups::table
        .filter(follow_ups::buried_at.is_null())
        .filter(follow_ups::due_at.le(now))
        .filter(free)
        .order((follow_ups::due_at, follow_ups::id))
        .limit(row_limit(limit))
        .select(follow_ups::id)
        .for_update()
        .skip_locked();
    let body =
        diesel::update(follow_ups::table.filter(follow_ups::id.eq_any(due::table.select(due::id))))
            .set((
                follow_ups::leased_until.eq(now.saturating_add(lease_for)),
                follow_ups::lease_token.eq(follow_ups::lease_token + 1),
            ))
            .returning((FollowUpRow::as_returning(), follow_ups::lease_token));
    let mut rows: Vec<(FollowUpRow, i64)> =
        Prepared(With { name: "due", common, body }).get_results(connection).await?;
    // An update returns its rows in any order.
    rows.sort_by_key(|(row, _)| (row.due_at, row.id));
    rows.into_iter()
        .map(|(row, token)| Ok(Lease { follow_up: row.into_follow_up()?, token }))
        .collect()
}

/// What became of a follow-up that was leased.
pub(crate) struct Settled {
    id: i64,
    token: i64,
    settlement: Settlement,
}

impl Settled {
    fn is_done(&self) -> bool {
        matches!(self.settlement, Settlement::Done)
    }
}

impl Work for Settled {
    type Done = bool;
    type Refusal = Shared;

    /// What is done leaves the queue together with others; what failed, which is rare, is settled
    /// alone.
    fn goes_with(&self, other: &Self) -> bool {
        self.is_done() && other.is_done() && self.id != other.id
    }

    fn commit(
        connection: &mut AsyncPgConnection,
        batch: Vec<Waiting<Self>>,
    ) -> BoxFuture<'_, Result<(), Shared>> {
        async move {
            let settled =
                settle_all(connection, batch.iter().map(|waiting| &waiting.work).collect())
                    .await
                    .map_err(Shared::from);
            for waiting in batch {
                let outcome = settled.as_ref().map(|settled| settled.contains(&waiting.work.id));
                waiting.tell(outcome.map_err(Clone::clone));
            }
            settled.map(drop)
        }
        .boxed()
    }
}

/// Takes what is done out of the queue, as far as its lease is held still. Locked by identifier, so
/// that two workers that settle the same wait for each other in one order.
struct Done {
    ids: Vec<i64>,
    tokens: Vec<i64>,
}

impl QueryId for Done {
    type QueryId = ();
    const HAS_STATIC_QUERY_ID: bool = false;
}

impl Query for Done {
    type SqlType = BigInt;
}

impl QueryFragment<Pg> for Done {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        out.push_sql("WITH held AS (SELECT follow_ups.id FROM unnest(");
        out.push_bind_param::<Array<BigInt>, _>(&self.ids)?;
        out.push_sql(", ");
        out.push_bind_param::<Array<BigInt>, _>(&self.tokens)?;
        out.push_sql(") AS done (id, token) JOIN follow_ups ON follow_ups.id = done.id AND follow_ups.lease_token = done.token ");
        out.push_sql("WHERE follow_ups.leased_until IS NOT NULL ORDER BY follow_ups.id FOR UPDATE OF follow_ups) ");
        out.push_sql("DELETE FROM follow_ups WHERE id IN (SELECT id FROM held) RETURNING id");
        Ok(())
    }
}

/// The identifiers of those whose leases were held still.
async fn settle_all(
    connection: &mut AsyncPgConnection,
    batch: Vec<&Settled>,
) -> Result<Vec<i64>, Failure> {
    if let [one] = batch[..] {
        return Ok(settle_one(connection, one).await?.then_some(one.id).into_iter().collect());
    }
    let (ids, tokens) = batch.iter().map(|settled| (settled.id, settled.token)).unzip();
    Ok(Prepared(Done { ids, tokens }).get_results(connection).await?)
}

async fn settle_one(
    connection: &mut AsyncPgConnection,
    Settled { id, token, settlement }: &Settled,
) -> Result<bool, Failure> {
    let held = follow_ups::table
        .find(id)
        .filter(follow_ups::lease_token.eq(token))
        .filter(follow_ups::leased_until.is_not_null());
    let failed = (
        follow_ups::leased_until.eq(None::<OffsetDateTime>),
        follow_ups::attempts.eq(follow_ups::attempts + 1),
    );
    let settled = match settlement {
        Settlement::Done => diesel::delete(held).execute(connection).await?,
        Settlement::RetryAt { due_at, error } => {
            let again =
                (failed, follow_ups::due_at.eq(due_at), follow_ups::last_error.eq(storable(error)));
            Prepared(diesel::update(held).set(again)).execute(connection).await?
        }
        Settlement::Postpone { due_at, error } => {
            let postponed = (
                follow_ups::leased_until.eq(None::<OffsetDateTime>),
                follow_ups::due_at.eq(due_at),
                follow_ups::last_error.eq(storable(error)),
            );
            Prepared(diesel::update(held).set(postponed)).execute(connection).await?
        }
        Settlement::Bury { at, error } => {
            let buried =
                (failed, follow_ups::buried_at.eq(at), follow_ups::last_error.eq(storable(error)));
            Prepared(diesel::update(held).set(buried)).execute(connection).await?
        }
    };
    Ok(settled > 0)
}

async fn list(
    connection: &mut AsyncPgConnection,
    buried: bool,
    limit: usize,
) -> Result<Vec<FollowUp>, Failure> {
    let rows: Vec<FollowUpRow> = follow_ups::table
        .filter(follow_ups::buried_at.is_not_null().eq(buried))
        .order((follow_ups::created_at, follow_ups::id))
        .limit(row_limit(limit))
        .select(FollowUpRow::as_select())
        .load(connection)
        .await?;
    Ok(rows.into_iter().map(FollowUpRow::into_follow_up).collect::<Result<_, _>>()?)
}

/// Leaves the lease of a worker that is at it alone, so that the mail is not sent twice at once.
async fn retry(
    connection: &mut AsyncPgConnection,
    id: FollowUpId,
    now: OffsetDateTime,
) -> Result<bool, Failure> {
    let anew = (
        follow_ups::attempts.eq(0),
        follow_ups::created_at.eq(now),
        follow_ups::due_at.eq(now),
        follow_ups::buried_at.eq(None::<OffsetDateTime>),
    );
    Ok(diesel::update(follow_ups::table.find(id.0)).set(anew).execute(connection).await? > 0)
}

async fn stats(connection: &mut AsyncPgConnection) -> Result<QueueStats, Failure> {
    let pending = follow_ups::table.filter(follow_ups::buried_at.is_null());
    let (pending, oldest): (i64, Option<OffsetDateTime>) = pending
        .select((dsl::count_star(), dsl::min(follow_ups::created_at)))
        .first(connection)
        .await?;
    let buried: i64 = follow_ups::table
        .filter(follow_ups::buried_at.is_not_null())
        .count()
        .get_result(connection)
        .await?;
    Ok(QueueStats {
        pending: pending.unsigned_abs(),
        buried: buried.unsigned_abs(),
        oldest_created_at: oldest,
    })
}
