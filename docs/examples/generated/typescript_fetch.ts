// Uses the client that openapi-generator makes for TypeScript: creates an order with two documents,
// reads it back, lets the signing service change it, and manages a webhook.
//
// Settings: BASE_URL, API_KEY (with the scope webhooks:manage), SERVICE_API_KEY (of the signing service
// 42), WEBHOOK_URL.

import { createHash, randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import {
    Configuration,
    OrdersApi,
    SigningTimeType,
    WebhookEventType,
    WebhooksApi,
    WebhookStatus,
} from './typescript-fetch';

const client = (accessToken = '') => new Configuration({ basePath: process.env.BASE_URL, accessToken });
const ours = client(process.env.API_KEY);
const theirs = client(process.env.SERVICE_API_KEY);

async function main() {
    const orders = new OrdersApi(ours);
    const created = await orders.createOrderWithDocuments({
        idempotencyKey: `"${randomUUID()}"`,
        signingContactsFormData: { orderContactEmail: 'escrow@title.example.com' },
        signingDetailsFormData: {
            fileNumber: `FETCH-${randomUUID()}`,
            signingDate: new Date('2026-12-01'),
            signingTimeType: SigningTimeType.At,
            specificTime: '14:30',
            timeZoneId: 'America/Chicago',
            propertyAddress: '123 Main St, Dallas, TX 75201',
            city: 'Dallas',
            state: 'TX',
            zipcode: '75201',
            signingType: 'Refinance',
            signerName: 'Jane Doe',
            signerPhone: '+1 555 010 0199',
            signerEmail: 'jane.doe@example.com',
            invoiceFee: 150.5,
        },
        signingServiceId: 42,
        requestedBy: { userId: 1001 },
        documents: ['deed-of-trust.pdf', 'signing-instructions.docx'].map(
            (name) => new File([readFileSync(`docs/examples/${name}`)], name),
        ),
    });
    const id = created.orderId;
    const date = created.signingDate.toISOString().slice(0, 10);
    console.log('created', id, date, created.documentsUploaded);

    const page = await orders.listOrders({ limit: 10, fileNumber: created.fileNumber });
    console.log('listed', JSON.stringify(page.data.map((order) => order.orderId)));

    const order = await orders.readOrder({ orderId: id });
    console.log('read', order.orderStatus, order.details.signingDetailsFormData.specificTime);

    for (const { position, name, sha256 } of order.documents) {
        const download: Blob = await orders.readDocument({ orderId: id, position });
        const content = Buffer.from(await download.arrayBuffer());
        if (createHash('sha256').update(content).digest('hex') !== sha256) throw new Error(name);
        console.log('downloaded', name, content.length);
    }

    const changed = await new OrdersApi(theirs).updateOrder({
        orderId: id,
        orderUpdate: { orderStatus: 'ASSIGNED', notaryId: 7001 },
    });
    console.log('changed', changed.orderStatus, changed.notaryId);

    const webhooks = new WebhooksApi(ours);
    const webhook = await webhooks.createWebhook({
        webhookRequest: {
            url: process.env.WEBHOOK_URL ?? '',
            events: new Set([WebhookEventType.OrderCreated]),
            description: 'Escrow desk',
        },
    });
    if (!webhook.secret.startsWith('whsec_')) throw new Error('no secret');
    const disabled = await webhooks.changeWebhook({
        webhookId: webhook.id,
        webhookChange: { status: WebhookStatus.Disabled, description: null },
    });
    const listed = (await webhooks.listWebhooks()).data;
    console.log('webhook', disabled.status, disabled.events, disabled.description, listed.length);
    await webhooks.deleteWebhook({ webhookId: webhook.id });
    console.log('webhooks', (await webhooks.listWebhooks()).data.length);
}

main().catch((error) => {
    console.error(error);
    process.exitCode = 1;
});
