//! Changes of the status or the notary of an order, first downloads, and late checksums.

use diesel::{
    dsl::sql,
    prelude::*,
    sql_types::{Bool, Nullable},
};
use diesel_async::{AsyncPgConnection, RunQueryDsl};
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

use crate::{accesses::WithAccess, failure::Failure, locks, statement::columns};

/// Changes an order in one statement, if it may be changed so. `limits` sets the time limits of the statement.
pub(super) async fn update(
    connection: &mut AsyncPgConnection,
    update: &OrderUpdate,
    limits: &str,
) -> Result<Option<ListedOrder>, Failure> {
    let at = sql::<Instant>("greatest(").bind::<Instant, _>(Utc(update.at));
    let at = at.sql(", updated_at + interval '1 microsecond')");
    let order = changeable_order(update).filter(sql::<Bool>(limits));
    let change = diesel::update(order)
        .set((
            ChangedOrder::from(update),
            orders::notary.eq(changed_notary(update)),
            orders::notary_text.eq(changed_notary_text(update)),
            orders::updated_at.eq(at),
        ))
        .returning(columns::<ListedRow>());
    let change = WithAccess::new(change, update.access.as_ref());
    let changed: Vec<ListedRow> = Prepared(change).get_results(connection).await?;
    // The statement has changed it: a record that cannot be read must not make a failure of that.
    let changed = changed.into_iter().map(ListedRow::into_known);
    Ok(changed.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().next())
}

/// Stores when documents were first downloaded.
pub(super) async fn note_downloads(
    connection: &mut AsyncPgConnection,
    downloads: &[Download],
) -> Result<(), Failure> {
    let orders: Vec<i64> = downloads.iter().map(|download| download.document.order.0).collect();
    locks::lock(connection, "orders", &orders).await?;
    for &Download { document, at } in downloads {
        let at = Utc(at);
        let noted = diesel::update(not_downloaded_before(document, at))
            .set(documents::first_downloaded_at.eq(Some(at)));
        if Prepared(noted).execute(connection).await? == 0 {
            continue;
        }
        let later = sql::<Nullable<Instant>>("greatest(").bind::<Instant, _>(at);
        let later = later.sql(", touched_at + interval '1 microsecond')");
        let order = diesel::update(orders::table.find(document.order.0));
        Prepared(order.set(orders::touched_at.eq(later))).execute(connection).await?;
    }
    Ok(())
}

/// Stores the CRC-32 of a document.
pub(super) async fn store_crc32(
    connection: &mut AsyncPgConnection,
    document: DocumentId,
    crc32: u32,
) -> Result<(), Failure> {
    let crc32 = documents::crc32.eq(Some(i64::from(crc32)));
    Prepared(diesel::update(document_row(document)).set(crc32)).execute(connection).await?;
    Ok(())
}
