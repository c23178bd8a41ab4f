//! Changes of the status or the notary of an order, first downloads, and late checksums.

use diesel::{dsl::sql, prelude::*, sql_types::Nullable, sqlite::SqliteConnection};
use domain::{
    order::DocumentId,
    ports::{Download, ListedOrder, OrderUpdate},
};
use sql_rows::{
    Instant, Prepared, Utc,
    documents::{document_row, not_downloaded_before},
    orders::{
        ListedRow,
        update::{ChangedOrder, changeable_order, changed_notary, changed_notary_text},
    },
    schema::{documents, orders},
};

use crate::{accesses::store_access, failure::Failure, store::columns};

/// Changes an order, if it may be changed so.
pub(super) fn update(
    connection: &mut SqliteConnection,
    update: &OrderUpdate,
) -> Result<Option<ListedOrder>, Failure> {
    let at = sql::<Instant>("max(").bind::<Instant, _>(Utc(update.at));
    // The greatest number plus one is no integer, and no column takes it.
    let at = at.sql(", min(updated_at, 9223372036854775806) + 1)");
    let change = diesel::update(changeable_order(update))
        .set((
            ChangedOrder::from(update),
            orders::notary.eq(changed_notary(update)),
            orders::notary_text.eq(changed_notary_text(update)),
            orders::updated_at.eq(at),
        ))
        .returning(columns::<ListedRow>());
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
        let later = sql::<Nullable<Instant>>("max(").bind::<Instant, _>(at);
        let later = later.sql(", min(coalesce(touched_at, 0), 9223372036854775806) + 1)");
        let order = diesel::update(orders::table.find(document.order.0));
        Prepared(order.set(orders::touched_at.eq(later))).execute(connection)?;
    }
    Ok(())
}

/// Stores the CRC-32 of a document.
pub(super) fn store_crc32(
    connection: &mut SqliteConnection,
    document: DocumentId,
    crc32: u32,
) -> Result<(), Failure> {
    let crc32 = documents::crc32.eq(Some(i64::from(crc32)));
    Prepared(diesel::update(document_row(document)).set(crc32)).execute(connection)?;
    Ok(())
}
