//! Records of signing services.

use async_trait::async_trait;
use diesel::{
    dsl::{exists, select},
    prelude::*,
    sqlite::SqliteConnection,
};
use domain::{
    order::SigningServiceId,
    ports::{ServiceRepo, Standing, StoreError},
    signing_service::SigningService,
};
use sql_rows::{schema::signing_services, signing_services::ServiceRow};

use crate::store::SqliteStore;

#[async_trait]
impl ServiceRepo for SqliteStore {
    async fn add(&self, service: &SigningService) -> Result<bool, StoreError> {
        let add = diesel::insert_into(signing_services::table)
            .values(ServiceRow::from(service))
            .on_conflict_do_nothing();
        Ok(self.execute(add).await? > 0)
    }

    async fn change(&self, service: &SigningService) -> Result<bool, StoreError> {
        let row = signing_services::table.find(service.id.0);
        Ok(self.execute(diesel::update(row).set(ServiceRow::from(service))).await? > 0)
    }

    async fn remove(&self, id: SigningServiceId) -> Result<bool, StoreError> {
        let row = signing_services::table.find(id.0);
        Ok(self.execute(diesel::delete(row)).await? > 0)
    }

    async fn find(&self, ids: &[SigningServiceId]) -> Result<Vec<SigningService>, StoreError> {
        let ids: Vec<i64> = ids.iter().map(|id| id.0).collect();
        let rows = signing_services::table.filter(signing_services::id.eq_any(ids));
        self.select(rows, ServiceRow::into_service).await
    }

    async fn standing(&self, id: SigningServiceId) -> Result<Standing, StoreError> {
        let own = signing_services::table.find(id.0);
        let standing = select((
            exists(own.select(signing_services::id)),
            exists(signing_services::table.select(signing_services::id)),
        ));
        let read = move |connection: &mut SqliteConnection| Ok(standing.get_result(connection)?);
        let (has_record, any): (bool, bool) = self.read(read).await?;
        Ok(match (has_record, any) {
            (true, _) => Standing::Recorded,
            (false, true) => Standing::Unknown,
            (false, false) => Standing::NoRecords,
        })
    }

    async fn all(&self) -> Result<Vec<SigningService>, StoreError> {
        let rows = signing_services::table.order(signing_services::id);
        self.select(rows, ServiceRow::into_service).await
    }
}
