//! Rows of the recipients of orders.

use diesel::{dsl::auto_type, prelude::*};
use domain::{
    delivery::{Audience, Recipient},
    order::{EmailAddress, OrderId},
};

use crate::{Utc, schema::order_recipients};

/// An address that is told of an order.
#[derive(Insertable, Queryable)]
#[diesel(table_name = order_recipients)]
pub struct NewRecipientRow {
    /// The order.
    pub order_id: i64,
    /// The address.
    pub recipient: String,
    /// Whether a signing service reads its mails.
    pub to_service: bool,
}

/// An address that was told of an order.
#[derive(Queryable, Selectable)]
#[diesel(table_name = order_recipients)]
pub struct RecipientRow {
    order_id: i64,
    recipient: String,
    to_service: bool,
    changes_told_at: Option<Utc>,
}

impl RecipientRow {
    /// Returns the recipient.
    pub fn into_recipient(self) -> Recipient {
        Recipient {
            order_id: OrderId(self.order_id),
            address: EmailAddress::from_stored(self.recipient),
            audience: if self.to_service { Audience::Service } else { Audience::Client },
            changes_told_at: self.changes_told_at.map(|at| at.0),
        }
    }
}

/// Selects the addresses of the client's side that were told of an order.
#[auto_type(no_type_alias)]
pub fn told_contacts(order: OrderId) -> _ {
    let order: i64 = order.0;
    order_recipients::table
        .filter(order_recipients::order_id.eq(order).and(order_recipients::to_service.eq(false)))
        .select(order_recipients::recipient)
}

/// Selects the recipients of orders.
#[auto_type(no_type_alias)]
pub fn recipients_of(orders: Vec<i64>) -> _ {
    order_recipients::table
        .filter(order_recipients::order_id.eq_any(orders))
        .order((order_recipients::order_id, order_recipients::recipient))
}
