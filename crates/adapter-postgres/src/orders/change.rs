//! Carries out commands on orders: locks, loads, has the domain decide, and writes.

use diesel::{dsl::sql, prelude::*, sql_types::Text};
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use domain::{
    document::{DocumentKind, ObjectKey},
    order::{
        DocumentId, EmailAddress, OrderBefore, OrderCommand, OrderEffects, OrderId, Refusal,
        change::DocumentBefore, reason_of,
    },
    ports::{Changed, ListedOrder, MaybeErased, OrderCommandRequest, WriteError},
};
use sql_rows::{
    Prepared, Utc,
    documents::{DocumentBeforeRow, document_row, documents_before},
    idempotency_keys::KeyRow,
    order_changes::{OrderChangeRow, changes_of},
    order_notes::note_count,
    order_recipients::told_contacts,
    orders::{
        ListedRow,
        change::{ChangeRows, OrderBeforeRow},
        is_order_of,
    },
    schema::{documents, events, order_changes, order_notes, orders, uploads},
    uploads::condemned_of,
};

use super::read::listed;
use crate::{
    accesses::store_access,
    failure::Failure,
    group_commit::key_use::{in_use, remember},
    locks,
    statement::columns,
};

/// Carries out a command in a transaction. The lock of the order makes concurrent changes wait, and each
/// statement after it sees what they have stored.
pub(super) async fn change(
    connection: &mut AsyncPgConnection,
    request: &OrderCommandRequest,
) -> Result<Changed, Failure> {
    let (order, at) = (request.order, Utc(request.at));
    locks::lock(connection, "orders", &[order.0]).await?;
    if let Some(request) = &request.idempotent_request
        && let Some(key_use) = in_use(connection, &request.attempt.claim, at).await?
    {
        return Err(Failure::Rejected(WriteError::KeyInUse(key_use)));
    }
    let (before, found) = load(connection, request).await?;
    let effects = request.command.decide(&before, request.at)?;
    let effects = effects.map(|effects| effects.done_by(request.doer()));
    let mut amended = None;
    if let Some(effects) = &effects {
        amended = write(connection, order, effects).await?;
        store_access(connection, request.access.as_ref()).await?;
    }
    if let Some(key) = &request.idempotent_request {
        let version = amended.as_ref().map(|order| order.stored.updated_at);
        let (at, range) = before.answer(effects.as_ref(), version, request.at);
        remember(connection, &KeyRow::answered(key, order.0, Utc(at), range)).await?;
    }
    Ok(match &request.command {
        OrderCommand::Amend(_) => {
            Changed::Amended(Box::new(amended.or(found).ok_or(Refusal::NoSuchOrder)?))
        }
        OrderCommand::Withdraw { kind, position, .. } => {
            let document = DocumentId { order, kind: *kind, position: *position };
            let condemned: Vec<String> =
                Prepared(condemned_of(document)).get_results(connection).await?;
            let condemned = condemned.into_iter().map(ObjectKey::from_stored);
            Changed::DocumentsWithdrawn(condemned.collect())
        }
        OrderCommand::EraseDocuments => {
            let erased = effects.into_iter().flat_map(|effects| effects.withdrawn);
            Changed::DocumentsWithdrawn(erased.map(|document| document.key).collect())
        }
        OrderCommand::GiveReason(_) => Changed::ReasonGiven,
        OrderCommand::AddDocuments(_) | OrderCommand::AddNote(_) | OrderCommand::Hold { .. } => {
            effects.unwrap_or_default().into()
        }
    })
}

