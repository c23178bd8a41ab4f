//! The installation to which the database belongs.

use async_trait::async_trait;
use diesel::{
    dsl::sql,
    prelude::*,
    sql_types::{Bool, Text},
};
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use domain::{
    installation::Installation,
    ports::{InstallationRepo, StoreError},
};
use sql_rows::{installation::InstallationRow, schema::installation};

use crate::{failure::Failure, statement::columns, store::PostgresStore};

/// Whether the server tells what identifies its cluster. Compatible engines may not.
const HAS_CLUSTER: &str = "SELECT coalesce(has_function_privilege( \
    to_regprocedure('pg_control_system()'), 'EXECUTE'), false)";

/// Selects the identity of the cluster. A standby has the same. Another cluster has another, also after a restore of
/// a dump.
const CLUSTER: &str = "SELECT system_identifier::text FROM pg_control_system()";

/// A copy in the same cluster has another database, and one in the same database another table.
const TABLE: &str = "SELECT oid || '/' || 'installation'::regclass::oid FROM pg_database \
    WHERE datname = current_database()";

/// Returns what identifies this database.
pub(crate) async fn identity(connection: &mut AsyncPgConnection) -> Result<String, Failure> {
    let has_cluster: bool = sql::<Bool>(HAS_CLUSTER).get_result(connection).await?;
    let cluster: String = if has_cluster {
        sql::<Text>(CLUSTER).get_result(connection).await?
    } else {
        "unknown".to_owned()
    };
    let table: String = sql::<Text>(TABLE).get_result(connection).await?;
    Ok(format!("PostgreSQL cluster {cluster}, database and table {table}"))
}

async fn recorded(connection: &mut AsyncPgConnection) -> Result<Option<Installation>, Failure> {
    let row: QueryResult<InstallationRow> =
        installation::table.select(columns::<InstallationRow>()).first(connection).await;
    Ok(row.optional()?.map(Installation::from))
}

#[async_trait]
impl InstallationRepo for PostgresStore {
    async fn database_identity(&self) -> Result<String, StoreError> {
        self.read(identity).await
    }

    async fn recorded(&self) -> Result<Option<Installation>, StoreError> {
        self.read(recorded).await
    }

    async fn record_first(&self, installation: &Installation) -> Result<Installation, StoreError> {
        let add = diesel::insert_into(installation::table)
            .values(InstallationRow::from(installation))
            .on_conflict_do_nothing();
        self.execute(add).await?;
        Ok(self.recorded().await?.unwrap_or_else(|| installation.clone()))
    }

    async fn replace(&self, installation: &Installation) -> Result<(), StoreError> {
        let replace = diesel::insert_into(installation::table)
            .values(InstallationRow::from(installation))
            .on_conflict(installation::id)
            .do_update()
            .set(InstallationRow::from(installation));
        self.execute(replace).await.map(drop)
    }
}
