//! The log of accesses.

use std::sync::LazyLock;

use async_trait::async_trait;
use diesel::{
    dsl::sql,
    pg::Pg,
    prelude::*,
    query_builder::{AstPass, Query, QueryFragment},
    sql_query,
    sql_types::{Array, BigInt, Nullable, Text},
};
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use domain::{
    access::{Access, AccessId, PublicAccessId, RunId},
    api_key::Owner,
    order::OrderId,
    person::Doer,
    ports::{AccessFilter, AccessLog, BusyReader, MaybeErased, MissingAccesses, StoreError},
};
use sql_rows::{
    Instant, Prepared, Utc,
    access_runs::{
        EndedRun, FirstNumber, MissingColumns, missing_access, missing_accesses, runs_over_before,
    },
    accesses::{
        AccessRow, accesses_before, accesses_from, accesses_up_to, busy_readers, busy_rows, newest,
        oldest_accesses, page_after, sides_and_operators,
    },
    orders::is_order_of,
    schema::{access_runs, accesses, orders},
};
use time::OffsetDateTime;

use crate::{
    failure::Failure,
    locks,
    statement::{DURABLE, column, columns},
    store::PostgresStore,
};

/// The columns of accesses, in the order in which the statements bind them.
const COLUMNS: &str = "at, run, number, kind, order_id, orders, position, party, api_key_id, command, \
    os_user, address, request_id, outcome, person_id, subject_id";

/// Stores accesses of a run, and the run. A refused request of a side is an access to its order.
static STORE: LazyLock<String> = LazyLock::new(|| {
    let own = "(SELECT id FROM orders \
        WHERE id = asked_order_id AND party IN (client_id, -signing_service_id))";
    format!(
        "WITH run AS (INSERT INTO access_runs (id, seen_at) VALUES ($18, $19) ON CONFLICT DO NOTHING) \
        INSERT INTO accesses ({COLUMNS}, asked_order_id) \
        SELECT at, run, number, kind, coalesce(order_id, {own}), orders, position, party, api_key_id, \
            command, os_user, address, request_id, outcome, person_id, subject_id, \
            CASE WHEN asked_order_id IS NOT NULL AND {own} IS NULL THEN asked_order_id END \
        FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, \
            $16, $17) \
            AS asked ({COLUMNS}, asked_order_id) \
        WHERE {DURABLE} ON CONFLICT DO NOTHING"
    )
});

#[async_trait]
impl AccessLog for PostgresStore {
    async fn store(&self, accesses: &[Access]) -> Result<(), StoreError> {
        let Some(first) = accesses.first().map(|access| access.id) else { return Ok(()) };
        let rows: Vec<AccessRow> = accesses.iter().map(AccessRow::from).collect();
        let store = sql_query(&*STORE)
            .bind::<Array<Instant>, _>(column(&rows, |row| row.at))
            .bind::<Array<BigInt>, _>(column(&rows, |row| row.run))
            .bind::<Array<BigInt>, _>(column(&rows, |row| row.number))
            .bind::<Array<Text>, _>(column(&rows, |row| row.kind.clone()))
            .bind::<Array<Nullable<BigInt>>, _>(column(&rows, |row| row.order_id))
            .bind::<Array<Nullable<BigInt>>, _>(column(&rows, |row| row.orders))
            .bind::<Array<Nullable<BigInt>>, _>(column(&rows, |row| row.position))
            .bind::<Array<Nullable<BigInt>>, _>(column(&rows, |row| row.party))
            .bind::<Array<Nullable<BigInt>>, _>(column(&rows, |row| row.api_key_id))
            .bind::<Array<Nullable<Text>>, _>(column(&rows, |row| row.command.clone()))
            .bind::<Array<Nullable<Text>>, _>(column(&rows, |row| row.os_user.clone()))
            .bind::<Array<Nullable<Text>>, _>(column(&rows, |row| row.address.clone()))
            .bind::<Array<Nullable<Text>>, _>(column(&rows, |row| row.request_id.clone()))
            .bind::<Array<Text>, _>(column(&rows, |row| row.outcome.clone()))
            .bind::<Array<Nullable<BigInt>>, _>(column(&rows, |row| row.person_id))
            .bind::<Array<Nullable<BigInt>>, _>(column(&rows, |row| row.subject_id))
            .bind::<Array<Nullable<BigInt>>, _>(column(&rows, |row| row.asked_order_id))
            .bind::<BigInt, _>(first.run.0)
            .bind::<Instant, _>(Utc(first.at));
        self.execute(store).await.map(drop)
    }

