//! An order that the service has created, and its state.

use std::borrow::Cow;

use time::OffsetDateTime;

use super::{Order, OrderId};
use crate::{
    api_key::{ApiKeyId, ClientId},
    document::StoredDocument,
};

/// State of an order: 1 to 50 characters. The service creates orders as `NEW`. Other systems write
/// further states into the database, and the service returns them unchanged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderStatus(Cow<'static, str>);

impl OrderStatus {
    /// The state of every order on creation (spec section 3).
    pub const NEW: Self = Self(Cow::Borrowed("NEW"));

    /// Returns a state that was read from storage; `None` unless it has 1 to 50 characters.
    pub fn from_stored(text: String) -> Option<Self> {
        (1..=50).contains(&text.chars().count()).then_some(Self(text.into()))
    }

    /// Returns the name of the state, in answers and in storage.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// An order that the service has created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredOrder {
    /// Identifier of the order.
    pub id: OrderId,
    /// The order itself.
    pub order: Box<Order>,
    /// State of the order.
    pub status: OrderStatus,
    /// The assigned notary; none on creation.
    pub notary_id: Option<i64>,
    /// The documents, in the order of the request.
    pub documents: Vec<StoredDocument>,
    /// The client that created it.
    pub client: ClientId,
    /// The API key with which the client created it.
    pub api_key: ApiKeyId,
    /// Whether a test key created it. A test order is no real signing and has no mail recipients.
    pub is_test: bool,
    /// Instant of creation, to the microsecond.
    pub created_at: OffsetDateTime,
    /// Instant of the last change, to the microsecond.
    pub updated_at: OffsetDateTime,
}

impl StoredOrder {
    /// Returns the order as it was on creation, without documents that were added later.
    pub fn as_created(mut self) -> Self {
        self.documents.retain(|document| document.created_at == self.created_at);
        self.status = OrderStatus::NEW;
        self.notary_id = None;
        self.updated_at = self.created_at;
        self
    }
}
