//! The fakes of what is no database keep the contracts.

use std::sync::Arc;

use async_trait::async_trait;
use contract_tests::{
    blob_store::BlobStoreFixture,
    fakes::{InMemoryBlobStore, InMemoryNotifier, NotifierAnswer},
    notifier::{NotifierFixture, ReceivedMail},
};
use domain::{
    document::ObjectKey,
    ports::{BlobStore, Notifier},
};

#[derive(Default)]
struct Blobs(Arc<InMemoryBlobStore>);

#[async_trait]
impl BlobStoreFixture for Blobs {
    fn store(&self) -> Arc<dyn BlobStore> {
        self.0.clone()
    }

    async fn stored(&self, key: &ObjectKey) -> Option<Vec<u8>> {
        self.0.get(key)
    }

    async fn count(&self) -> usize {
        self.0.keys().len()
    }
}

#[derive(Default)]
struct Mails(Arc<InMemoryNotifier>);

#[async_trait]
impl NotifierFixture for Mails {
    fn notifier(&self) -> Arc<dyn Notifier> {
        self.0.clone()
    }

    async fn received(&self) -> Vec<ReceivedMail> {
        let taken = self.0.taken().into_iter();
        taken
            .map(|mail| ReceivedMail {
                message_id: mail.message_key,
                to: vec![mail.recipient.into()],
                raw: Vec::new(),
            })
            .collect()
    }

    async fn break_down(&self) {
        self.0.set_answer(NotifierAnswer::Unavailable);
    }

    async fn recover(&self) {
        self.0.set_answer(NotifierAnswer::Taken);
    }
}

mod blob_store {
    contract_tests::copying_blob_store_contract!(super::Blobs::default());
}

mod notifier {
    contract_tests::notifier_contract!(super::Mails::default());
}

mod clock {
    contract_tests::clock_contract!(contract_tests::fakes::ManualClock::default());
}

mod entropy {
    contract_tests::entropy_contract!(contract_tests::fakes::CountingEntropy::default());
}
