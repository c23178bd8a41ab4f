//! Runs the contract tests of the clock and the randomness of the operating system.

mod clock {
    contract_tests::contract!(clock, operator::SystemClock);
}

mod entropy {
    contract_tests::contract!(entropy, operator::OsEntropy);
}
