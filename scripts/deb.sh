#!/usr/bin/env bash
# Builds the Debian package (needs cargo-deb). Arguments go to cargo-deb, such as `--output FILE`.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo build --release --locked --package notary-orders
target=${CARGO_TARGET_DIR:-target}/release
# The program describes itself. Its settings must not come from the environment of the build.
describe() { env -i "$target/notary-orders" "$@"; }
mkdir -p "$target/manual"
describe man >"$target/manual/notary-orders.1"
describe completions bash >"$target/manual/notary-orders"
describe completions zsh >"$target/manual/_notary-orders"
describe completions fish >"$target/manual/notary-orders.fish"
cargo deb --package notary-orders --locked --no-build "$@"
