//! Ends requests in progress whose order an operator erases.

use std::time::Duration;

use domain::{
    api_key::{ApiKey, Owner},
    order::{DocumentId, OrderId},
    use_cases::{
        add_documents::AddDocuments, erase_orders::NOTICED, order_error::OrderError,
        read_order::ReadOrder,
    },
};
use futures_util::FutureExt as _;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at, sleep};

/// Interval at which a request looks whether its order is erased.
const LOOK: Duration = Duration::from_secs(1);

const _: () = assert!(LOOK.as_millis() * 2 <= NOTICED.as_millis());

/// Completes with an error when the order is erased. Never completes otherwise.
pub(super) async fn erased(adding: &AddDocuments, key: &ApiKey, id: OrderId) -> OrderError {
    loop {
        sleep(LOOK).await;
        if let Err(error @ OrderError::Erased) = adding.intake.order(key, id).await {
            return error;
        }
    }
}

/// Looks at most once a second whether a document may still be sent.
pub(super) struct Look {
    reading: ReadOrder,
    owner: Owner,
    document: DocumentId,
    due: Interval,
}

impl Look {
    /// Returns the look at a document that was just found.
    pub(super) fn at(reading: ReadOrder, owner: Owner, document: DocumentId) -> Self {
        let mut due = interval_at(Instant::now() + LOOK, LOOK);
        due.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self { reading, owner, document, due }
    }

    /// Returns whether the document is erased or withdrawn, if it is time to look.
    pub(super) async fn is_gone(&mut self) -> bool {
        self.due.tick().now_or_never().is_some() && self.is_gone_now().await
    }

    /// Returns whether the document is erased or withdrawn.
    pub(super) async fn is_gone_now(&self) -> bool {
        let found = self.reading.document(self.owner, self.document).await;
        matches!(found, Err(OrderError::Erased | OrderError::NoSuchOrder | OrderError::Withdrawn))
    }
}
