// The side of the client at each change: sends the whole order again under its file number, and then the
// documents that the order has never had. The service creates the order or amends it. Run it as often as you
// like, and several at once: there is one order, with each document once.
//
// Needs create-orders.mjs beside it. Settings: BASE_URL, API_KEY, FILE_NUMBER, SIGNING_DATE (YYYY-MM-DD),
// DOCUMENTS (paths, separated as in PATH; here those of this folder).

import { createHash, randomUUID } from "node:crypto";
import { readFile } from "node:fs/promises";
import { basename, delimiter } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";

import { OrderFailed, UPLOAD_TIMEOUT, get, order, run, send } from "./create-orders.mjs";

const here = (name) => fileURLToPath(new URL(name, import.meta.url));
const ours = [here("deed-of-trust.pdf"), here("signing-instructions.docx")].join(delimiter);
const { FILE_NUMBER = "REFI-2026-100-1", SIGNING_DATE = "2026-12-02", DOCUMENTS = ours } = process.env;
const ATTEMPTS = 3;

// Makes a key for one request and its repeats. The next run makes another one: it may send other data.
const freshKey = () => ({ "Idempotency-Key": `"${randomUUID()}"` });

// Creates the order, or amends it. What is left out is removed: send the whole order.
async function resend(fileNumber, signingDate) {
  const changed = order(fileNumber);
  changed.signingDetailsFormData.signingDate = signingDate;
  const headers = { "Content-Type": "application/json", ...freshKey() };
  const path = `/api/order?${new URLSearchParams({ file_number: fileNumber })}`;
  const { answer } = await send("PUT", path, [200, 201], { headers, body: JSON.stringify(changed) });
  return JSON.parse(answer).order_id;
}

async function withHash(path) {
  const content = await readFile(path);
  return { name: basename(path), content, sha256: createHash("sha256").update(content).digest("hex") };
}

async function sendMissing(orderId, documents) {
  const path = `/api/order/${orderId}`;
  for (let lost = 0; ; ) {
    const found = await get(path);
    const uploaded = JSON.parse(found.answer).documents;
    // Also replaced and withdrawn ones: a document that a user has withdrawn must not come back.
    const known = new Set(uploaded.map(({ sha256 }) => sha256));
    const missing = documents.find(({ sha256 }) => !known.has(sha256));
    if (!missing) return;
    // A current document of the same name is an older version of this one.
    const isCurrent = (it) => it.replaced_by === null && it.withdrawn_at === null;
    const older = uploaded.find((it) => it.name_as_sent === missing.name && isCurrent(it));
    const form = new FormData();
    if (older) form.append("replaces", String(older.position));
    form.append("documents", new Blob([missing.content]), missing.name);
    // Adds to the version that was read: another run may send the same document.
    const headers = { "If-Match": found.headers.get("ETag"), ...freshKey() };
    try {
      await send("POST", `${path}/documents`, 201, { headers, body: form, timeout: UPLOAD_TIMEOUT });
      console.log(older ? "replaced" : "added", missing.name);
    } catch (error) {
      if (!(error instanceof OrderFailed) || error.code !== "precondition_failed") throw error;
      if (++lost === ATTEMPTS) {
        const why = "another program keeps changing it, or a proxy changes ETag or If-Match";
        throw new OrderFailed(`gave up on order ${orderId} after ${ATTEMPTS} answers 412: ${why}`, error.code);
      }
      await sleep(500 + Math.random() * 500);
    }
  }
}

await run(async () => {
  const orderId = await resend(FILE_NUMBER, SIGNING_DATE);
  console.log("sent", orderId, SIGNING_DATE);
  await sendMissing(orderId, await Promise.all(DOCUMENTS.split(delimiter).map(withHash)));
});
