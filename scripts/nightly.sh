#!/usr/bin/env bash
# Runs what scripts/test.sh leaves out because it takes long: generators of clients, Schemathesis,
# memory and random bytes, and more of what test.sh runs a little of: 2,000 connections, 50 rounds of
# kills, the examples in all languages.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/test_tools.sh
export NIGHTLY=1
export RUST_TEST_THREADS="${RUST_TEST_THREADS:-$(nproc)}"
status=0
tests() { cargo test --workspace --locked --no-fail-fast "$@" || status=$?; }

cargo build --workspace --examples --locked
tests --lib --bins --tests -- --ignored
tests --test e2e -- abuse::connections docs::examples docs::in_step faults::crash
tests --test receivers
exit "$status"
