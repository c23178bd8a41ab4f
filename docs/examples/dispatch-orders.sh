#!/usr/bin/env bash
# The side of the signing service: finds its new orders, assigns a notary to each, and confirms it. Run
# it again and again: it goes on after the last order that it has seen.
#
# Needs create-orders.sh beside it. Settings: BASE_URL, API_KEY (a key of the signing service),
# NOTARY_ID, STATE_DIR (folder of the position in the list).
set -euo pipefail

. "$(dirname "$0")/create-orders.sh"
notary_id=${NOTARY_ID:-7001}
most_lost=3
stored=${STATE_DIR:-.}/newest-order

# Decides by the state of an order; empty if there is nothing to do. Your product asks its notaries here.
# shellcheck disable=SC2016 # jq expands $notary
next_change='if .order_status == "NEW" then { order_status: "ASSIGNED", notary_id: $notary }
    elif .order_status == "ASSIGNED" and .notary_id == $notary then { order_status: "CONFIRMED" }
    else empty end'
decide() { jq --argjson notary "$notary_id" "$@"; }

dispatch() {
    local path=/api/order/$1 tag lost=0
    while true; do
        get "$path" "$work/found"
        tag=$(sed -nE 's/^etag: *(.*)\r$/\1/Ip' "$work/answer.head")
        decide "$next_change" "$work/found" >"$work/change"
        [ -s "$work/change" ] || return 0
        # Changes only the version that was read, so a repeat is safe, too.
        if send PATCH "$path" 200 --header "If-Match: $tag" \
            --header 'Content-Type: application/json' --data-binary "@$work/change" 2>"$work/failure"; then
            echo "$(jq -r .order_status "$work/change") $1"
        elif [ "$(problem .code)" != precondition_failed ]; then
            cat "$work/failure" >&2
            return 1
        elif ((++lost == most_lost)); then
            echo "gave up on order $1 after $most_lost answers 412:" \
                "another program keeps changing it, or a proxy changes ETag or If-Match" >&2
            return 1
        else
            # Another dispatcher or the client was quicker: reads again, and decides anew. The pause keeps
            # two dispatchers from meeting again.
            sleep "0.$((500 + RANDOM % 500))"
        fi
    done
}

# Prints the oldest order: pages to the end of the list, which begins with the newest one.
oldest() {
    local before='' order_id
    while true; do
        get "/api/order?limit=100$before" "$work/page"
        order_id=$(jq '.data[-1].order_id // empty' "$work/page")
        [ "$(jq .has_more "$work/page")" = true ] || break
        before="&starting_after=$order_id"
    done
    echo "$order_id"
}

# Follows the list of orders from its stored position, which your product has in its database. Begins
# with the oldest order.
if [ ! -s "$stored" ]; then
    first=$(set -e; oldest)
    [ -n "$first" ] || exit 0
    dispatch "$first"
    echo "$first" >"$stored"
fi
while true; do
    get "/api/order?limit=100&ending_before=$(cat "$stored")" "$work/page"
    [ "$(jq '.data | length' "$work/page")" -gt 0 ] || break
    due=$(decide ".data | reverse | .[] | select([$next_change] != []) | .order_id" "$work/page")
    for order_id in $due; do
        dispatch "$order_id"
    done
    jq '.data[0].order_id' "$work/page" >"$stored"
done
