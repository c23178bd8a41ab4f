#!/usr/bin/env bash
# Tries an image as README starts it: issues a key, starts the service as a user without rights, on a
# read-only root file system, checks its health, creates an order and stops it. ENGINE is docker or
# podman.
#
#     scripts/release/try-image.sh IMAGE
set -euo pipefail
cd "$(dirname "$0")/../.."

engine=${ENGINE:-docker}
name=notary-orders-try-$$
fail() { echo "FAILED: $*" >&2; exit 1; }
end() {
    status=$?
    [ "$status" -eq 0 ] || "$engine" logs "$name" >&2 || true
    "$engine" rm --force --volumes "$name" >/dev/null 2>&1 || true
    "$engine" volume rm --force "$name" >/dev/null 2>&1 || true
    exit "$status"
}
trap end EXIT
in_container() { "$engine" exec "$name" /usr/local/bin/notary-orders "$@"; }

described=$("$engine" image inspect "$1" | tr -d ' \n')
for expected in '"User":"10001:10001"' '"Test":["CMD","/usr/local/bin/notary-orders","health"]'; do
    [[ $described == *"$expected"* ]] || fail "the image has no $expected"
done
# shellcheck disable=SC2086 # several words
key=$("$engine" run --rm --read-only --volume "$name:/var/lib/notary-orders" ${RUN_OPTIONS:-} "$1" keys issue --name try)
# shellcheck disable=SC2086 # several words
"$engine" run --detach --name "$name" --read-only --cap-drop ALL --security-opt no-new-privileges \
    --volume "$name:/var/lib/notary-orders" --publish 127.0.0.1:18080:8080 ${RUN_OPTIONS:-} "$1" >/dev/null
for _ in $(seq 100); do
    in_container health 2>/dev/null && break
    sleep 0.1
done
in_container health || fail "the service is not healthy"
scripts/release/create-order.sh http://127.0.0.1:18080 "$key"
"$engine" stop --time 45 "$name" >/dev/null
status=$("$engine" inspect --format '{{.State.ExitCode}}' "$name")
[ "$status" = 0 ] || fail "the stop ended with $status"
echo "the image works: $1"
