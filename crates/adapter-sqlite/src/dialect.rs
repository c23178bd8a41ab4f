//! What the modules that both databases share need of this one: their connection, and the
//! statements that differ.

use std::future::{Ready, ready};

use diesel::{
    connection::SimpleConnection as _,
    dsl::not,
    prelude::*,
    query_dsl::methods::{ExecuteDsl, LoadQuery},
    sqlite::SqliteConnection,
};
use sql_rows::{
    DocumentRow, Utc,
    schema::{documents, uploads},
};

pub(crate) use crate::store::SqliteStore as Store;
use crate::{database::MARK_ERASURE, failure::Failure};

pub(crate) use diesel::sqlite::Sqlite as Backend;
pub(crate) type Connection = SqliteConnection;

/// Runs statements like the trait of `diesel-async`. The futures are ready.
pub(crate) trait RunQueryDsl: Sized {
    fn execute(self, connection: &mut Connection) -> Ready<QueryResult<usize>>
    where
        Self: ExecuteDsl<Connection>,
    {
        ready(ExecuteDsl::execute(self, connection))
    }

    fn get_result<'q, R>(self, connection: &mut Connection) -> Ready<QueryResult<R>>
    where
        Self: LoadQuery<'q, Connection, R>,
    {
        ready(diesel::RunQueryDsl::get_result(self, connection))
    }

    fn get_results<'q, R>(self, connection: &mut Connection) -> Ready<QueryResult<Vec<R>>>
    where
        Self: LoadQuery<'q, Connection, R>,
    {
        ready(diesel::RunQueryDsl::get_results(self, connection))
    }
}

impl<Q> RunQueryDsl for Q {}

/// Returns the horizon of pages: there is none, because orders are committed in the order of their
/// identifiers.
pub(crate) fn horizon(_: &mut Connection) -> Ready<QueryResult<i64>> {
    ready(Ok(i64::MAX))
}

/// Returns the SQL of a text in the details of an order.
pub(crate) fn member(path: &[&str]) -> String {
    format!("details ->> '$.{}'", path.join("."))
}

/// Marks the file, so that it is rewritten.
pub(crate) fn mark_erasure(connection: &mut Connection) -> Ready<QueryResult<()>> {
    ready(connection.batch_execute(MARK_ERASURE))
}

/// Locks nothing: a transaction that writes is alone.
pub(crate) fn lock(_: &mut Connection, _table: &str, _ids: &[i64]) -> Ready<QueryResult<()>> {
    ready(Ok(()))
}

/// A condition that is true: every commit is durable.
pub(crate) const DURABLE: &str = "1";

/// Like [`lock`].
pub(crate) fn lock_uploads(_: &mut Connection, _keys: &[String]) -> Ready<QueryResult<()>> {
    ready(Ok(()))
}

/// Like [`lock`].
pub(crate) fn lock_name(_: &mut Connection, _name: &str) -> Ready<QueryResult<()>> {
    ready(Ok(()))
}

/// Stores documents, and adopts their uploads: the keys leave the ledger. Fails if one is not there,
/// or condemned.
pub(crate) async fn store_documents(
    connection: &mut Connection,
    rows: Vec<DocumentRow>,
) -> Result<(), Failure> {
    for row in rows {
        let live = uploads::table.find(&row.key).filter(not(uploads::condemned));
        if diesel::delete(live).execute(connection).await? == 0 {
            return Err(Failure::Swept);
        }
        diesel::insert_into(documents::table).values(row).execute(connection).await?;
    }
    Ok(())
}

/// See [`crate::webhooks::wake`].
pub(crate) fn wake(
    connection: &mut Connection,
    endpoints: &[i64],
    at: Utc,
) -> Ready<Result<Vec<i64>, Failure>> {
    ready(crate::webhooks::wake(connection, endpoints, at))
}
