// The side of the client after a change: looks its order up by the file number, sends all of it again with
// another date, and explains the change in a note. Run it as often as you like: the order and the note are
// the same afterwards.
//
// Needs create-orders.mjs beside it. Settings: BASE_URL, API_KEY, FILE_NUMBER (of the order), SIGNING_DATE
// (YYYY-MM-DD), STATE_DIR (folder of the idempotency keys).

import { OrderFailed, get, idempotencyKey, order, run, send } from "./create-orders.mjs";

const { FILE_NUMBER = "REFI-2026-100-1", SIGNING_DATE = "2026-12-02" } = process.env;
const JSON_BODY = { "Content-Type": "application/json" };

async function change(fileNumber, signingDate) {
  const query = new URLSearchParams({ limit: 1, file_number: fileNumber });
  const [found] = JSON.parse((await get(`/api/order?${query}`)).answer).data;
  if (!found) throw new OrderFailed(`no order has the file number ${fileNumber}: create it`);
  const path = `/api/order/${found.order_id}`;
  const changed = order(fileNumber);
  changed.signingDetailsFormData.signingDate = signingDate;
  // A repeat changes nothing, so it needs no key. What is left out is removed: send the whole order.
  await send("PUT", path, 200, { headers: JSON_BODY, body: JSON.stringify(changed) });
  const key = await idempotencyKey(`${fileNumber}-${signingDate}`);
  const headers = { ...JSON_BODY, "Idempotency-Key": `"${key}"` };
  const body = JSON.stringify({ text: `The borrower asked for ${signingDate}.` });
  await send("POST", `${path}/notes`, 201, { headers, body });
  return found.order_id;
}

await run(async () => console.log("changed", await change(FILE_NUMBER, SIGNING_DATE), SIGNING_DATE));
