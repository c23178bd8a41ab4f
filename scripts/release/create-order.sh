#!/usr/bin/env bash
# Creates an order, and fails unless the answer is 201.
#
#     scripts/release/create-order.sh URL KEY
set -euo pipefail

answer=$(curl --silent --show-error --retry 20 --retry-connrefused --retry-delay 1 --write-out '\n%{http_code}' "$1/api/order/create" \
    --header "Authorization: Bearer $2" --header 'Content-Type: application/json' --data '{
        "signingContactsFormData": { "orderContactEmail": "escrow@title.example.com" },
        "signingDetailsFormData": {
            "fileNumber": "TRY-1", "signingDate": "2026-12-01", "signingTimeType": "at",
            "specificTime": "14:30", "timeZoneId": "America/Chicago", "propertyAddress": "123 Main St",
            "city": "Dallas", "state": "TX", "zipcode": "75201", "signingType": "Refinance",
            "signerName": "Jane Doe", "signerPhone": "+1 555 010 0199", "signerEmail": "jane.doe@example.com"
        },
        "signingServiceId": 42, "requestedBy": { "userId": 1001 } }')
[ "${answer##*$'\n'}" = 201 ] || { echo "the order was not created: $answer" >&2; exit 1; }
echo "$answer" | head -n 1
