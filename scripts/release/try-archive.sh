#!/usr/bin/env bash
# Tries an archive on this machine: checksums, a static program, a start, an order, a stop.
#
#     scripts/release/try-archive.sh ARCHIVE
set -euo pipefail
archive=$(realpath "$1")
cd "$(dirname "$0")/../.."

fail() { echo "FAILED: $*" >&2; exit 1; }
work=$(mktemp -d)
service=
end() {
    [ -z "$service" ] || kill "$service" 2>/dev/null || true
    rm -r "$work"
}
trap end EXIT

tar -xz --strip-components 1 -C "$work" -f "$archive"
(cd "$work" && sha256sum --check --quiet SHA256SUMS)
program=$work/notary-orders
[[ $(LC_ALL=C ldd "$program" 2>&1) =~ (not a dynamic executable|statically linked) ]] || fail "the program is not static"
"$program" --version
# Each package of a release has these.
for file in notary-orders.1 completions/notary-orders THIRD-PARTY-LICENCES.txt notary-orders.cdx.json; do
    [ -s "$work/$file" ] || fail "$file is missing"
done

settings=(--data-dir "$work/data" --listen 127.0.0.1:18080 --ops-listen 127.0.0.1:18081)
"$program" "${settings[@]}" --drain-secs 0 >/dev/null 2>"$work/log" &
service=$!
for _ in $(seq 100); do
    [ -s "$work/data/first-key" ] && "$program" "${settings[@]}" health 2>/dev/null && break
    sleep 0.1
done
"$program" "${settings[@]}" health || { cat "$work/log" >&2; fail "the service is not healthy"; }
scripts/release/create-order.sh http://127.0.0.1:18080 "$(grep -o 'nok_[[:alnum:]_-]*' "$work/data/first-key")"
kill "$service"
wait "$service" || fail "the stop ended with $?"
service=
echo "the archive works: $archive"
