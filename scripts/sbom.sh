#!/usr/bin/env bash
# Writes the bill of materials of the binary (CycloneDX) to a file, target/notary-orders.cdx.json if
# none is named. Needs cargo-cyclonedx.
set -euo pipefail
cd "$(dirname "$0")/.."

file=${1:-target/notary-orders.cdx.json}
# The tool writes a file beside every manifest of the workspace.
trap 'rm -f crates/*/*.cdx.json' EXIT
cargo cyclonedx --quiet --manifest-path crates/app/Cargo.toml --format json --spec-version 1.5 \
    --describe binaries --target all
mkdir -p "$(dirname "$file")"
# Removes the path of the build.
sed "s#$PWD#.#g" crates/app/notary-orders_bin.cdx.json >"$file"
echo "$file: $(grep -c '"purl"' "$file") components"
