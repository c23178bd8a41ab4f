// The side of the signing service after the appointment: returns the signed documents of an order, and sets
// its status to SIGNED. Run it as often as you like: the documents are stored once.
//
// Needs create-orders.mjs beside it. Settings: BASE_URL, API_KEY (a key of the signing service), ORDER_ID,
// SIGNED_DOCUMENT (a file; here the unsigned deed), STATE_DIR (folder of the idempotency keys).

import { readFile } from "node:fs/promises";
import { basename } from "node:path";
import { fileURLToPath } from "node:url";

import { OrderFailed, UPLOAD_TIMEOUT, idempotencyKey, run, send } from "./create-orders.mjs";

const DEED = fileURLToPath(new URL("deed-of-trust.pdf", import.meta.url));
const { ORDER_ID, SIGNED_DOCUMENT = DEED } = process.env;

async function returnSigned(orderId, document) {
  const name = basename(document);
  const form = new FormData();
  form.append("documents", new Blob([await readFile(document)]), name);
  const headers = { "Idempotency-Key": `"${await idempotencyKey(`${orderId}-${name}`)}"` };
  const request = { headers, body: form, timeout: UPLOAD_TIMEOUT };
  const { answer } = await send("POST", `/api/order/${orderId}/signed-documents`, 201, request);
  // The documents first: a signed order without them would be a question for the client.
  const body = JSON.stringify({ order_status: "SIGNED" });
  await send("PATCH", `/api/order/${orderId}`, 200, { headers: { "Content-Type": "application/json" }, body });
  return JSON.parse(answer).signed_documents_uploaded;
}

await run(async () => {
  if (!ORDER_ID) throw new OrderFailed("set ORDER_ID");
  console.log("returned", ORDER_ID, await returnSigned(ORDER_ID, SIGNED_DOCUMENT));
});
