#!/usr/bin/env bash
# The side of the signing service after the appointment: returns the signed documents of an order, and sets
# its status to SIGNED. Run it as often as you like: the documents are stored once.
#
# Needs create-orders.sh beside it. Settings: BASE_URL, API_KEY (a key of the signing service), ORDER_ID,
# SIGNED_DOCUMENT (a file; here the unsigned deed), STATE_DIR (folder of the idempotency keys).
set -euo pipefail

. "$(dirname "$0")/create-orders.sh"
: "${ORDER_ID:?set ORDER_ID}"
document=${SIGNED_DOCUMENT:-$folder/deed-of-trust.pdf}

key=$(idempotency_key "$ORDER_ID-$(basename "$document")")
send POST "/api/order/$ORDER_ID/signed-documents" 201 \
    --header "Idempotency-Key: \"$key\"" --form "documents=@\"$document\""
stored=$(jq .signed_documents_uploaded "$work/answer.body")
# The documents first: a signed order without them would be a question for the client.
send PATCH "/api/order/$ORDER_ID" 200 \
    --header 'Content-Type: application/json' --data-binary '{ "order_status": "SIGNED" }'
echo "returned $ORDER_ID $stored"
