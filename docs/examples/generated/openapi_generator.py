"""Uses the client that openapi-generator makes for Python: creates an order with two documents, reads
it back, lets the signing service change it, and manages a webhook.

Settings: BASE_URL, API_KEY (with the scope webhooks:manage), SERVICE_API_KEY (of the signing service
42), WEBHOOK_URL.
"""

import datetime
import hashlib
import os
import uuid
from pathlib import Path

from openapi_client import (
    ApiClient,
    Configuration,
    OrderUpdate,
    OrdersApi,
    RequestedByRequest,
    SigningContactsRequest,
    SigningDetailsRequest,
    SigningTimeType,
    WebhookChange,
    WebhookEventType,
    WebhookRequest,
    WebhooksApi,
    WebhookStatus,
)

documents = Path("docs/examples")


def client(key: str) -> ApiClient:
    return ApiClient(Configuration(host=os.environ["BASE_URL"], access_token=key))


ours, theirs = client(os.environ["API_KEY"]), client(os.environ["SERVICE_API_KEY"])
orders = OrdersApi(ours)

created = orders.create_order_with_documents(
    signing_contacts_form_data=SigningContactsRequest(order_contact_email="escrow@title.example.com"),
    signing_details_form_data=SigningDetailsRequest(
        file_number=f"PYTHON-{uuid.uuid4()}",
        signing_date=datetime.date(2026, 12, 1),
        signing_time_type=SigningTimeType.AT,
        specific_time="14:30",
        time_zone_id="America/Chicago",
        property_address="123 Main St, Dallas, TX 75201",
        city="Dallas",
        state="TX",
        zipcode="75201",
        signing_type="Refinance",
        signer_name="Jane Doe",
        signer_phone="+1 555 010 0199",
        signer_email="jane.doe@example.com",
        invoice_fee=150.5,
    ),
    signing_service_id=42,
    requested_by=RequestedByRequest(user_id=1001),
    documents=[
        (name, (documents / name).read_bytes())
        for name in ("deed-of-trust.pdf", "signing-instructions.docx")
    ],
    idempotency_key=f'"{uuid.uuid4()}"',
)
print("created", created.order_id, created.signing_date, created.documents_uploaded)

page = orders.list_orders(limit=10, file_number=created.file_number, updated_after=created.updated_at)
print("listed", [order.order_id for order in page.data])

changes = orders.list_changes(limit=10)
assert [(change.order_id, change.kind) for change in changes.data][-1] == (created.order_id, "created")

order = orders.read_order(created.order_id)
print("read", order.order_status, order.details.signing_details_form_data.specific_time)

for document in order.documents:
    content = orders.read_document(created.order_id, document.position)
    assert hashlib.sha256(content).hexdigest() == document.sha256
    print("downloaded", document.name, len(content))

changed = OrdersApi(theirs).update_order(
    created.order_id, OrderUpdate(order_status="ASSIGNED", notary_id=7001)
)
print("changed", changed.order_status, changed.notary_id)

webhooks = WebhooksApi(ours)
webhook = webhooks.create_webhook(
    WebhookRequest(
        url=os.environ["WEBHOOK_URL"],
        events=[WebhookEventType.ORDER_DOT_CREATED],
        description="Escrow desk",
    )
)
assert webhook.secret.startswith("whsec_")
disabled = webhooks.change_webhook(
    webhook.id, WebhookChange(status=WebhookStatus.DISABLED, description=None)
)
listed = webhooks.list_webhooks().data
print("webhook", disabled.status, disabled.events, disabled.description, len(listed))
webhooks.delete_webhook(webhook.id)
print("webhooks", len(webhooks.list_webhooks().data))
