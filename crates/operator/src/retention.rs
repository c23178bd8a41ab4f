//! What erasures leave outside of the rows of orders.

use std::{collections::BTreeSet, path::PathBuf, sync::Arc};

use adapter_mail::{MailsOf, orders_of_mails, remove_mails};
use anyhow::Result;
use domain::{
    access::recorder::ActorAccesses,
    ports::{BlobStore, Clock, OrderAdmin},
    use_cases::{erase_orders::EraseOrders, upkeep::erase_old_orders::Retention},
};
use time::{Duration, OffsetDateTime};
use tokio::task::spawn_blocking;

use crate::{
    adapters::Storage,
    settings::{Database, Settings},
};

/// Orders of mails that are looked up at once.
const FOUND_AT_ONCE: usize = 1_000;

/// Pause between two rewrites of the embedded database: each copies all of it, and writes wait meanwhile.
const REWRITE_PAUSE: Duration = Duration::DAY;

/// Removes the mails of all erased orders from a mail drop, also those that an interrupted erasure left.
/// Returns their number.
///
/// # Errors
/// The mail drop or the database fails.
pub(crate) async fn remove_mails_of_erased(
    admin: &dyn OrderAdmin,
    folder: PathBuf,
) -> Result<usize> {
    let path = folder.clone();
    let found: Vec<_> =
        spawn_blocking(move || orders_of_mails(&path)).await??.into_iter().collect();
    let mut erased = BTreeSet::new();
    for ids in found.chunks(FOUND_AT_ONCE) {
        erased.extend(admin.erased(ids).await?);
    }
    let removal = move || remove_mails(&folder, &MailsOf::Orders(erased));
    Ok(spawn_blocking(removal).await??)
}

/// Removes what erasures of the service itself leave outside of the rows of orders.
pub struct ErasureRemains {
    admin: Arc<dyn OrderAdmin>,
    clock: Arc<dyn Clock>,
    mail_drop: Option<PathBuf>,
    sqlite: Option<PathBuf>,
    rewritten_at: Option<OffsetDateTime>,
    /// Whether something may be left, as after an interrupted erasure.
    is_left: bool,
}

impl ErasureRemains {
    /// Returns what the erasures of a service leave.
    ///
    /// # Errors
    /// The setting of the database is wrong.
    pub fn of(
        settings: &Settings,
        admin: Arc<dyn OrderAdmin>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self> {
        let sqlite = match settings.database()? {
            Database::Sqlite(path) => Some(path),
            Database::Postgres(_) => None,
        };
        let mail_drop = settings.mail_drop();
        Ok(Self { admin, clock, mail_drop, sqlite, rewritten_at: None, is_left: true })
    }

    /// Removes mails of erased orders that no worker attempts any more, after an erasure; and bytes that
    /// SQLite keeps in its files, at most once a day. What cannot be removed yet is removed by a later call.
    ///
    /// # Errors
    /// The mail drop or the database fails. A later call repeats it all.
    pub async fn remove(&mut self, has_erased: bool) -> Result<()> {
        self.is_left |= has_erased;
        if self.is_left {
            let mails = self.admin.mails_of_erased().await?;
            let in_progress = self.admin.remove_mails(&mails, self.clock.now()).await?;
            if let Some(folder) = self.mail_drop.clone() {
                remove_mails_of_erased(&*self.admin, folder).await?;
            }
            self.is_left = in_progress > 0;
        }
        let now = self.clock.now();
        let is_due = self.rewritten_at.is_none_or(|at| now - at >= REWRITE_PAUSE);
        if let Some(path) = self.sqlite.clone().filter(|_| is_due) {
            self.rewritten_at = Some(now);
            // It does nothing unless an order was erased. A reader may keep the log in use: the next one
            // empties it.
            spawn_blocking(move || adapter_sqlite::rewrite(&path)).await??;
        }
        Ok(())
    }
}

/// Returns what erases orders.
pub fn erase_orders(
    storage: &Storage,
    blobs: Arc<dyn BlobStore>,
    clock: Arc<dyn Clock>,
    accesses: Option<ActorAccesses>,
) -> EraseOrders {
    EraseOrders {
        admin: storage.admin.clone(),
        uploads: storage.uploads.clone(),
        blobs,
        clock,
        accesses,
    }
}

impl Settings {
    /// Returns how long orders and documents are kept.
    pub fn retention(&self) -> Retention {
        let days = |days: u32| (days > 0).then(|| Duration::days(days.into()));
        Retention {
            orders: days(self.erase_after_days),
            documents: days(self.erase_documents_after_days),
        }
    }
}
