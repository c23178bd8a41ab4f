//! Orders.

use async_trait::async_trait;
use diesel::{dsl::SqlTypeOf, prelude::*, upsert::excluded};
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use domain::{
    duplicate_window::DuplicateWindow,
    order::{OrderId, PlacedOrder},
    ports::{NewOrder, OrderRepo, PlaceError, StoreError},
};
use futures_util::FutureExt as _;
use time::OffsetDateTime;

use crate::{
    PostgresStore,
    failure::Failure,
    place::{NewDocuments, NewFollowUps, Place},
    pool::MayDoubtConnection,
    rows::{DocumentRow, OrderRow},
    schema::{documents, file_numbers, orders},
    statement::Prepared,
};

/// The trigger by which a document adopts its upload.
const ADOPTION: &str = "documents_adopt_uploads";

diesel::table! {
    /// The file number that a statement has claimed; no row if it is taken.
    claimed (file_number) {
        file_number -> Text,
    }
}

/// Why an order was not placed.
#[derive(Debug, thiserror::Error)]
enum Refusal {
    #[error("the file number was used a moment ago")]
    Duplicate { placed_at: OffsetDateTime },
    #[error("an upload was swept")]
    UploadSwept,
    #[error(transparent)]
    Failed(Failure),
}

impl<E: Into<Failure>> From<E> for Refusal {
    fn from(error: E) -> Self {
        let failure = error.into();
        if failure.constraint() == Some(ADOPTION) { Self::UploadSwept } else { Self::Failed(failure) }
    }
}

impl MayDoubtConnection for Refusal {
    fn doubts_connection(&self) -> bool {
        matches!(self, Self::Failed(failure) if failure.doubts_connection())
    }
}

impl From<Refusal> for PlaceError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Duplicate { placed_at } => Self::Duplicate { placed_at },
            Refusal::UploadSwept => Self::UploadSwept,
            Refusal::Failed(failure) => failure.into(),
        }
    }
}

#[async_trait]
impl OrderRepo for PostgresStore {
    async fn place(&self, order: &NewOrder, window: DuplicateWindow) -> Result<OrderId, PlaceError> {
        let row = OrderRow::new(order)?;
        let documents = NewDocuments::new(&order.documents)?;
        let follow_ups = NewFollowUps::new(&order.follow_ups, order.placed_at);
        Ok(self.pool.run(move |connection| place(connection, row, documents, follow_ups, window).boxed()).await?)
    }

    async fn find(&self, id: OrderId) -> Result<Option<PlacedOrder>, StoreError> {
        Ok(self.pool.run(move |connection| find(connection, id).boxed()).await?)
    }

    async fn check(&self) -> Result<(), StoreError> {
        Ok(self.pool.run(|connection| check(connection).boxed()).await?)
    }
}

/// The columns of an order that its row gives, and the row's values as an expression.
macro_rules! given {
    ($row:expr; $($column:ident),+ $(,)?) => {
        (($(orders::$column,)+), ($($row.$column.into_sql::<SqlTypeOf<orders::$column>>(),)+))
    };
}

/// [`given!`] for every column.
macro_rules! order_columns {
    ($row:expr) => {
        given!($row;
            signing_service_id, file_number, order_contact_email, client_company_id, observer_email, in_house_contact, in_house_contact2,
            signing_date, time_zone_id, signing_time_type, start_time, start_utc, end_time, end_utc,
            property_address, property_city, property_state, property_zipcode,
            is_property_address_same, signing_address, signing_city, signing_state, signing_zipcode, signing_type,
            signer_name, signer_phone, signer_email, spouse_name, co_signer_name, co_signer_spouse_name, co_signer_phone, co_signer_email,
            language, esigning_platform, scanbacks_required, ron_signing, document_delivery, lender, special_instructions, loan_officer,
            invoice_recipient, invoice_name, invoice_phone, invoice_email, invoice_fee, notary_pay,
            requested_by, status, notary_id, created_at, updated_at,
        )
    };
}

/// One statement, and so one round trip and one transaction: it claims the file number and places the order if it got it.
/// The claim inserts the file number, or renews it when the window has left its last use behind, or touches nothing.
async fn place(
    connection: &mut AsyncPgConnection,
    row: OrderRow,
    documents: NewDocuments,
    follow_ups: NewFollowUps,
    window: DuplicateWindow,
) -> Result<OrderId, Refusal> {
    use diesel::query_dsl::methods::FilterDsl as _;

    use crate::schema::file_numbers::dsl;

    let (file_number, opens_at) = (row.file_number.clone(), window.opens_at(row.created_at));
    let claim = diesel::insert_into(file_numbers::table)
        .values((dsl::file_number.eq(file_number.clone()), dsl::placed_at.eq(row.created_at)))
        .on_conflict(dsl::file_number)
        .do_update()
        .set(dsl::placed_at.eq(excluded(dsl::placed_at)))
        .filter(dsl::placed_at.le(opens_at))
        .returning(dsl::file_number);
    let (columns, values) = order_columns!(row);
    let order = diesel::insert_into(orders::table).values(claimed::table.select(values)).into_columns(columns).returning(orders::id);
    let placed: Option<i64> = Prepared(Place { claim, order, documents, follow_ups }).get_result(connection).await.optional()?;
    match placed {
        Some(id) => Ok(OrderId(id)),
        // Asked for now, because the statement saw what was there when it began, which may be before the order that won.
        None => Err(Refusal::Duplicate { placed_at: file_numbers::table.find(file_number).select(dsl::placed_at).first(connection).await? }),
    }
}

async fn find(connection: &mut AsyncPgConnection, id: OrderId) -> Result<Option<PlacedOrder>, Failure> {
    let order: Option<OrderRow> = orders::table.find(id.0).select(OrderRow::as_select()).first(connection).await.optional()?;
    let Some(order) = order else { return Ok(None) };
    let documents: Vec<DocumentRow> =
        documents::table.filter(documents::order_id.eq(id.0)).order(documents::position).select(DocumentRow::as_select()).load(connection).await?;
    Ok(Some(order.into_placed(id, documents)?))
}

/// That the tables are there and the server takes writes is what is asked; nothing is written.
async fn check(connection: &mut AsyncPgConnection) -> Result<(), Failure> {
    use diesel::dsl::sql;

    let read_only: bool = diesel::select(sql::<diesel::sql_types::Bool>("current_setting('transaction_read_only')::boolean")).get_result(connection).await?;
    if read_only {
        return Err(Failure::ReadOnly);
    }
    orders::table.select(orders::id).first::<i64>(connection).await.optional()?;
    Ok(())
}
