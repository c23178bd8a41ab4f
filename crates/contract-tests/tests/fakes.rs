//! The fakes fulfil the contracts of their ports.

mod clock {
    contract_tests::clock_contract!(contract_tests::fakes::ManualClock::default());
}

mod entropy {
    contract_tests::entropy_contract!(contract_tests::fakes::CountingEntropy::default());
}
