//! Ends requests in progress whose order an operator erases, or whose key was revoked.

use std::{sync::Arc, time::Duration};

use domain::{
    order::{DocumentId, OrderId},
    person::Caller,
    use_cases::{
        add_documents::AddDocuments, erase_orders::NOTICED, keys::manage_keys::ManageKeys,
        order_error::OrderError, read_order::ReadOrder,
    },
};
use futures_util::FutureExt as _;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at, sleep};

/// Interval at which a request looks whether its order is erased.
const LOOK: Duration = Duration::from_secs(1);

const _: () = assert!(LOOK.as_millis() * 2 <= NOTICED.as_millis());

/// Completes with an error when the order is erased. Never completes otherwise.
pub(super) async fn erased(adding: &AddDocuments, caller: &Caller, id: OrderId) -> OrderError {
    loop {
        sleep(LOOK).await;
        if let Err(error @ OrderError::Erased) = adding.intake.order(caller, id).await {
            return error;
        }
    }
}

/// Looks at most once a second whether a document may still be sent.
pub(super) struct Look {
    reading: ReadOrder,
    keys: ManageKeys,
    caller: Arc<Caller>,
    document: DocumentId,
    due: Interval,
}

impl Look {
    /// Returns the look at a document that was just found for a caller.
    pub(super) fn at(
        reading: ReadOrder,
        keys: ManageKeys,
        caller: Arc<Caller>,
        document: DocumentId,
    ) -> Self {
        let mut due = interval_at(Instant::now() + LOOK, LOOK);
        due.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self { reading, keys, caller, document, due }
    }

    /// Returns whether the document must not be sent any more.
    pub(super) async fn is_gone(&mut self) -> bool {
        self.due.tick().now_or_never().is_some() && self.is_gone_now().await
    }

    /// Returns whether the document is erased or withdrawn, or the key revoked or expired.
    pub(super) async fn is_gone_now(&self) -> bool {
        if !self.keys.is_still_valid(&self.caller).await {
            return true;
        }
        let found = self.reading.document(self.caller.owner(), self.document).await;
        matches!(found, Err(OrderError::Erased | OrderError::NoSuchOrder | OrderError::Withdrawn))
    }
}

#[cfg(test)]
mod tests {
    use contract_tests::samples::{self, document};
    use domain::{
        api_key::{ApiKey, ApiKeyId},
        document::DocumentKind,
        ports::{
            MaybeErased, MockAccessLog, MockApiKeyRepo, MockBlobStore, MockChangeFeed, MockClock,
            MockEntropy, MockOrderReader, MockOrderRepo,
        },
        use_cases::note_downloads::Downloads,
    };

    use super::*;
    use crate::test_support::NOW;

    fn api_key() -> ApiKey {
        let key = samples::api_key(NOW);
        ApiKey { id: ApiKeyId(1), key, revoked_at: None, last_used_at: None }
    }

    #[actix_web::test]
    async fn download_ends_when_its_key_is_revoked() {
        for (revoked_at, is_gone) in [(None, false), (Some(NOW), true)] {
            let mut clock = MockClock::new();
            clock.expect_now().return_const(NOW);
            let clock = Arc::new(clock);
            let mut keys = MockApiKeyRepo::new();
            let stored = ApiKey { revoked_at, ..api_key() };
            keys.expect_find().returning(move |_| Ok(Some(stored.clone())));
            let mut reader = MockOrderReader::new();
            reader.expect_document().returning(|_, _| Ok(Some(MaybeErased::Whole(document()))));
            let reading = ReadOrder {
                orders: Arc::new(MockOrderRepo::new()),
                reader: Arc::new(reader),
                feed: Arc::new(MockChangeFeed::new()),
                accesses: Arc::new(MockAccessLog::new()),
                blobs: Arc::new(MockBlobStore::new()),
                downloads: Downloads::default(),
                clock: clock.clone(),
            };
            let keys = ManageKeys {
                keys: Arc::new(keys),
                clock,
                entropy: Arc::new(MockEntropy::new()),
                uses: Arc::default(),
                cache: Arc::default(),
            };
            let id = DocumentId { order: OrderId(7), kind: DocumentKind::ToSign, position: 0 };
            assert_eq!(
                Look::at(reading, keys, Arc::new(api_key().into()), id).is_gone_now().await,
                is_gone
            );
        }
    }
}
