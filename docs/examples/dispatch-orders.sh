#!/usr/bin/env bash
# The side of the signing service: finds its open orders, assigns a notary to each, and confirms it. Run
# it again and again: it looks at the orders that have changed since the last run.
#
# Needs create-orders.sh beside it. Settings: BASE_URL, API_KEY (a key of the signing service),
# NOTARY_ID, STATE_DIR (folder of the cursor of the last run).
set -euo pipefail

. "$(dirname "$0")/create-orders.sh"
notary_id=${NOTARY_ID:-7001}
most_lost=3
stored=${STATE_DIR:-.}/dispatched-to

# Decides by the state of an order; empty if there is nothing to do. Your product asks its notaries here.
# shellcheck disable=SC2016 # jq expands $notary
next_change='if .order_status == "NEW" then { order_status: "ASSIGNED", notary_id: $notary }
    elif .order_status == "ASSIGNED" and .notary_id == $notary then { order_status: "CONFIRMED" }
    else empty end'
decide() { jq --argjson notary "$notary_id" "$@"; }

dispatch() {
    local path=/api/order/$1 tag lost=0
    while true; do
        if ! get "$path" "$work/found" 2>"$work/failure"; then
            [ "$(problem .code)" != erased ] || return 0
            cat "$work/failure" >&2
            return 1
        fi
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

# Prints the open orders that have something to do, the oldest first. Reads all pages.
open_orders() {
    local path='/api/order?limit=100&order_status=NEW,ASSIGNED' before=''
    while true; do
        get "$path$before" "$work/page"
        decide ".data[] | select([$next_change] != []) | .order_id" "$work/page"
        [ "$(jq .has_more "$work/page")" = true ] || break
        before="&starting_after=$(jq '.data[-1].order_id' "$work/page")"
    done | tac
}

# The first run looks at all open orders. The cursor is read before the first page: an order that changes
# meanwhile is found in the next run.
if [ ! -s "$stored" ]; then
    get '/api/order/changes?after=now' "$work/now"
    due=$(set -e; open_orders)
    for order_id in $due; do
        dispatch "$order_id"
    done
    jq -r .next_after "$work/now" >"$stored"
    exit
fi

# The others follow the changes. The cursor is stored last: after a crash, the next run looks at these orders
# again. Your product has it in its database.
while true; do
    get "/api/order/changes?limit=100&after=$(jq -Rr @uri "$stored")" "$work/changes"
    for order_id in $(jq '[.data[].order_id] | unique[]' "$work/changes"); do
        dispatch "$order_id"
    done
    jq -r .next_after "$work/changes" >"$stored"
    [ "$(jq .has_more "$work/changes")" = true ] || break
done
