// Uses the types that openapi-typescript makes, with openapi-fetch: creates an order, reads it back,
// changes it and downloads a document that is added to it.
//
// Settings: BASE_URL, API_KEY.

import { createHash, randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import createClient from 'openapi-fetch';
import type { components, paths } from './openapi-typescript';

type OrderRequest = components['schemas']['OrderRequest'];

const order: OrderRequest = {
    signingContactsFormData: { orderContactEmail: 'escrow@title.example.com' },
    signingDetailsFormData: {
        fileNumber: `TYPES-${randomUUID()}`,
        signingDate: '2026-12-01',
        signingTimeType: 'at',
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
    },
    signingServiceId: 42,
    requestedBy: { userId: 1001 },
};

async function main() {
    const client = createClient<paths>({
        baseUrl: process.env.BASE_URL,
        headers: { authorization: `Bearer ${process.env.API_KEY}` },
    });
    const created = await client.POST('/api/order/create', {
        params: { header: { 'Idempotency-Key': `"${randomUUID()}"` } },
        body: order,
    });
    if (!created.data) throw new Error(created.error.detail);
    const path = { order_id: created.data.order_id };
    console.log('created', path.order_id, created.data.signing_date);

    const name = 'deed-of-trust.pdf';
    const added = await client.POST('/api/order/{order_id}/documents', {
        params: { path },
        body: { documents: [name] },
        // The types of the document are texts, so the form is made here.
        bodySerializer: (body) => {
            const form = new FormData();
            for (const name of body.documents) {
                form.append('documents', new File([readFileSync(`docs/examples/${name}`)], name));
            }
            return form;
        },
    });
    if (!added.data) throw new Error(added.error.detail);

    const read = await client.GET('/api/order/{order_id}', { params: { path } });
    if (!read.data) throw new Error('no order');
    console.log('read', read.data.order_status, read.data.details.signingDetailsFormData.language);

    // Values of answers may grow, so their types are open. This order has only values that requests take.
    const details = { ...read.data.details, signingServiceId: read.data.signing_service_id } as OrderRequest;
    details.signingDetailsFormData.lender = 'First Federal';
    const changed = await client.PUT('/api/order/{order_id}', {
        params: { path, header: { 'If-Match': read.response.headers.get('etag') ?? undefined } },
        body: details,
    });
    if (!changed.data) throw new Error(changed.error.detail);
    console.log('changed', changed.data.order_status);

    for (const { position, name, sha256 } of read.data.documents) {
        const download = await client.GET('/api/order/{order_id}/documents/{position}', {
            params: { path: { ...path, position } },
            parseAs: 'arrayBuffer',
        });
        if (!download.data) throw new Error('no document');
        const content = Buffer.from(download.data);
        if (createHash('sha256').update(content).digest('hex') !== sha256) throw new Error(name);
        console.log('downloaded', name, content.length);
    }
}

main().catch((error) => {
    console.error(error);
    process.exitCode = 1;
});