    async fn note_alive(&self, run: RunId, at: OffsetDateTime) -> Result<(), StoreError> {
        let run = diesel::update(access_runs::table.find(run.0));
        self.execute(run.set(access_runs::seen_at.eq(Some(Utc(at))))).await.map(drop)
    }

    async fn end(
        &self,
        run: RunId,
        last_number: u64,
        at: OffsetDateTime,
    ) -> Result<(), StoreError> {
        let row = EndedRun::new(run, last_number, at);
        let end = async move |connection: &mut AsyncPgConnection| {
            let begun = diesel::insert_into(access_runs::table).values(&row);
            let ended = begun.on_conflict(access_runs::id).do_update().set(&row);
            ended.execute(connection).await?;
            Ok(())
        };
        self.transaction(end).await
    }

    async fn list(
        &self,
        filter: &AccessFilter,
        before: Option<AccessId>,
        limit: usize,
    ) -> Result<Vec<Access>, StoreError> {
        let filter = filter.clone();
        self.survey(async move |connection| list(connection, &filter, before, limit).await).await
    }

    async fn of_order(
        &self,
        owner: Owner,
        order: OrderId,
        before: Option<PublicAccessId>,
        limit: usize,
    ) -> Result<Option<MaybeErased<Option<Vec<Access>>>>, StoreError> {
        let read = async move |connection: &mut AsyncPgConnection| {
            of_order(connection, owner, order, before, limit).await
        };
        self.read_orders(read).await
    }

    async fn remove_before(
        &self,
        instant: OffsetDateTime,
        limit: usize,
    ) -> Result<usize, StoreError> {
        let remove = async move |connection: &mut AsyncPgConnection| {
            remove_before(connection, instant, limit).await
        };
        self.transaction(remove).await
    }

    async fn missing(&self, limit: usize) -> Result<Vec<MissingAccesses>, StoreError> {
        let missing = async move |connection: &mut AsyncPgConnection| {
            let rows =
                sql::<MissingColumns>(&missing_accesses(limit)).get_results(connection).await?;
            Ok(rows.into_iter().map(missing_access).collect())
        };
        self.survey(missing).await
    }

    async fn busy_readers(
        &self,
        between: (OffsetDateTime, OffsetDateTime),
        orders: u64,
    ) -> Result<Vec<BusyReader>, StoreError> {
        let busy = async move |connection: &mut AsyncPgConnection| {
            Ok(busy_readers(busy_rows(between, orders).get_results(connection).await?))
        };
        self.survey(busy).await
    }
}

/// Stores the access of a change, in its transaction.
pub(crate) async fn store_access(
    connection: &mut AsyncPgConnection,
    access: Option<&Access>,
) -> QueryResult<()> {
    let Some(access) = access else { return Ok(()) };
    let row = AccessRow::from(access);
    let stored = diesel::insert_into(accesses::table).values(&row).on_conflict_do_nothing();
    Prepared(stored).execute(connection).await.map(drop)
}

/// A statement that changes orders and returns them. The same statement stores the access of the change, if
/// it changes one: a second statement would cost a round trip.
pub(crate) struct WithAccess<Q> {
    change: Q,
    access: Option<AccessRow>,
}

impl<Q> WithAccess<Q> {
    /// Returns the statement.
    pub(crate) fn new(change: Q, access: Option<&Access>) -> Self {
        Self { change, access: access.map(AccessRow::from) }
    }
}

impl<Q: Query> Query for WithAccess<Q> {
    type SqlType = Q::SqlType;
}

