//! Which order a request by file number changes, and when it creates one (`PUT /api/order?file_number=`).

use super::{OrderId, OrderStatus};

/// What a request of a client does that names an order by its file number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Upsert {
    /// Changes this order.
    Change(OrderId),
    /// Creates an order.
    Create {
        /// The client's newest order with the file number, which takes no changes any more; `None` if the client
        /// has none.
        after: Option<OrderId>,
    },
}

impl Upsert {
    /// Decides by the client's newest order with the file number, and its status. An erased order has no file
    /// number.
    pub fn decide(newest: Option<(OrderId, &OrderStatus)>) -> Self {
        match newest {
            Some((id, status)) if status.permits_amendment().is_ok() => Self::Change(id),
            closed => Self::Create { after: closed.map(|(id, _)| id) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newest_order_is_changed_until_its_signing_is_over_or_cancelled() {
        let id = OrderId(7);
        let free = OrderStatus::from_stored("With the notary".to_owned()).unwrap();
        for status in OrderStatus::USUAL.into_iter().chain([free]) {
            let expected = match status.as_str() {
                "SIGNED" | "DID_NOT_SIGN" | "COMPLETED" | "CANCELLED" => {
                    Upsert::Create { after: Some(id) }
                }
                _ => Upsert::Change(id),
            };
            assert_eq!(Upsert::decide(Some((id, &status))), expected, "{status:?}");
        }
    }

    #[test]
    fn unused_file_number_gets_an_order() {
        assert_eq!(Upsert::decide(None), Upsert::Create { after: None });
    }
}
