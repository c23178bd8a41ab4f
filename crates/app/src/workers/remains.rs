//! Removes what erasures of the service leave outside of the rows of orders.

use std::{path::PathBuf, sync::Arc};

use adapter_sqlite::Rewrite;
use anyhow::Result;
use domain::ports::{Clock, OrderAdmin};
use operator::{
    retention::remove_mails_of_erased,
    settings::{Database, Settings},
};
use time::Duration;
use tokio::task::spawn_blocking;

/// Pause between two rewrites of the embedded database: each copies all of it, and writes wait meanwhile.
const REWRITE_PAUSE: Duration = Duration::DAY;

/// The same after a rewrite that did not succeed.
const RETRY_PAUSE: Duration = Duration::HOUR;

/// Removes what erasures of the service itself leave outside of the rows of orders.
pub(super) struct ErasureRemains {
    admin: Arc<dyn OrderAdmin>,
    clock: Arc<dyn Clock>,
    mail_drop: Option<PathBuf>,
    /// The database, unless other instances share it.
    sqlite: Option<PathBuf>,
    /// When the database may be rewritten, by the monotonic clock.
    rewrite_at: Duration,
    /// Whether something may be left, as after an interrupted erasure.
    is_left: bool,
}

impl ErasureRemains {
    /// Returns what the erasures of a service leave.
    ///
    /// # Errors
    /// The setting of the database is wrong.
    pub(super) fn of(
        settings: &Settings,
        admin: Arc<dyn OrderAdmin>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self> {
        let sqlite = match settings.database()? {
            Database::Sqlite(path) => Some(path),
            Database::Postgres(_) => None,
        };
        let mail_drop = settings.mail_drop();
        let rewrite_at = Duration::ZERO;
        Ok(Self { admin, clock, mail_drop, sqlite, rewrite_at, is_left: true })
    }

    /// Removes mails of erased orders that no worker attempts any more, after an erasure; and bytes that
    /// SQLite keeps in its files, at most once a day. What cannot be removed yet is removed by a later call.
    ///
    /// # Errors
    /// The mail drop or the database fails. A later call repeats it all.
    pub(super) async fn remove(&mut self, has_erased: bool) -> Result<()> {
        self.is_left |= has_erased;
        let mut in_progress = 0;
        if self.is_left {
            let mails = self.admin.mails_of_erased().await?;
            in_progress = self.admin.remove_mails(&mails, self.clock.now()).await?;
        }
        // Each instance has its own mail drop, and any may have erased.
        let is_shared = self.sqlite.is_none();
        if let Some(folder) = self.mail_drop.clone().filter(|_| self.is_left || is_shared) {
            remove_mails_of_erased(&*self.admin, folder).await?;
        }
        self.is_left = in_progress > 0;
        self.rewrite().await
    }

    async fn rewrite(&mut self) -> Result<()> {
        let now = self.clock.monotonic();
        let Some(path) = self.sqlite.clone().filter(|_| now >= self.rewrite_at) else {
            return Ok(());
        };
        let rewritten = spawn_blocking(move || adapter_sqlite::rewrite(&path)).await;
        self.rewrite_at = now
            + match rewritten {
                Ok(Ok(Rewrite::NotDue)) => Duration::ZERO,
                Ok(Ok(Rewrite::Done)) => REWRITE_PAUSE,
                _ => RETRY_PAUSE,
            };
        rewritten??;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use adapter_sqlite::{SqliteStore, rewrite};
    use contract_tests::{
        fakes::ManualClock,
        samples::{NOW, WINDOW, new_order},
    };
    use domain::{order::OrderId, ports::OrderRepo as _};
    use tempfile::TempDir;

    use super::*;

    /// A database, a mail drop, and what erasures leave there.
    struct Erasures {
        folder: TempDir,
        store: Arc<SqliteStore>,
        clock: Arc<ManualClock>,
        remains: ErasureRemains,
    }

    impl Erasures {
        async fn new(is_shared: bool) -> Self {
            let folder = tempfile::tempdir().unwrap();
            let database = folder.path().join("orders.db");
            let store = Arc::new(
                SqliteStore::open(&database, adapter_sqlite::TimeLimits::default()).unwrap(),
            );
            store.migrate().await.unwrap();
            let clock = Arc::new(ManualClock::default());
            let remains = ErasureRemains {
                admin: store.clone(),
                clock: clock.clone(),
                mail_drop: Some(folder.path().to_owned()),
                sqlite: (!is_shared).then_some(database),
                rewrite_at: Duration::ZERO,
                is_left: true,
            };
            Self { folder, store, clock, remains }
        }

        /// Creates an order with a mail in the mail drop.
        async fn order(&self, file_number: &str) -> (OrderId, PathBuf) {
            let id = self.store.create(&new_order(file_number, NOW), WINDOW).await.unwrap();
            let mail = self.folder.path().join(format!("{:032x}.eml", id.0));
            fs::write(&mail, format!("X-Notary-Orders-Order: {}\r\n\r\n", id.0)).unwrap();
            (id, mail)
        }

        async fn erase(&self, id: OrderId) {
            self.store.erase(id, NOW, None).await.unwrap();
        }

        async fn remove(&mut self) -> Result<()> {
            self.remains.remove(false).await
        }

        /// Returns whether the database has bytes of erased orders, and rewrites it then.
        fn was_left(&self) -> bool {
            rewrite(&self.folder.path().join("orders.db")).unwrap() == Rewrite::Done
        }
    }

    #[tokio::test]
    async fn instances_remove_mails_of_orders_that_others_erase() {
        for is_shared in [true, false] {
            let mut remains = Erasures::new(is_shared).await;
            let (erased, gone) = remains.order("F-1").await;
            let (_, kept) = remains.order("F-2").await;
            remains.remove().await.unwrap();
            assert!(gone.exists() && kept.exists());
            remains.erase(erased).await;
            remains.remove().await.unwrap();
            assert_eq!((!gone.exists(), kept.exists()), (is_shared, true));
        }
    }

    #[tokio::test]
    async fn database_is_rewritten_once_a_day_at_most() {
        let mut remains = Erasures::new(false).await;
        let minute = Duration::MINUTE;
        let mut ids = Vec::new();
        for file_number in ["F-1", "F-2", "F-3"] {
            ids.push(remains.order(file_number).await.0);
        }
        remains.remove().await.unwrap();
        // Nothing was rewritten, so it waits for nothing.
        remains.erase(ids[0]).await;
        remains.remove().await.unwrap();
        assert!(!remains.was_left());
        remains.erase(ids[1]).await;
        remains.clock.advance(Duration::DAY - minute);
        remains.remove().await.unwrap();
        assert!(remains.was_left());
        remains.erase(ids[2]).await;
        remains.clock.advance(minute);
        remains.remove().await.unwrap();
        assert!(!remains.was_left());
    }

    #[tokio::test]
    async fn failed_rewrite_is_repeated_after_an_hour() {
        let mut remains = Erasures::new(false).await;
        let id = remains.order("F-1").await.0;
        remains.erase(id).await;
        let database = remains.remains.sqlite.replace(remains.folder.path().to_owned());
        remains.remove().await.unwrap_err();
        remains.remains.sqlite = database;
        remains.clock.advance(Duration::HOUR);
        remains.remove().await.unwrap();
        assert!(!remains.was_left());
    }
}
