//! The in-memory store keeps the contracts of the ports that it stands for.

use std::sync::Arc;

use async_trait::async_trait;
use contract_tests::{
    fakes::InMemoryStore, samples::Storage, store_source::StoreSourceFixture,
    store_target::StoreTargetFixture,
};
use domain::{order::OrderId, ports::StoreSource};
use time::OffsetDateTime;

fn storage() -> Storage {
    Storage::new(Arc::new(InMemoryStore::default()), ())
}

struct Source {
    store: Arc<InMemoryStore>,
    storage: Storage,
}

impl Source {
    fn new() -> Self {
        let store = Arc::new(InMemoryStore::default());
        Self { storage: Storage::new(store.clone(), ()), store }
    }
}

#[async_trait]
impl StoreSourceFixture for Source {
    fn storage(&self) -> &Storage {
        &self.storage
    }

    fn source(&self) -> Arc<dyn StoreSource> {
        self.store.clone()
    }

    async fn remove_order(&self, id: OrderId) {
        self.store.remove_order(id);
    }

    async fn assign_notary(&self, id: OrderId, notary_id: i64, at: OffsetDateTime) {
        self.store.assign_notary(id, notary_id, at);
    }
}

mod order_repo {
    contract_tests::order_repo_contract!(super::storage());
}

mod upload_ledger {
    contract_tests::upload_ledger_contract!(super::storage());
}

mod idempotency_ledger {
    contract_tests::idempotency_ledger_contract!(super::storage());
}

mod api_key_repo {
    contract_tests::api_key_repo_contract!(super::storage());
}

mod delivery_queue {
    contract_tests::delivery_queue_contract!(super::storage());
}

mod store_source {
    contract_tests::store_source_contract!(super::Source::new());
}

mod store_target {
    contract_tests::store_target_contract!(super::StoreTargetFixture::new(
        std::sync::Arc::new(super::InMemoryStore::default()),
        ()
    ));
}

#[test]
fn every_obligation_is_in_the_macro_of_its_contract() {
    for source in [
        include_str!("../src/order_repo.rs"),
        include_str!("../src/upload_ledger.rs"),
        include_str!("../src/idempotency_ledger.rs"),
        include_str!("../src/api_key_repo.rs"),
        include_str!("../src/delivery_queue.rs"),
        include_str!("../src/store_source.rs"),
        concat!(
            include_str!("../src/store_target.rs"),
            include_str!("../src/store_target/all_or_nothing.rs")
        ),
    ] {
        for obligation in
            source.lines().filter_map(|line| line.strip_prefix("pub async fn ")?.split_once('('))
        {
            assert!(
                source.contains(&format!("            {},\n", obligation.0)),
                "{}",
                obligation.0
            );
        }
    }
}

#[test]
fn the_maximal_order_has_every_field() {
    assert!(!format!("{:?}", contract_tests::samples::maximal_order()).contains("None"));
}
