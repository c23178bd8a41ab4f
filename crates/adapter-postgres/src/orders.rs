//! Orders.

use async_trait::async_trait;
use diesel::{dsl::SqlTypeOf, prelude::*};
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use domain::{
    duplicate_window::DuplicateWindow,
    idempotency::{Claim, KeyUse},
    order::{OrderId, PlacedOrder},
    ports::{NewOrder, OrderRepo, PlaceError, StoreError},
};
use futures_util::FutureExt as _;
use time::OffsetDateTime;

use crate::{
    PostgresStore,
    failure::Failure,
    idempotency,
    place::{FileNumberClaim, NewDocuments, NewFollowUps, Place, Remember},
    pool::MayDoubtConnection,
    rows::{DocumentRow, OrderRow},
    schema::{documents, file_numbers, orders, test_file_numbers},
    statement::Prepared,
};

/// The trigger by which a document adopts its upload.
const ADOPTION: &str = "documents_adopt_uploads";

/// The trigger that keeps an idempotency key for the order that has it.
const KEY_IN_USE: &str = "idempotency_keys_in_use";

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
    #[error("the idempotency key is in use")]
    KeyTaken(KeyUse),
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
            Refusal::KeyTaken(taken) => Self::KeyTaken(taken),
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
        let attempted = order.remembrance.as_ref().map(|remembrance| remembrance.attempt.claim.clone());
        let remember = order.remembrance.as_ref().map(|remembrance| Remember::new(remembrance, order.placed_at));
        let new = Place { file_number: FileNumberClaim::new(order, window), order: row, documents, follow_ups, remember };
        Ok(self.pool.run(move |connection| place(connection, new, attempted).boxed()).await?)
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
            requested_by, status, notary_id, created_at, updated_at, is_test,
        )
    };
}

/// One statement, and so one round trip and one transaction: it claims the file number and places the order if it got it.
async fn place(connection: &mut AsyncPgConnection, new: Place<OrderRow>, attempted: Option<Claim>) -> Result<OrderId, Refusal> {
    let Place { file_number: wanted, order, documents, follow_ups, remember } = new;
    let (is_test, file_number, placed_at) = (wanted.is_test, wanted.file_number.clone(), wanted.placed_at);
    let (columns, values) = order_columns!(order);
    let order = diesel::insert_into(orders::table).values(claimed::table.select(values)).into_columns(columns).returning(orders::id);
    let statement = Prepared(Place { file_number: wanted, order, documents, follow_ups, remember });
    // All rows, though there is one at the most: it comes before the commit, and the end of the rows after it.
    let placed: Result<Vec<i64>, Failure> = statement.get_results(connection).await.map_err(Failure::from);
    let overtaken = placed.as_ref().is_err_and(|failure| failure.constraint() == Some(KEY_IN_USE));
    if !overtaken && let Some(id) = placed?.pop() {
        return Ok(OrderId(id));
    }
    // Asked for now, because the statement saw what was there when it began, which may be before the order that won.
    if let Some(claim) = attempted {
        match idempotency::in_use(connection, &claim, placed_at).await? {
            Some(taken) => return Err(Refusal::KeyTaken(taken)),
            // Who was first has given up the key in between.
            None if overtaken => return Err(Refusal::KeyTaken(KeyUse::InFlight { until: placed_at })),
            None => {}
        }
    }
    let placed_at = if is_test {
        test_file_numbers::table.find(file_number).select(test_file_numbers::placed_at).first(connection).await?
    } else {
        file_numbers::table.find(file_number).select(file_numbers::placed_at).first(connection).await?
    };
    Err(Refusal::Duplicate { placed_at })
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
