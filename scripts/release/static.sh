#!/usr/bin/env bash
# Compiles the static programs of the release and packs each into an archive, in
# target/packages. Needs rustup, Python and cargo-cyclonedx; zig compiles and links the C parts.
#
#     scripts/release/static.sh [ARCHITECTURE…]
set -euo pipefail
cd "$(dirname "$0")/../.."

[ $# -gt 0 ] || set -- x86_64 aarch64
target=$(realpath --canonicalize-missing "${CARGO_TARGET_DIR:-target}")
files=$target/packages
tools=$target/tools/release
python3 -m venv "$tools"
"$tools/bin/pip" install --quiet --disable-pip-version-check --requirement scripts/release/requirements.txt
export PATH="$tools/bin:$PATH"

# The program of this machine describes all of them.
for architecture in $(printf '%s\n' "$(uname -m)" "$@" | sort --unique); do
    triple=$architecture-unknown-linux-musl
    rustup target add "$triple"
    cargo zigbuild --release --locked --package notary-orders --target "$triple"
done
scripts/release/describe.sh "$target/$(uname -m)-unknown-linux-musl/release/notary-orders" "$files/description"
scripts/sbom.sh "$files/notary-orders.cdx.json"
cp "$files/notary-orders.cdx.json" "$files/description"
for architecture in "$@"; do
    scripts/release/pack.sh "$target/$architecture-unknown-linux-musl/release/notary-orders" \
        "$architecture" "$files/description" "$files"
done
