//! The clock and the randomness of the machine keep the contracts of their ports.

mod clock {
    contract_tests::clock_contract!(app::SystemClock);
}

mod entropy {
    contract_tests::entropy_contract!(app::OsEntropy);
}
