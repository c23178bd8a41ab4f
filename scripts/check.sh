#!/usr/bin/env bash
# Checks a change quickly: format, lint, and the unit and contract tests on the embedded adapters.
# Needs only Rust and a C compiler: no PostgreSQL, S3, browser, Node.js or Python. test.sh runs the rest.
set -euo pipefail
cd "$(dirname "$0")/.."

step() { printf '\n== %s\n' "$*"; }

step format
cargo fmt --all --check
cargo fmt --manifest-path docs/examples/memory-blob-store/Cargo.toml --check

step lint
cargo clippy --workspace --all-targets --all-features --locked -- -D warnings

step tests
cargo test --locked --quiet \
    --package notary-orders-domain \
    --package notary-orders-permits \
    --package notary-orders-contract-tests \
    --package notary-orders-adapter-sqlite \
    --package notary-orders-adapter-object-store \
    --package notary-orders-adapter-mail \
    --package notary-orders-adapter-webauthn \
    --package notary-orders-adapter-oidc \
    --package notary-orders-adapter-webhook \
    --package notary-orders-adapter-http \
    --lib --test contract --test contracts --test export --test mail --test order_details \
    --test store \
    -- --skip s3:: --skip smtp:: --skip calendar:: --skip foreign::