impl<Q: QueryFragment<Pg>> QueryFragment<Pg> for WithAccess<Q> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        let Some(access) = &self.access else { return self.change.walk_ast(out) };
        out.push_sql("WITH changed AS (");
        self.change.walk_ast(out.reborrow())?;
        out.push_sql(&format!("), stored AS (INSERT INTO accesses ({COLUMNS}) SELECT "));
        out.push_bind_param::<Instant, _>(&access.at)?;
        for number in [&access.run, &access.number] {
            out.push_sql(", ");
            out.push_bind_param::<BigInt, _>(number)?;
        }
        out.push_sql(", ");
        out.push_bind_param::<Text, _>(&access.kind)?;
        for number in
            [&access.order_id, &access.orders, &access.position, &access.party, &access.api_key_id]
        {
            out.push_sql(", ");
            out.push_bind_param::<Nullable<BigInt>, _>(number)?;
        }
        for text in [&access.command, &access.os_user, &access.address, &access.request_id] {
            out.push_sql(", ");
            out.push_bind_param::<Nullable<Text>, _>(text)?;
        }
        out.push_sql(", ");
        out.push_bind_param::<Text, _>(&access.outcome)?;
        for number in [&access.person_id, &access.subject_id] {
            out.push_sql(", ");
            out.push_bind_param::<Nullable<BigInt>, _>(number)?;
        }
        out.push_sql(" FROM changed ON CONFLICT DO NOTHING) SELECT * FROM changed");
        Ok(())
    }
}

async fn list(
    connection: &mut AsyncPgConnection,
    filter: &AccessFilter,
    before: Option<AccessId>,
    limit: usize,
) -> Result<Vec<Access>, Failure> {
    let listed = || {
        let listed = accesses_before(before, limit).select(columns::<AccessRow>());
        let mut listed = listed.into_boxed::<Pg>();
        if let Some(since) = filter.since {
            listed = listed.filter(accesses::at.ge(Utc(since)));
        }
        match filter.by {
            Some(Doer::Key(key)) => listed = listed.filter(accesses::api_key_id.eq(key.0)),
            Some(Doer::Person(id)) => listed = listed.filter(accesses::person_id.eq(id.0)),
            None => {}
        }
        if let Some(address) = filter.address {
            listed = listed.filter(accesses::address.eq(address.to_string()));
        }
        listed
    };
    let mut rows: Vec<AccessRow>;
    if let Some(order) = filter.order {
        let of_order = listed().filter(accesses::order_id.eq(order.0));
        rows = of_order.get_results(connection).await?;
        let asked = listed().filter(accesses::asked_order_id.eq(order.0));
        rows.extend(asked.get_results::<AccessRow>(connection).await?);
    } else {
        rows = listed().get_results(connection).await?;
    }
    Ok(newest(rows, limit))
}

async fn of_order(
    connection: &mut AsyncPgConnection,
    owner: Owner,
    order: OrderId,
    before: Option<PublicAccessId>,
    limit: usize,
) -> Result<Option<MaybeErased<Option<Vec<Access>>>>, Failure> {
    let own = orders::table.find(order.0).filter(is_order_of(owner));
    let own = own.select((orders::erased_at, orders::client_id, orders::signing_service_id));
    let (client, service) = match Prepared(own).get_result(connection).await.optional()? {
        None => return Ok(None),
        Some((Some::<Utc>(_erased_at), _, _)) => return Ok(Some(MaybeErased::Erased)),
        Some((None, client, service)) => (client, service),
    };
    let of_order = accesses_from(before, limit)
        .filter(sides_and_operators(order, client, service))
        .select(columns::<AccessRow>());
    let rows: Vec<AccessRow> = Prepared(of_order).get_results(connection).await?;
    Ok(Some(MaybeErased::Whole(page_after(before, rows, limit))))
}

async fn remove_before(
    connection: &mut AsyncPgConnection,
    instant: OffsetDateTime,
    limit: usize,
) -> Result<usize, Failure> {
    // One call at a time, so that none removes what another one counts.
    locks::lock_name(connection, "accesses").await?;
    let oldest: Vec<(Utc, i64, i64)> =
        oldest_accesses(instant, limit).get_results(connection).await?;
    if let Some(last) = oldest.last() {
        let removed = diesel::delete(accesses_up_to(*last));
        let removed =
            removed.returning((accesses::run, accesses::number)).get_results(connection).await?;
        for row in FirstNumber::after(removed) {
            let begun = (&row, access_runs::seen_at.eq(Some(Utc(instant))));
            let begun = diesel::insert_into(access_runs::table).values(begun);
            let raised = begun.on_conflict(access_runs::id).do_update().set(&row);
            // An access that was stored late may be removed after later ones.
            let is_larger = access_runs::first_number.lt(row.first_number);
            let raised = diesel::query_dsl::methods::FilterDsl::filter(raised, is_larger);
            raised.execute(connection).await?;
        }
    }
    if oldest.len() < limit {
        diesel::delete(runs_over_before(instant)).execute(connection).await?;
    }
    Ok(oldest.len())
}
