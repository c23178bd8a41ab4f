//! The log of accesses.

use async_trait::async_trait;
use diesel::{
    dsl::sql,
    prelude::*,
    sqlite::{Sqlite, SqliteConnection},
};
use domain::{
    access::{Access, AccessId, PublicAccessId, RunId},
    api_key::Owner,
    order::OrderId,
    person::Doer,
    ports::{AccessFilter, AccessLog, BusyReader, MaybeErased, MissingAccesses, StoreError},
};
use sql_rows::{
    Prepared, Utc,
    access_runs::{
        BegunRun, EndedRun, FirstNumber, MissingColumns, missing_access, missing_accesses,
        runs_over_before,
    },
    accesses::{
        AccessRow, accesses_before, accesses_from, accesses_up_to, busy_readers, busy_rows, newest,
        oldest_accesses, order_of_side, page_after, sides_and_operators,
    },
    orders::is_order_of,
    schema::{access_runs, accesses, orders},
};
use time::OffsetDateTime;

use crate::{
    failure::Failure,
    store::{SqliteStore, columns},
};

#[async_trait]
impl AccessLog for SqliteStore {
    async fn store(&self, accesses: &[Access]) -> Result<(), StoreError> {
        let Some(run) = accesses.first().map(|access| BegunRun::of(access.id)) else {
            return Ok(());
        };
        let rows: Vec<AccessRow> = accesses.iter().map(AccessRow::from).collect();
        self.transaction(move |connection| store(connection, &run, rows)).await
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
        let end = move |connection: &mut SqliteConnection| {
            let begun = diesel::insert_into(access_runs::table).values(&row);
            let ended = begun.on_conflict(access_runs::id).do_update().set(&row);
            ended.execute(connection)?;
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
        self.survey(move |connection| list(connection, &filter, before, limit)).await
    }

    async fn of_order(
        &self,
        owner: Owner,
        order: OrderId,
        before: Option<PublicAccessId>,
        limit: usize,
    ) -> Result<Option<MaybeErased<Option<Vec<Access>>>>, StoreError> {
        self.read_orders(move |connection| of_order(connection, owner, order, before, limit)).await
    }

    async fn remove_before(
        &self,
        instant: OffsetDateTime,
        limit: usize,
    ) -> Result<usize, StoreError> {
        self.transaction(move |connection| remove_before(connection, instant, limit)).await
    }

    async fn missing(&self, limit: usize) -> Result<Vec<MissingAccesses>, StoreError> {
        let missing = move |connection: &mut SqliteConnection| {
            let rows = sql::<MissingColumns>(&missing_accesses(limit)).load(connection)?;
            Ok(rows.into_iter().map(missing_access).collect())
        };
        self.survey(missing).await
    }

    async fn busy_readers(
        &self,
        between: (OffsetDateTime, OffsetDateTime),
        orders: u64,
    ) -> Result<Vec<BusyReader>, StoreError> {
        let busy = move |connection: &mut SqliteConnection| {
            Ok(busy_readers(busy_rows(between, orders).load(connection)?))
        };
        self.survey(busy).await
    }
}

/// Stores the access of a change, in its transaction.
pub(crate) fn store_access(
    connection: &mut SqliteConnection,
    access: Option<&Access>,
) -> QueryResult<()> {
    access.map_or(Ok(()), |access| insert(connection, &AccessRow::from(access)))
}

fn insert(connection: &mut SqliteConnection, row: &AccessRow) -> QueryResult<()> {
    // Unlike `ON CONFLICT DO NOTHING`, diesel builds the text of this once.
    let stored = diesel::insert_or_ignore_into(accesses::table).values(row);
    stored.execute(connection).map(drop)
}

fn store(
    connection: &mut SqliteConnection,
    run: &BegunRun,
    rows: Vec<AccessRow>,
) -> Result<(), Failure> {
    let begun = diesel::insert_into(access_runs::table).values(run);
    Prepared(begun.on_conflict_do_nothing()).execute(connection)?;
    for mut row in rows {
        if let (Some(order), Some(party)) = (row.asked_order_id, row.party) {
            let own = Prepared(order_of_side(order, party)).get_result(connection).optional()?;
            if own.is_some() {
                (row.order_id, row.asked_order_id) = (own, None);
            }
        }
        insert(connection, &row)?;
    }
    Ok(())
}

pub(crate) fn list(
    connection: &mut SqliteConnection,
    filter: &AccessFilter,
    before: Option<AccessId>,
    limit: usize,
) -> Result<Vec<Access>, Failure> {
    let listed = || {
        let listed = accesses_before(before, limit).select(columns::<AccessRow>());
        let mut listed = listed.into_boxed::<Sqlite>();
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
        rows = listed().filter(accesses::order_id.eq(order.0)).load(connection)?;
        let asked = listed().filter(accesses::asked_order_id.eq(order.0));
        rows.extend(asked.load::<AccessRow>(connection)?);
    } else {
        rows = listed().load(connection)?;
    }
    Ok(newest(rows, limit))
}

pub(crate) fn of_order(
    connection: &mut SqliteConnection,
    owner: Owner,
    order: OrderId,
    before: Option<PublicAccessId>,
    limit: usize,
) -> Result<Option<MaybeErased<Option<Vec<Access>>>>, Failure> {
    let own = orders::table.find(order.0).filter(is_order_of(owner));
    let own = own.select((orders::erased_at, orders::client_id, orders::signing_service_id));
    let (client, service) = match Prepared(own).get_result(connection).optional()? {
        None => return Ok(None),
        Some((Some::<Utc>(_erased_at), _, _)) => return Ok(Some(MaybeErased::Erased)),
        Some((None, client, service)) => (client, service),
    };
    let of_order = accesses_from(before, limit)
        .filter(sides_and_operators(order, client, service))
        .select(columns::<AccessRow>());
    let rows: Vec<AccessRow> = Prepared(of_order).get_results(connection)?;
    Ok(Some(MaybeErased::Whole(page_after(before, rows, limit))))
}

pub(crate) fn remove_before(
    connection: &mut SqliteConnection,
    instant: OffsetDateTime,
    limit: usize,
) -> Result<usize, Failure> {
    let oldest: Vec<(Utc, i64, i64)> = oldest_accesses(instant, limit).load(connection)?;
    if let Some(last) = oldest.last() {
        let removed = diesel::delete(accesses_up_to(*last));
        let removed = removed.returning((accesses::run, accesses::number)).load(connection)?;
        for row in FirstNumber::after(removed) {
            let begun = (&row, access_runs::seen_at.eq(Some(Utc(instant))));
            let begun = diesel::insert_into(access_runs::table).values(begun);
            let raised = begun.on_conflict(access_runs::id).do_update().set(&row);
            // An access that was stored late may be removed after later ones.
            let is_larger = access_runs::first_number.lt(row.first_number);
            let raised = diesel::query_dsl::methods::FilterDsl::filter(raised, is_larger);
            raised.execute(connection)?;
        }
    }
    if oldest.len() < limit {
        diesel::delete(runs_over_before(instant)).execute(connection)?;
    }
    Ok(oldest.len())
}
