//! The installation of a database.

use diesel::prelude::*;
use domain::installation::Installation;

use crate::schema::installation;

/// The row. There is at most one.
#[derive(Debug, Queryable, Selectable, Insertable, AsChangeset)]
#[diesel(table_name = installation)]
pub struct InstallationRow {
    id: i32,
    database: String,
    documents: String,
}

impl From<&Installation> for InstallationRow {
    fn from(Installation { database, documents }: &Installation) -> Self {
        Self { id: 1, database: database.clone(), documents: documents.clone() }
    }
}

impl From<InstallationRow> for Installation {
    fn from(InstallationRow { database, documents, .. }: InstallationRow) -> Self {
        Self { database, documents }
    }
}
