#!/usr/bin/env bash
# The side of the client after a change: looks its order up by the file number, sends all of it again with
# another date, and explains the change in a note. Run it as often as you like: the order and the note are
# the same afterwards.
#
# Needs create-orders.sh beside it. Settings: BASE_URL, API_KEY, FILE_NUMBER (of the order), SIGNING_DATE
# (YYYY-MM-DD), STATE_DIR (folder of the idempotency keys).
set -euo pipefail

FILE_NUMBER=${FILE_NUMBER:-REFI-2026-100-1}
. "$(dirname "$0")/create-orders.sh"
signing_date=${SIGNING_DATE:-2026-12-02}

get "/api/order?limit=1&file_number=$(jq -rn --arg it "$file_number" '$it | @uri')" "$work/page"
order_id=$(jq -r '.data[0].order_id // empty' "$work/page")
[ -n "$order_id" ] || { echo "no order has the file number $file_number: create it" >&2; exit 1; }

# A repeat changes nothing, so it needs no key. What is left out is removed: send the whole order.
order "$file_number" |
    jq --arg date "$signing_date" '.signingDetailsFormData.signingDate = $date' >"$work/order"
send PUT "/api/order/$order_id" 200 \
    --header 'Content-Type: application/json' --data-binary "@$work/order"

key=$(idempotency_key "$file_number-$signing_date")
jq -n --arg date "$signing_date" '{ text: "The borrower asked for \($date)." }' >"$work/note"
send POST "/api/order/$order_id/notes" 201 --header "Idempotency-Key: \"$key\"" \
    --header 'Content-Type: application/json' --data-binary "@$work/note"
echo "changed $order_id $signing_date"
