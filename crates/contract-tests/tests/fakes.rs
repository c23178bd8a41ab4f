//! The fakes of the clock and of randomness fulfil the contracts of their ports.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod clock {
    contract_tests::contract!(clock, contract_tests::fakes::ManualClock::default());
}

mod entropy {
    contract_tests::contract!(entropy, contract_tests::fakes::CountingEntropy::default());
}
