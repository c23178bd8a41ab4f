#!/usr/bin/env bash
# Runs the named topologies, or all, one after the other: scripts/topologies/README.md.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ -z "${NOTARY_ORDERS_BINARY:-}" ]; then
    cargo build --release --locked
    export NOTARY_ORDERS_BINARY="${CARGO_TARGET_DIR:-target}/release/notary-orders"
fi
failed=()
for script in scripts/topologies/*.*; do
    [ -x "$script" ] || continue
    name=$(basename "${script%.*}")
    [[ $# -eq 0 || " $* " == *" $name "* ]] || continue
    printf '\n== %s\n' "$name"
    "$script" || failed+=("$name")
done
[ ${#failed[@]} -eq 0 ] || { echo "failed: ${failed[*]}" >&2; exit 1; }
