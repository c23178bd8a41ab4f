//! The installation to which the database belongs.

use async_trait::async_trait;
use diesel::{prelude::*, sqlite::SqliteConnection};
use domain::{
    installation::Installation,
    ports::{InstallationRepo, StoreError},
};
use sql_rows::{installation::InstallationRow, schema::installation};

use crate::{
    failure::Failure,
    store::{SqliteStore, columns},
};

fn recorded(connection: &mut SqliteConnection) -> Result<Option<Installation>, Failure> {
    let row: QueryResult<InstallationRow> =
        installation::table.select(columns::<InstallationRow>()).first(connection);
    Ok(row.optional()?.map(Installation::from))
}

#[async_trait]
impl InstallationRepo for SqliteStore {
    async fn database_identity(&self) -> Result<String, StoreError> {
        let database = self.database.clone();
        self.read(move |_| database.describe_file()).await
    }

    async fn recorded(&self) -> Result<Option<Installation>, StoreError> {
        self.read(recorded).await
    }

    async fn record_first(&self, installation: &Installation) -> Result<Installation, StoreError> {
        let row = InstallationRow::from(installation);
        let own = installation.clone();
        self.transaction(move |connection| {
            let add = diesel::insert_into(installation::table).values(row);
            add.on_conflict_do_nothing().execute(connection)?;
            Ok(recorded(connection)?.unwrap_or(own))
        })
        .await
    }

    async fn replace(&self, installation: &Installation) -> Result<(), StoreError> {
        let row = InstallationRow::from(installation);
        let replace = diesel::replace_into(installation::table).values(row);
        self.execute(replace).await.map(drop)
    }
}
