#!/usr/bin/env bash
# Writes the bill of materials of the binary (CycloneDX) to target/notary-orders.cdx.json.
# Needs cargo-cyclonedx.
set -euo pipefail
cd "$(dirname "$0")/.."

# The tool writes a file beside every manifest of the workspace.
trap 'rm -f crates/*/*.cdx.json' EXIT
cargo cyclonedx --quiet --manifest-path crates/app/Cargo.toml --format json --spec-version 1.5 \
    --describe binaries --target all
mkdir -p target
# Removes the path of the build.
sed "s#$PWD#.#g" crates/app/notary-orders_bin.cdx.json >target/notary-orders.cdx.json
echo "target/notary-orders.cdx.json: $(grep -c '"purl"' target/notary-orders.cdx.json) components"
