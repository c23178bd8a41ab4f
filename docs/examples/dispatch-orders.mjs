// The side of the signing service: finds its open orders, assigns a notary to each, and confirms it. Run
// it again and again: it looks at the orders that have changed since the last run.
//
// Needs create-orders.mjs beside it. Settings: BASE_URL, API_KEY (a key of the signing service),
// NOTARY_ID, STATE_DIR (folder of the time of the last run).

import { existsSync } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

import { OrderFailed, get, run, send } from "./create-orders.mjs";

const { NOTARY_ID = "7001", STATE_DIR = "." } = process.env;
const notary = Number(NOTARY_ID);
const ATTEMPTS = 3;
// More milliseconds than the clock of this machine may differ from the clock of the service. Orders of this
// time are read twice, which does no harm: what is to do depends on their state.
const OVERLAP = 5 * 60_000;

// Decides by the state of an order. Your product asks its notaries here.
function nextChange({ order_status, notary_id }) {
  if (order_status === "NEW") return { order_status: "ASSIGNED", notary_id: notary };
  if (order_status === "ASSIGNED" && notary_id === notary) return { order_status: "CONFIRMED" };
  return undefined;
}

async function dispatch(orderId) {
  const path = `/api/order/${orderId}`;
  for (let lost = 0; ; ) {
    const found = await get(path);
    const change = nextChange(JSON.parse(found.answer));
    if (!change) return;
    // Changes only the version that was read, so a repeat is safe, too.
    const headers = { "Content-Type": "application/json", "If-Match": found.headers.get("ETag") };
    try {
      await send("PATCH", path, 200, { headers, body: JSON.stringify(change) });
      console.log(change.order_status, orderId);
    } catch (error) {
      if (!(error instanceof OrderFailed) || error.code !== "precondition_failed") throw error;
      if (++lost === ATTEMPTS) {
        const why = "another program keeps changing it, or a proxy changes ETag or If-Match";
        throw new OrderFailed(`gave up on order ${orderId} after ${ATTEMPTS} answers 412: ${why}`, error.code);
      }
      // Another dispatcher or the client was quicker: read the order again, and decide anew. The pause
      // keeps two dispatchers from meeting again.
      await sleep(500 + Math.random() * 500);
    }
  }
}

// Reads all pages of the open orders that were created or changed since a time, the newest first.
async function changed(since) {
  const query = new URLSearchParams({ limit: 100, order_status: "NEW,ASSIGNED" });
  if (since) query.set("updated_after", since);
  const orders = [];
  for (;;) {
    const { data, has_more } = JSON.parse((await get(`/api/order?${query}`)).answer);
    orders.push(...data);
    if (!has_more) return orders;
    query.set("starting_after", orders.at(-1).order_id);
  }
}

// Looks at all open orders in the first run. Your product has the time in its database.
async function main() {
  const stored = join(STATE_DIR, "polled-at");
  // Before the first page is read: an order that changes meanwhile is found in the next run.
  const began = new Date(Date.now() - OVERLAP).toISOString();
  const since = existsSync(stored) ? await readFile(stored, "utf8") : undefined;
  for (const order of (await changed(since)).reverse()) {
    if (nextChange(order)) await dispatch(order.order_id);
  }
  await writeFile(stored, began);
}

await run(main);
