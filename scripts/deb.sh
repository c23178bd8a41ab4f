#!/usr/bin/env bash
# Builds the Debian package (needs cargo-deb). Arguments go to cargo-deb, such as `--output FILE`. On
# Debian, the version says for which release it is built: the C library is that of the machine.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo build --release --locked --package notary-orders
# Not beside the program: cargo-deb compresses no manual there.
scripts/release/describe.sh "${CARGO_TARGET_DIR:-target}/release/notary-orders" target/packages/description
# shellcheck source=/dev/null
revision=1$(. /etc/os-release && if [ "$ID" = debian ]; then echo "~deb$VERSION_ID"; fi)
cargo deb --package notary-orders --locked --no-build --deb-revision "$revision" "$@"