/// Loads what the decision needs. An amendment that changes nothing returns the order that it found.
async fn load(
    connection: &mut AsyncPgConnection,
    request: &OrderCommandRequest,
) -> Result<(OrderBefore, Option<ListedOrder>), Failure> {
    let order = request.order;
    if let (OrderCommand::Amend(_), Some(owner)) = (&request.command, request.owner) {
        // Compares all details.
        let read = ListedRow::into_listed;
        let found = listed(connection, owner, order, read).await?;
        return match found.ok_or(Refusal::NoSuchOrder)? {
            MaybeErased::Erased => Err(Refusal::Erased.into()),
            MaybeErased::Whole(found) => {
                let told: Vec<String> =
                    Prepared(told_contacts(order)).get_results(connection).await?;
                let told = told.into_iter().map(EmailAddress::from_stored).collect();
                let before = OrderBefore { told, ..OrderBefore::of(&found.stored) };
                Ok((before, Some(found)))
            }
        };
    }
    let mut own = orders::table.find(order.0).select(columns::<OrderBeforeRow>()).into_boxed();
    if let Some(owner) = request.owner {
        own = own.filter(is_order_of(owner));
    }
    let row: Option<OrderBeforeRow> = Prepared(own).get_result(connection).await.optional()?;
    let before = row.ok_or(Refusal::NoSuchOrder)?.into_before()?;
    let before = match &request.command {
        OrderCommand::AddDocuments(new) => {
            let documents = load_documents(connection, order, &[new.kind]).await?;
            OrderBefore { documents, ..before }
        }
        OrderCommand::Withdraw { kind, .. } => {
            let documents = load_documents(connection, order, &[*kind]).await?;
            OrderBefore { documents, ..before }
        }
        OrderCommand::AddNote(_) => {
            let notes: i64 = Prepared(note_count(order)).get_result(connection).await?;
            OrderBefore { notes: usize::try_from(notes).unwrap_or_default(), ..before }
        }
        OrderCommand::GiveReason(_) => {
            let changes: Vec<OrderChangeRow> =
                Prepared(changes_of(vec![order.0]).select(columns::<OrderChangeRow>()))
                    .get_results(connection)
                    .await?;
            let changes = changes.into_iter().map(OrderChangeRow::into_change);
            let changes = changes.collect::<Result<Vec<_>, _>>()?;
            let reason = reason_of(&changes, &before.status).map(str::to_owned);
            OrderBefore { reason, ..before }
        }
        OrderCommand::EraseDocuments => {
            let documents = load_documents(connection, order, &DocumentKind::ALL).await?;
            OrderBefore { documents, ..before }
        }
        OrderCommand::Amend(_) | OrderCommand::Hold { .. } => before,
    };
    Ok((before, None))
}

/// Loads the documents of an order that a decision needs.
pub(super) async fn load_documents(
    connection: &mut AsyncPgConnection,
    order: OrderId,
    kinds: &[DocumentKind],
) -> Result<Vec<DocumentBefore>, Failure> {
    let found = documents_before(order, kinds).select(columns::<DocumentBeforeRow>());
    let found: Vec<DocumentBeforeRow> = Prepared(found).get_results(connection).await?;
    Ok(found.into_iter().map(DocumentBeforeRow::into_document).collect::<Result<_, _>>()?)
}

/// Writes what a change of an order stores. Returns an amended order.
pub(super) async fn write(
    connection: &mut AsyncPgConnection,
    order: OrderId,
    effects: &OrderEffects,
) -> Result<Option<ListedOrder>, Failure> {
    let rows = ChangeRows::of(order, effects).map_err(Failure::Unstorable)?;
    if let Some((document, by)) = rows.replaced {
        let replaced = diesel::update(document_row(document)).set(documents::replaced_by.eq(by));
        Prepared(replaced).execute(connection).await?;
    }
    if !rows.documents.is_empty() {
        // A trigger adopts their uploads.
        diesel::insert_into(documents::table).values(rows.documents).execute(connection).await?;
    }
    for (document, columns) in rows.withdrawn {
        let emptied = diesel::update(document_row(document)).set(columns);
        Prepared(emptied).execute(connection).await?;
    }
    for upload in rows.condemned {
        Prepared(diesel::insert_into(uploads::table).values(upload)).execute(connection).await?;
    }
    if let Some(note) = rows.note {
        Prepared(diesel::insert_into(order_notes::table).values(note)).execute(connection).await?;
    }
    if let Some(entry) = rows.entry {
        Prepared(diesel::insert_into(order_changes::table).values(entry))
            .execute(connection)
            .await?;
    }
    for event in rows.events {
        Prepared(diesel::insert_into(events::table).values(event)).execute(connection).await?;
    }
    let (is_amended, has_entry) = (rows.amended.is_some(), effects.entry.is_some());
    let details = rows.details.map(|details| {
        let json = sql::<Text>("CAST(").bind::<Text, _>(details).sql(" AS json)");
        orders::details.eq(json)
    });
    let update = diesel::update(orders::table.find(order.0));
    let counted = has_entry.then(|| orders::changes.eq(orders::changes + 1));
    let moved = effects
        .moves_appointment
        .then(|| orders::calendar_sequence.eq((orders::changes + 1).nullable()));
    let update = update.set((details, rows.amended, rows.order, counted, moved));
    if !is_amended {
        Prepared(update).execute(connection).await?;
        return Ok(None);
    }
    let mut row = Prepared(update.returning(columns::<ListedRow>())).get_result(connection).await?;
    if let Some(status) = rows.status {
        let update = diesel::update(orders::table.find(order.0)).set(status);
        let update = update.returning(columns::<ListedRow>());
        row = Prepared(update).get_result(connection).await?;
    }
    Ok(ListedRow::into_listed(row)?)
}
