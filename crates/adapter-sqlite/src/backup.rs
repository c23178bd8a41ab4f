//! A copy of a database that is in use, and the documents to which the copy refers.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read as _},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

use diesel::{
    ConnectionError,
    connection::SimpleConnection as _,
    prelude::*,
    result::Error as DatabaseError,
    sql_query,
    sql_types::{BigInt, Text},
    sqlite::SqliteConnection,
};
use domain::document::StoredDocument;
use sql_rows::{
    Unreadable, Utc,
    documents::DocumentRow,
    schema::{documents, orders},
};

use crate::{
    TimeLimits,
    database::{Database, Mode, OpenError, establish},
    export::orphans,
};

/// How every database begins.
const HEADER: &[u8] = b"SQLite format 3\0";

/// The reason why a database was not copied, or a copy cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// The database cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The copy cannot be opened.
    #[error("the copy cannot be opened")]
    Copy(#[from] ConnectionError),
    /// The file of the copy cannot be written.
    #[error("the copy cannot be written")]
    File(#[from] io::Error),
    /// The database cannot be read, or the copy cannot be written.
    #[error(transparent)]
    Database(#[from] DatabaseError),
    /// A document of the copy has no size or hash that a document can have.
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
}

/// The number of orders and documents in a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, QueryableByName)]
pub struct Totals {
    /// Orders.
    #[diesel(sql_type = BigInt)]
    pub orders: i64,
    /// Documents.
    #[diesel(sql_type = BigInt)]
    pub documents: i64,
    /// Bytes of the documents.
    #[diesel(sql_type = BigInt)]
    pub document_bytes: i64,
}

/// A copy of a database, opened to be read.
pub struct DatabaseCopy(SqliteConnection);

impl DatabaseCopy {
    /// Copies the database at `source` into the new file `copy`, which only its owner can read.
    ///
    /// - The copy is the state of one instant. Other processes read and write meanwhile, and the
    ///   copy ends however much they write.
    /// - It is durable when the call returns.
    /// - It has no uploads in progress: their objects may be those of later orders.
    ///
    /// Blocks for as long as the disk needs. The schema is not updated.
    ///
    /// # Errors
    /// See [`BackupError`]. The file may have a part of the copy then.
    pub fn make(source: &Path, copy: &Path) -> Result<Self, BackupError> {
        let database = Database::at(source, Some(TimeLimits::default()))?;
        let mut database = database.connect(Mode::Write).map_err(OpenError::from)?;
        // SQLite writes into an empty file, and keeps its permissions.
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(copy)?;
        sql_query("VACUUM INTO ?")
            .bind::<Text, _>(copy.to_string_lossy().into_owned())
            .execute(&mut database)?;
        establish(copy)?.batch_execute("DELETE FROM uploads")?;
        File::open(copy)?.sync_all()?;
        Self::open(copy)
    }

    /// Opens a copy.
    ///
    /// # Errors
    /// The file is missing or no database.
    pub fn open(copy: &Path) -> Result<Self, BackupError> {
        // SQLite would create a missing file. No connection to a copy is open, whose locks this could drop.
        let mut start = Vec::new();
        File::open(copy)?.take(HEADER.len() as u64).read_to_end(&mut start)?;
        if start != HEADER {
            return Err(OpenError::NotADatabase.into());
        }
        let mut connection = establish(copy)?;
        connection.batch_execute("PRAGMA query_only = ON")?;
        Ok(Self(connection))
    }

    /// Returns what the copy has.
    ///
    /// # Errors
    /// The copy cannot be read.
    pub fn totals(&mut self) -> Result<Totals, BackupError> {
        let totals = sql_query(
            "SELECT (SELECT count(*) FROM orders) AS orders, count(*) AS documents,
                coalesce(sum(size), 0) AS document_bytes FROM documents WHERE key IS NOT NULL",
        );
        Ok(totals.get_result(&mut self.0)?)
    }

    /// Returns what rows lack whose parent is gone, and their number.
    ///
    /// # Errors
    /// The copy cannot be read.
    pub fn orphans(&mut self) -> Result<Vec<(String, i64)>, BackupError> {
        Ok(orphans(&mut self.0)?)
    }

    /// Returns up to `limit` documents whose keys come after `after`, in the order of their keys.
    ///
    /// # Errors
    /// The copy cannot be read.
    pub fn documents(
        &mut self,
        after: &str,
        limit: u32,
    ) -> Result<Vec<StoredDocument>, BackupError> {
        let rows: Vec<(DocumentRow, Utc)> = documents::table
            .inner_join(orders::table.on(orders::id.eq(documents::order_id)))
            .filter(documents::key.gt(after))
            .order(documents::key)
            .limit(limit.into())
            .select((DocumentRow::as_select(), orders::created_at))
            .load(&mut self.0)?;
        let documents = rows.into_iter().map(|(row, created_at)| row.into_document(created_at));
        Ok(documents.collect::<Result<_, _>>()?)
    }
}

#[cfg(test)]
mod tests {
    use contract_tests::samples::{NOW, WINDOW, document, new_order, object_key};
    use domain::ports::{NewOrder, OrderRepo as _, UploadLedger as _};

    use super::*;
    use crate::SqliteStore;

    #[tokio::test]
    async fn copy_has_all_committed_orders_and_no_uploads() {
        let directory = tempfile::tempdir().unwrap();
        let (source, target) = (directory.path().join("source"), directory.path().join("copy"));
        let store = SqliteStore::open_patiently(&source).unwrap();
        store.migrate().await.unwrap();
        let documents = vec![document()];
        let order = NewOrder { documents: documents.clone(), ..new_order("F-1", NOW) };
        store.record(&[documents[0].key.clone().unwrap(), object_key()], NOW).await.unwrap();
        store.create(&order, WINDOW).await.unwrap();
        // Another process is in the middle of a transaction.
        let mut writer = establish(&source).unwrap();
        writer.batch_execute("BEGIN IMMEDIATE; DELETE FROM documents").unwrap();

        let mut copy = DatabaseCopy::make(&source, &target).unwrap();

        let document_bytes = i64::try_from(documents[0].size).unwrap();
        let totals = Totals { orders: 1, documents: 1, document_bytes };
        assert_eq!(copy.totals().unwrap(), totals);
        let copied = copy.documents("", 10).unwrap();
        assert!(copied == documents);
        assert!(
            copy.documents(documents[0].key.as_ref().unwrap().as_str(), 10).unwrap().is_empty()
        );
        let uploads = diesel::dsl::sql::<BigInt>("SELECT count(*) FROM uploads");
        assert_eq!(uploads.get_result::<i64>(&mut copy.0), Ok(0));
        // A file is never overwritten.
        assert!(matches!(DatabaseCopy::make(&source, &target), Err(BackupError::File(_))));
    }
}
