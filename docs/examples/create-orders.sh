#!/usr/bin/env bash
# Creates an order without documents and an order with documents, each exactly once. Then reads the
# second one back and downloads its documents.
#
# Needs curl and jq. Settings: BASE_URL, API_KEY, FILE_NUMBER (prefix of the file numbers),
# STATE_DIR (folder of the idempotency keys).
set -euo pipefail

for tool in curl jq; do
    command -v "$tool" >/dev/null || { echo "install $tool" >&2; exit 1; }
done
: "${BASE_URL:?set BASE_URL}" "${API_KEY:?set API_KEY}"
file_number=${FILE_NUMBER:-REFI-2026-100}
folder=$(dirname "${BASH_SOURCE[0]}")
attempts=5 first_backoff=500 longest_backoff=30000 # milliseconds
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

order() {
    jq -n --arg file_number "$1" '{
        signingContactsFormData: { orderContactEmail: "escrow@title.example.com" },
        signingDetailsFormData: {
            fileNumber: $file_number, signingType: "Refinance",
            signingDate: "2026-12-01", signingTimeType: "at", specificTime: "14:30",
            timeZoneId: "America/Chicago",
            propertyAddress: "123 Main St, Dallas, TX 75201",
            city: "Dallas", state: "TX", zipcode: "75201",
            signerName: "Jane Doe", signerPhone: "+1 555 010 0199",
            signerEmail: "jane.doe@example.com"
        },
        signingServiceId: 42,
        requestedBy: { userId: 1001 }
    }'
}

# Makes one key for each order and stores it before the first attempt, so that a restarted script
# repeats with the same key.
idempotency_key() {
    local stored=${STATE_DIR:-.}/$1.idempotency-key
    [ -s "$stored" ] || od -An -N16 -tx1 /dev/urandom | tr -d ' \n' >"$stored"
    cat "$stored"
}

# Makes one attempt and prints the status, or 000 without an answer. The API key and the order are
# in files, because all users of a machine can see arguments.
attempt_once() {
    local method=$1 path=$2
    shift 2
    curl --silent --show-error --connect-timeout 10 --speed-limit 1 --speed-time 60 \
        --output "$work/answer.body" --dump-header "$work/answer.head" --write-out '%{http_code}' \
        --header @<(printf 'Authorization: Bearer %s\n' "$API_KEY") --request "$method" "$@" \
        "${BASE_URL%/}$path" 2>"$work/answer.error" || printf 000
}

# Sends METHOD PATH EXPECTED until there is a final answer, and fails unless its status is an expected one,
# such as 201 or "200 201". The answer is in $work. A repeat must be safe.
send() {
    local method=$1 path=$2 expected=$3 attempt status code failure retry_after backoff
    shift 3
    for ((attempt = 0; attempt < attempts; attempt++)); do
        rm -f "$work"/answer.*
        # Ignores the status of an answer that broke off.
        status=$(attempt_once "$method" "$path" "$@" | tail -c 3) code='' retry_after=0
        if [[ " $expected " = *" $status "* ]]; then
            return
        elif [ "$status" = 000 ]; then
            # The service may have done it or not.
            failure="no answer: $(cat "$work/answer.error")"
        else
            code=$(problem '.code // ""')
            failure=$(described "$status" "$code")
            [[ $status = 429 || ($status -ge 500 && $status != 501) || $code = idempotency_in_flight ]] ||
                { echo "$failure" >&2; return 1; }
            retry_after=$(sed -nE 's/^retry-after: *([0-9]+)\r?$/\1/Ip' "$work/answer.head")
        fi
        if ((attempt + 1 < attempts)); then
            # Never earlier than Retry-After. The jitter spreads clients that got the same value.
            backoff=$((first_backoff << attempt))
            backoff=$(((backoff < longest_backoff ? backoff : longest_backoff) * RANDOM / 32768))
            sleep "$(printf '%d.%03d' $((retry_after + backoff / 1000)) $((backoff % 1000)))"
        fi
    done
    echo "gave up after $attempts attempts, try later again: $failure" >&2
    return 1
}

# Prints a member of the problem; nothing if a proxy answered instead of the service.
problem() { jq -r "$1" "$work/answer.body" 2>/dev/null || true; }

described() {
    local advice
    case $1,$2 in
        *,unauthorized) advice='check API_KEY, or ask the operator for a new key' ;;
        *,forbidden) advice='the key lacks a scope or is limited to another signing service: ask the operator' ;;
        *,not_found | *,method_not_allowed) advice='check BASE_URL' ;;
        *,duplicate_order) advice='another order has just used this file number: find it before you send this one' ;;
        *,idempotency_key_reused) advice='the stored key was used for another payload: send that payload, or use a new key' ;;
        4??,*) advice='correct the request' ;;
        5??,*) advice='the service failed, not the request' ;;
        *) advice='check BASE_URL' ;;
    esac
    echo "$1 ${2:-no code}: $(problem '.detail // "no detail"')" \
        "($advice; request $(problem '.request_id // "unknown"'))"
    problem '.errors // [] | .[] | "  \(.pointer // .parameter) \(.code): \(.detail)"'
}

# Creates an order, and prints its id. The key makes repeats safe.
post() {
    local path=$1 key
    key=$(idempotency_key "$2") || return
    shift 2
    send POST "$path" 201 --header "Idempotency-Key: \"$key\"" "$@" || return
    jq -r .order_id "$work/answer.body"
}

create() {
    order "$1" >"$work/order"
    post /api/order/create "$1" \
        --header 'Content-Type: application/json' --data-binary "@$work/order"
}

create_with_documents() {
    local file_number=$1 name parts=()
    order "$file_number" >"$work/order"
    # In the form, every part but the files is a text: objects as JSON, the id in decimal digits.
    for name in signingContactsFormData signingDetailsFormData signingServiceId requestedBy; do
        jq -cj ".$name" "$work/order" >"$work/$name"
        parts+=(--form "$name=<$work/$name")
    done
    for name in "${@:2}"; do parts+=(--form "documents=@\"$name\""); done
    post /api/order/create-with-documents "$file_number" "${parts[@]}"
}

# Gets a path into a file. A read changes nothing, so it can be repeated without a key.
get() {
    send GET "$1" 200 || return
    mv "$work/answer.body" "$2"
}

# Reads an order back, and downloads its documents.
read_back() {
    local order_id=$1 position name sha256
    get "/api/order/$order_id" "$work/found"
    while IFS=$'\t' read -r position name sha256; do
        get "/api/order/$order_id/documents/$position" "$work/document"
        [ "$(sha256sum <"$work/document" | cut -c 1-64)" = "$sha256" ] ||
            { echo "$name is damaged" >&2; return 1; }
        echo "document $name"
    done < <(jq -r '.documents[] | [.position, .name, .sha256] | @tsv' "$work/found")
}

# Not when another program reads this one.
[ "${BASH_SOURCE[0]}" = "$0" ] || return 0

order_id=$(create "$file_number-1")
echo "order_id $order_id"
order_id=$(create_with_documents "$file_number-2" \
    "$folder/deed-of-trust.pdf" "$folder/signing-instructions.docx")
echo "order_id $order_id"
read_back "$order_id"
