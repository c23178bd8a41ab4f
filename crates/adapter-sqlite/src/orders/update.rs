//! Changes of the status or the notary of an order, and first downloads.

use diesel::{dsl::sql, prelude::*, sqlite::SqliteConnection};
use domain::ports::{Download, ListedOrder, OrderUpdate};
use sql_rows::{
    Instant, Prepared, Utc,
    documents::not_downloaded_before,
    orders::{
        ListedRow,
        update::{ChangedOrder, changeable_order, changed_notary},
    },
    schema::{documents, orders},
};

use crate::{accesses::store_access, failure::Failure};

/// Changes an order, if it may be changed so.
pub(super) fn update(
    connection: &mut SqliteConnection,
    update: &OrderUpdate,
) -> Result<Option<ListedOrder>, Failure> {
    let at = sql::<Instant>("max(").bind::<Instant, _>(Utc(update.at)).sql(", updated_at + 1)");
    let change = diesel::update(changeable_order(update))
        .set((
            ChangedOrder::from(update),
            orders::notary.eq(changed_notary(update)),
            orders::updated_at.eq(at),
        ))
        .returning(ListedRow::as_select());
    let changed = Prepared(change).get_result(connection).optional()?;
    if changed.is_some() {
        store_access(connection, update.access.as_ref())?;
    }
    Ok(changed.map(ListedRow::into_known).transpose()?.flatten())
}

/// Stores when documents were first downloaded.
pub(super) fn note_downloads(
    connection: &mut SqliteConnection,
    downloads: &[Download],
) -> Result<(), Failure> {
    for &Download { document, at } in downloads {
        let at = Utc(at);
        let noted = diesel::update(not_downloaded_before(document, at))
            .set(documents::first_downloaded_at.eq(Some(at)));
        if Prepared(noted).execute(connection)? == 0 {
            continue;
        }
        let later = sql::<Instant>("max(").bind::<Instant, _>(at);
        let later = later.sql(", updated_at + 1)");
        let order = diesel::update(orders::table.find(document.order.0));
        Prepared(order.set(orders::updated_at.eq(later))).execute(connection)?;
    }
    Ok(())
}
