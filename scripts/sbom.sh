#!/usr/bin/env bash
# Writes what the binary is made of, as CycloneDX, to target/notary-orders.cdx.json (needs cargo-cyclonedx).
set -euo pipefail
cd "$(dirname "$0")/.."

# The tool writes beside every manifest of the workspace.
trap 'rm -f bench/*.cdx.json crates/*/*.cdx.json' EXIT
cargo cyclonedx --quiet --manifest-path crates/app/Cargo.toml --format json --spec-version 1.5 --describe binaries --target all
mkdir -p target
# Where it was built is nobody's business.
sed "s#$PWD#.#g" crates/app/notary-orders_bin.cdx.json >target/notary-orders.cdx.json
echo "target/notary-orders.cdx.json: $(grep -c '"purl"' target/notary-orders.cdx.json) components"
