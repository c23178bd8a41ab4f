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
use domain::document::{ObjectKey, Sha256Digest};
use sql_rows::{Unreadable, schema::documents};

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

/// A document of a copy: what every version of the schema knows of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopiedDocument {
    /// Where its bytes are.
    pub key: ObjectKey,
    /// Their number.
    pub size: u64,
    /// Their hash.
    pub sha256: Sha256Digest,
}

/// A copy of a database, opened to be read.
pub struct DatabaseCopy(SqliteConnection);

impl DatabaseCopy {
    /// Copies the database at `source` into the new file `copy`, which only its owner can read.
    ///
    /// - The copy is the state of one instant. Other processes read and write meanwhile, and the
    ///   copy ends however much they write.
    /// - It is durable when the call returns.
    /// - It has no uploads in progress: their objects may be those of later orders. It has no sessions and
    ///   ceremonies: one that was ended later must not go on in a restored copy.
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
        leave_out(&mut establish(copy)?)?;
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
    ) -> Result<Vec<CopiedDocument>, BackupError> {
        let rows: Vec<(Option<String>, i64, Vec<u8>)> = documents::table
            .filter(documents::key.gt(after))
            .order(documents::key)
            .limit(limit.into())
            .select((documents::key, documents::size, documents::sha256))
            .load(&mut self.0)?;
        let documents = rows.into_iter().filter_map(|(key, size, sha256)| {
            let key = ObjectKey::from_stored(key?);
            Some(CopiedDocument::read(key, size, sha256))
        });
        Ok(documents.collect::<Result<_, _>>()?)
    }
}

impl CopiedDocument {
    fn read(key: ObjectKey, size: i64, sha256: Vec<u8>) -> Result<Self, Unreadable> {
        let unreadable = |column: &str| Unreadable::new("documents", &key.as_str(), &column);
        let bytes = u64::try_from(size).map_err(|_| unreadable("size"))?;
        let sha256: [u8; 32] = sha256.try_into().map_err(|_| unreadable("sha256"))?;
        Ok(Self { size: bytes, sha256: Sha256Digest(sha256), key })
    }
}

/// Empties the tables that a copy must not have. The schema of an older version lacks some of them.
fn leave_out(copy: &mut SqliteConnection) -> QueryResult<()> {
    const LEFT_OUT: [&str; 3] = ["uploads", "sessions", "ceremonies"];
    let tables = "SELECT name FROM sqlite_schema WHERE type = 'table'";
    let tables: Vec<String> = diesel::dsl::sql::<Text>(tables).load(copy)?;
    for table in LEFT_OUT.into_iter().filter(|table| tables.iter().any(|it| it == table)) {
        copy.batch_execute(&format!("DELETE FROM {table}"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use contract_tests::samples::{
        NOW, WINDOW, by_passkey, document, new_invitation, new_order, new_person, new_session,
        object_key,
    };
    use domain::{
        document::StoredDocument,
        person::Role,
        ports::{NewOrder, OrderRepo as _, PersonRepo as _, SessionRepo, UploadLedger as _},
    };

    use super::*;
    use crate::SqliteStore;

    #[tokio::test]
    async fn copy_has_all_committed_orders_and_no_uploads_and_sessions() {
        let directory = tempfile::tempdir().unwrap();
        let (source, target) = (directory.path().join("source"), directory.path().join("copy"));
        let store = SqliteStore::open_patiently(&source).unwrap();
        store.migrate().await.unwrap();
        let documents = vec![document()];
        let order = NewOrder { documents: documents.clone(), ..new_order("F-1", NOW) };
        store.record(&[documents[0].key.clone().unwrap(), object_key()], NOW).await.unwrap();
        store.create(&order, WINDOW).await.unwrap();
        let invitation = new_invitation();
        store.invite(&new_person(Role::Member), &invitation).await.unwrap();
        let person = store.accept(invitation.token, &by_passkey(), NOW).await.unwrap();
        let session = new_session(person.id, NOW);
        SessionRepo::add(&store, &session, None).await.unwrap().unwrap();
        // Another process is in the middle of a transaction.
        let mut writer = establish(&source).unwrap();
        writer.batch_execute("BEGIN IMMEDIATE; DELETE FROM documents").unwrap();

        let mut copy = DatabaseCopy::make(&source, &target).unwrap();

        let document_bytes = i64::try_from(documents[0].size).unwrap();
        let totals = Totals { orders: 1, documents: 1, document_bytes };
        assert_eq!(copy.totals().unwrap(), totals);
        let copied = copy.documents("", 10).unwrap();
        let StoredDocument { key, size, sha256, .. } = documents[0].clone();
        assert_eq!(copied, [CopiedDocument { key: key.unwrap(), size, sha256 }]);
        assert!(
            copy.documents(documents[0].key.as_ref().unwrap().as_str(), 10).unwrap().is_empty()
        );
        let left = "SELECT (SELECT count(*) FROM uploads) + (SELECT count(*) FROM sessions) \
            + (SELECT count(*) FROM ceremonies)";
        let left = diesel::dsl::sql::<BigInt>(left);
        assert_eq!(left.get_result::<i64>(&mut copy.0), Ok(0));
        // A file is never overwritten.
        assert!(matches!(DatabaseCopy::make(&source, &target), Err(BackupError::File(_))));
    }
}
