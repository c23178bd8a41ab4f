//! Runs the contract tests of the clock and the randomness of the operating system.

mod clock {
    contract_tests::clock_contract!(operator::SystemClock);
}

mod entropy {
    contract_tests::entropy_contract!(operator::OsEntropy);
}
