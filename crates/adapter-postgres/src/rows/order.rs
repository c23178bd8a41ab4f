use diesel::{
    dsl::sql,
    expression::SqlLiteral,
    pg::Pg,
    prelude::{Queryable, Selectable},
    sql_types::Text,
};
use domain::{
    api_key::{ApiKeyId, ClientId},
    order::{OrderId, OrderStatus, StoredOrder, record::OrderRecord},
};
use time::OffsetDateTime;

use super::DocumentRow;
use crate::{failure::Unreadable, schema::orders};

/// An order but for its documents.
#[derive(Queryable, Selectable)]
#[diesel(table_name = orders, check_for_backend(Pg))]
pub(crate) struct OrderRow {
    id: i64,
    client_id: i64,
    api_key_id: i64,
    signing_service_id: i64,
    notary_id: Option<i64>,
    starts_at: Option<OffsetDateTime>,
    ends_at: Option<OffsetDateTime>,
    created_at: OffsetDateTime,
    updated_at: OffsetDateTime,
    is_test: bool,
    file_number: String,
    status: String,
    #[diesel(select_expression = details_text(), select_expression_type = SqlLiteral<Text>)]
    details: String,
}

/// Selects the details as JSON text; the domain reads it.
fn details_text() -> SqlLiteral<Text> {
    sql("details::text")
}

impl OrderRow {
    pub(crate) fn into_stored(
        self,
        documents: Vec<DocumentRow>,
    ) -> Result<StoredOrder, Unreadable> {
        let unreadable = |reason: &dyn ToString| Unreadable::new("orders", &self.id, reason);
        let record = OrderRecord {
            signing_service_id: self.signing_service_id,
            file_number: self.file_number,
            starts_at: self.starts_at,
            ends_at: self.ends_at,
            details: self.details,
        };
        Ok(StoredOrder {
            id: OrderId(self.id),
            client: ClientId(self.client_id),
            api_key: ApiKeyId(self.api_key_id),
            order: record.into_order().map_err(|error| unreadable(&error))?,
            status: OrderStatus::from_stored(self.status).ok_or_else(|| unreadable(&"status"))?,
            notary_id: self.notary_id,
            documents: documents
                .into_iter()
                .map(DocumentRow::into_document)
                .collect::<Result<_, _>>()?,
            is_test: self.is_test,
            created_at: self.created_at,
            updated_at: self.updated_at,
        })
    }
}
