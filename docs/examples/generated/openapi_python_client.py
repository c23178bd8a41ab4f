"""Uses the client that openapi-python-client makes: creates an order with two documents, reads it
back, lets the signing service change it, and manages a webhook.

Settings: BASE_URL, API_KEY (with the scope webhooks:manage), SERVICE_API_KEY (of the signing service
42), WEBHOOK_URL.
"""

import datetime
import hashlib
import os
import uuid
from io import BytesIO
from pathlib import Path

from notary_orders_client import AuthenticatedClient
from notary_orders_client.api.orders import (
    update_order,
    create_order_with_documents,
    list_orders,
    read_document,
    read_order,
)
from notary_orders_client.api.webhooks import (
    change_webhook,
    create_webhook,
    delete_webhook,
    list_webhooks,
)
from notary_orders_client.models import (
    CreatedOrder,
    NewWebhook,
    Order,
    OrderUpdate,
    OrderForm,
    OrderList,
    OrderRecord,
    RequestedByRequest,
    SigningContactsRequest,
    SigningDetailsRequest,
    SigningTimeType,
    Webhook,
    WebhookChange,
    WebhookEventType,
    WebhookList,
    WebhookRequest,
    WebhookStatus,
)
from notary_orders_client.types import File

documents = Path("docs/examples")


def client(key: str) -> AuthenticatedClient:
    return AuthenticatedClient(base_url=os.environ["BASE_URL"], token=key)


ours, theirs = client(os.environ["API_KEY"]), client(os.environ["SERVICE_API_KEY"])

form = OrderForm(
    signing_contacts_form_data=SigningContactsRequest(order_contact_email="escrow@title.example.com"),
    signing_details_form_data=SigningDetailsRequest(
        file_number=f"ATTRS-{uuid.uuid4()}",
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
        File(payload=BytesIO((documents / name).read_bytes()), file_name=name)
        for name in ("deed-of-trust.pdf", "signing-instructions.docx")
    ],
)
created = create_order_with_documents.sync(
    client=ours, body=form, idempotency_key=f'"{uuid.uuid4()}"'
)
# Each call returns the answer or a problem.
assert isinstance(created, CreatedOrder), created
print("created", created.order_id, created.signing_date, created.documents_uploaded)

page = list_orders.sync(client=ours, limit=10, file_number=created.file_number)
assert isinstance(page, OrderList), page
print("listed", [order.order_id for order in page.data])

order = read_order.sync(created.order_id, client=ours)
assert isinstance(order, Order), order
print("read", order.order_status, order.details.signing_details_form_data.specific_time)

for document in order.documents:
    download = read_document.sync(created.order_id, document.position, client=ours)
    assert isinstance(download, File), download
    content = download.payload.read()
    assert hashlib.sha256(content).hexdigest() == document.sha256
    print("downloaded", document.name, len(content))

changed = update_order.sync(
    created.order_id, client=theirs, body=OrderUpdate(order_status="ASSIGNED", notary_id=7001)
)
assert isinstance(changed, OrderRecord), changed
print("changed", changed.order_status, changed.notary_id)

webhook = create_webhook.sync(
    client=ours,
    body=WebhookRequest(
        url=os.environ["WEBHOOK_URL"],
        events=[WebhookEventType.ORDER_CREATED],
        description="Escrow desk",
    ),
)
assert isinstance(webhook, NewWebhook) and webhook.secret.startswith("whsec_"), webhook
disabled = change_webhook.sync(
    webhook.id,
    client=ours,
    body=WebhookChange(status=WebhookStatus.DISABLED, description=None),
)
assert isinstance(disabled, Webhook), disabled
listed = list_webhooks.sync(client=ours)
assert isinstance(listed, WebhookList), listed
print("webhook", disabled.status, disabled.events, disabled.description, len(listed.data))
delete_webhook.sync_detailed(webhook.id, client=ours)
listed = list_webhooks.sync(client=ours)
assert isinstance(listed, WebhookList), listed
print("webhooks", len(listed.data))
