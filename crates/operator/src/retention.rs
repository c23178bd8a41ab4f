//! Wires the use cases that erase orders, and the mails of erased orders.

use std::{collections::BTreeSet, path::PathBuf, sync::Arc};

use adapter_mail::{MailsOf, orders_of_mails, remove_mails};
use anyhow::Result;
use domain::{
    ports::{BlobStore, Clock, OrderAdmin},
    use_cases::{
        accesses::recorder::ActorAccesses, erase_orders::EraseOrders,
        upkeep::erase_old_orders::Retention,
    },
};
use time::Duration;
use tokio::task::spawn_blocking;

use crate::{adapters::Storage, settings::Settings};

/// Orders of mails that are looked up at once.
const FOUND_AT_ONCE: usize = 1_000;

/// Removes the mails of all erased orders from a mail drop, also those that an interrupted erasure left.
/// Returns their number.
///
/// # Errors
/// The mail drop or the database fails.
pub async fn remove_mails_of_erased(admin: &dyn OrderAdmin, folder: PathBuf) -> Result<usize> {
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
