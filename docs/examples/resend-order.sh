#!/usr/bin/env bash
# The side of the client at each change: sends the whole order again under its file number, and then the
# documents that the order has never had. The service creates the order or amends it. Run it as often as you
# like, and several at once: there is one order, with each document once.
#
# Needs create-orders.sh beside it. Settings: BASE_URL, API_KEY, FILE_NUMBER, SIGNING_DATE (YYYY-MM-DD),
# DOCUMENTS (paths, separated as in PATH; here those of this folder).
set -euo pipefail

FILE_NUMBER=${FILE_NUMBER:-REFI-2026-100-1}
. "$(dirname "$0")/create-orders.sh"
signing_date=${SIGNING_DATE:-2026-12-02}
IFS=: read -ra documents <<<"${DOCUMENTS:-$folder/deed-of-trust.pdf:$folder/signing-instructions.docx}"
most_lost=3

# Makes a key for one request and its repeats. The next run makes another one: it may send other data.
fresh_key() { printf '"%s"' "$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')"; }

# What is left out is removed: send the whole order.
order "$file_number" |
    jq --arg date "$signing_date" '.signingDetailsFormData.signingDate = $date' >"$work/order"
send PUT "/api/order?file_number=$(jq -rn --arg it "$file_number" '$it | @uri')" '200 201' \
    --header "Idempotency-Key: $(fresh_key)" \
    --header 'Content-Type: application/json' --data-binary "@$work/order"
order_id=$(jq .order_id "$work/answer.body")
echo "sent $order_id $signing_date"

# Prints the first document whose SHA-256 the order has never had, also among replaced and withdrawn ones: a
# document that a user has withdrawn must not come back.
first_missing() {
    local document sha256
    for document in "${documents[@]}"; do
        sha256=$(sha256sum <"$document" | cut -c 1-64)
        if jq -e --arg it "$sha256" 'all(.documents[]; .sha256 != $it)' "$work/found" >/dev/null; then
            echo "$document"
            return
        fi
    done
}

# A current document of the same name is an older version of this one.
# shellcheck disable=SC2016 # jq expands $name
older='first(.documents[] | select(.name_as_sent == $name and .replaced_by == null and .withdrawn_at == null)
    | .position) // empty'

path=/api/order/$order_id lost=0
while true; do
    get "$path" "$work/found"
    document=$(first_missing)
    [ -n "$document" ] || break
    name=$(basename "$document") form=() what=added
    position=$(jq --arg name "$name" "$older" "$work/found")
    [ -z "$position" ] || form=(--form "replaces=$position") what=replaced
    # Adds to the version that was read: another run may send the same document.
    tag=$(sed -nE 's/^etag: *(.*)\r$/\1/Ip' "$work/answer.head")
    if send POST "$path/documents" 201 --header "If-Match: $tag" --header "Idempotency-Key: $(fresh_key)" \
        "${form[@]}" --form "documents=@\"$document\"" 2>"$work/failure"; then
        echo "$what $name"
    elif [ "$(problem .code)" != precondition_failed ]; then
        cat "$work/failure" >&2
        exit 1
    elif ((++lost == most_lost)); then
        echo "gave up on order $order_id after $most_lost answers 412:" \
            "another program keeps changing it, or a proxy changes ETag or If-Match" >&2
        exit 1
    else
        sleep "0.$((500 + RANDOM % 500))"
    fi
done
