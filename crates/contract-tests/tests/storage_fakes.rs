//! The in-memory store keeps the contracts of the ports that it stands for.

use std::sync::Arc;

use contract_tests::{fakes::InMemoryStore, samples::Storage};

fn storage() -> Storage {
    Storage::new(Arc::new(InMemoryStore::default()), ())
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

#[test]
fn every_obligation_is_in_the_macro_of_its_contract() {
    for source in [
        include_str!("../src/order_repo.rs"),
        include_str!("../src/upload_ledger.rs"),
        include_str!("../src/idempotency_ledger.rs"),
        include_str!("../src/api_key_repo.rs"),
        include_str!("../src/delivery_queue.rs"),
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
