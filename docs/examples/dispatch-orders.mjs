// The side of the signing service: finds its open orders, assigns a notary to each, and confirms it. Run
// it again and again: it looks at the orders that have changed since the last run, and misses none.
//
// Needs create-orders.mjs beside it. Settings: BASE_URL, API_KEY (a key of the signing service),
// NOTARY_ID, STATE_DIR (folder of the cursor of the last run).

import { existsSync } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

import { OrderFailed, get, run, send } from "./create-orders.mjs";

const { NOTARY_ID = "7001", STATE_DIR = "." } = process.env;
const notary = Number(NOTARY_ID);
const ATTEMPTS = 3;

// Decides by the state of an order. Your product asks its notaries here.
function nextChange({ order_status, notary_id }) {
  if (order_status === "NEW") return { order_status: "ASSIGNED", notary_id: notary };
  if (order_status === "ASSIGNED" && notary_id === notary) return { order_status: "CONFIRMED" };
  return undefined;
}

// Reads an order. Nothing if it is erased.
async function read(path) {
  try {
    return await get(path);
  } catch (error) {
    if (!(error instanceof OrderFailed) || error.code !== "erased") throw error;
    return undefined;
  }
}

async function dispatch(orderId) {
  const path = `/api/order/${orderId}`;
  for (let lost = 0; ; ) {
    const found = await read(path);
    if (!found) return;
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

// Reads all pages of the open orders, and returns the oldest first.
async function openOrders() {
  const query = new URLSearchParams({ limit: 100, order_status: "NEW,ASSIGNED" });
  const orders = [];
  for (;;) {
    const { data, has_more } = JSON.parse((await get(`/api/order?${query}`)).answer);
    orders.push(...data);
    if (!has_more) return orders.filter(nextChange).map(({ order_id }) => order_id).reverse();
    query.set("starting_after", orders.at(-1).order_id);
  }
}

async function changes(query) {
  return JSON.parse((await get(`/api/order/changes?${new URLSearchParams(query)}`)).answer);
}

// Looks at all open orders in the first run, and follows the changes after that.
async function main() {
  const stored = join(STATE_DIR, "dispatched-to");
  if (!existsSync(stored)) {
    // Before the first page is read: an order that changes meanwhile is found in the next run.
    const { next_after } = await changes({ after: "now" });
    for (const orderId of await openOrders()) await dispatch(orderId);
    await writeFile(stored, next_after);
    return;
  }
  for (;;) {
    const page = await changes({ limit: 100, after: await readFile(stored, "utf8") });
    for (const orderId of new Set(page.data.map(({ order_id }) => order_id))) await dispatch(orderId);
    // Only now: after a crash, the next run looks at these orders again. Your product has the cursor in its
    // database.
    await writeFile(stored, page.next_after);
    if (!page.has_more) return;
  }
}

await run(main);
