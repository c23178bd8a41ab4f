use diesel::{
    prelude::{Insertable, Queryable, Selectable},
    sqlite::Sqlite,
};
use domain::{
    api_key::{ApiKeyId, ClientId},
    order::{OrderId, OrderStatus, StoredOrder, record::OrderRecord},
    ports::NewOrder,
};

use super::{Column, DocumentRow, micros, read_instant};
use crate::{
    failure::{Failure, Unreadable},
    schema::orders,
};

/// An order without its identifier and its documents.
#[derive(Insertable, Queryable, Selectable)]
// Binds `NULL` for absent values, so the statement text is constant and stays prepared.
#[diesel(table_name = orders, check_for_backend(Sqlite), treat_none_as_default_value = false)]
pub(crate) struct OrderRow {
    client_id: i64,
    api_key_id: i64,
    signing_service_id: i64,
    notary_id: Option<i64>,
    starts_at_us: Option<i64>,
    ends_at_us: Option<i64>,
    pub(crate) created_at_us: i64,
    updated_at_us: i64,
    pub(crate) is_test: bool,
    holds_file_number: bool,
    pub(crate) file_number: String,
    status: String,
    details: String,
}

impl OrderRow {
    pub(crate) fn new(new: &NewOrder) -> Result<Self, Failure> {
        let record =
            OrderRecord::of(&new.order).map_err(|error| Failure::Unstorable(error.into()))?;
        Ok(Self {
            client_id: new.client.0,
            api_key_id: new.api_key.0,
            signing_service_id: record.signing_service_id,
            notary_id: None,
            starts_at_us: record.starts_at.map(micros),
            ends_at_us: record.ends_at.map(micros),
            created_at_us: micros(new.created_at),
            updated_at_us: micros(new.created_at),
            is_test: new.is_test,
            holds_file_number: true,
            file_number: record.file_number,
            status: OrderStatus::NEW.as_str().to_owned(),
            details: record.details,
        })
    }

    pub(crate) fn into_stored(
        self,
        id: OrderId,
        documents: Vec<DocumentRow>,
    ) -> Result<StoredOrder, Unreadable> {
        let documents =
            documents.into_iter().map(DocumentRow::into_document).collect::<Result<_, _>>()?;
        let unreadable = |column: Column| column.of("orders", id.0);
        let instant = |micros, column| read_instant(micros, column).map_err(unreadable);
        let optional_instant =
            |micros: Option<i64>, column| micros.map(|micros| instant(micros, column)).transpose();
        let record = OrderRecord {
            signing_service_id: self.signing_service_id,
            file_number: self.file_number,
            starts_at: optional_instant(self.starts_at_us, "starts_at_us")?,
            ends_at: optional_instant(self.ends_at_us, "ends_at_us")?,
            details: self.details,
        };
        Ok(StoredOrder {
            id,
            order: record.into_order().map_err(|error| Unreadable {
                table: "orders",
                row: id.0.to_string(),
                reason: error.to_string(),
            })?,
            status: OrderStatus::from_stored(self.status)
                .ok_or_else(|| unreadable(Column("status")))?,
            notary_id: self.notary_id,
            documents,
            client: ClientId(self.client_id),
            api_key: ApiKeyId(self.api_key_id),
            is_test: self.is_test,
            created_at: instant(self.created_at_us, "created_at_us")?,
            updated_at: instant(self.updated_at_us, "updated_at_us")?,
        })
    }
}
