// Uses the client that @hey-api/openapi-ts makes, with its schemas for zod: checks an order before it
// is sent, creates it with two documents, reads it back and checks the answer.
//
// Settings: BASE_URL, API_KEY.

import { createHash, randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createOrderWithDocuments, readDocument, readOrder, type OrderRequest } from './hey-api';
import { client } from './hey-api/client.gen';
import { zOrder, zOrderRequest } from './hey-api/zod.gen';

const order: OrderRequest = {
    signingContactsFormData: { orderContactEmail: 'escrow@title.example.com' },
    signingDetailsFormData: {
        fileNumber: `ZOD-${randomUUID()}`,
        signingDate: '2026-12-01',
        signingTimeType: 'at',
        specificTime: '14:30',
        timeZoneId: 'America/Chicago',
        propertyAddress: '123 Main St, Dallas, TX 75201',
        city: 'Dallas',
        state: 'TX',
        zipcode: '75201',
        signingType: 'Refinance',
        signerName: 'Zoë 張 👋',
        signerPhone: '+1 555 010 0199',
        signerEmail: 'jane.doe@example.com',
    },
    signingServiceId: 42,
    requestedBy: { userId: 1001 },
};

async function main() {
    client.setConfig({ baseUrl: process.env.BASE_URL, auth: process.env.API_KEY });
    zOrderRequest.parse(order);
    const invalid = structuredClone(order);
    invalid.signingDetailsFormData.signerName = 'Jane\u2028Doe';
    if (zOrderRequest.safeParse(invalid).success) throw new Error('a line separator is no name');

    const { signingContactsFormData, signingDetailsFormData, signingServiceId, requestedBy } = order;
    const created = await createOrderWithDocuments({
        body: {
            signingContactsFormData,
            signingDetailsFormData,
            signingServiceId,
            requestedBy,
            documents: ['deed-of-trust.pdf', 'signing-instructions.docx'].map(
                (name) => new File([readFileSync(`docs/examples/${name}`)], name),
            ),
        },
        headers: { 'Idempotency-Key': `"${randomUUID()}"` },
        throwOnError: true,
    });
    const path = { order_id: created.data.order_id };
    console.log('created', path.order_id, created.data.signing_date, created.data.documents_uploaded);

    const answer = await readOrder({ path, throwOnError: true });
    const read = zOrder.parse(answer.data);
    console.log('read', read.order_status, read.details.signingDetailsFormData.signerName);

    for (const { position, name, sha256 } of read.documents) {
        const download = await readDocument({
            path: { ...path, position },
            parseAs: 'blob',
            throwOnError: true,
        });
        const content = Buffer.from(await download.data.arrayBuffer());
        if (createHash('sha256').update(content).digest('hex') !== sha256) throw new Error(name);
        console.log('downloaded', name, content.length);
    }
}

main().catch((error) => {
    console.error(error);
    process.exitCode = 1;
});
