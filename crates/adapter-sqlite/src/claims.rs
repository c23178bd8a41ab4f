//! Claims of idempotency keys, and why documents were not added.

use std::future::{Ready, ready};

use diesel::sqlite::SqliteConnection;
use domain::{
    idempotency::Claim,
    ports::{NewDocuments, WriteError},
};
use sql_rows::{KeyRow, Utc};

use crate::{failure::Failure, ports::key_use, store::SqliteStore};

/// Takes a key that is free at an instant.
pub(crate) async fn claim(
    store: &SqliteStore,
    claim: &Claim,
    now: Utc,
    until: Utc,
) -> Result<(), WriteError> {
    let claim = claim.clone();
    let take = async move |connection: &mut SqliteConnection| {
        let key_use = key_use::in_use(connection, &claim, now).await?;
        if key_use.is_none() {
            let row = KeyRow::claimed(&claim, now, until);
            key_use::remember(connection, &row).await?;
        }
        Ok(key_use)
    };
    let key_use = store.transaction_ported::<_, WriteError>(take).await?;
    key_use.map_or(Ok(()), |key_use| Err(WriteError::KeyInUse(key_use)))
}

/// Returns why documents were not added.
pub(crate) fn rejection(_: &SqliteStore, failure: Failure, _: &NewDocuments) -> Ready<WriteError> {
    ready(match failure {
        Failure::Swept => WriteError::UploadSwept,
        failure => failure.into(),
    })
}
