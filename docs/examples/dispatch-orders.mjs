// The side of the signing service: finds its new orders, assigns a notary to each, and confirms it. Run
// it again and again: it goes on after the last order that it has seen.
//
// Needs create-orders.mjs beside it. Settings: BASE_URL, API_KEY (a key of the signing service),
// NOTARY_ID, STATE_DIR (folder of the position in the list).

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

const list = async (cursor) => JSON.parse((await get(`/api/order?limit=100${cursor}`)).answer);

// Pages to the end of the list, which begins with the newest order.
async function oldest() {
  for (let before = ""; ; ) {
    const { data, has_more } = await list(before);
    const orderId = data.at(-1)?.order_id;
    if (!has_more) return orderId;
    before = `&starting_after=${orderId}`;
  }
}

// Follows the list of orders from its stored position, which your product has in its database. Begins
// with the oldest order.
async function main() {
  const stored = join(STATE_DIR, "newest-order");
  if (!existsSync(stored)) {
    const first = await oldest();
    if (first === undefined) return;
    await dispatch(first);
    await writeFile(stored, String(first));
  }
  for (;;) {
    const { data: orders } = await list(`&ending_before=${await readFile(stored, "utf8")}`);
    if (orders.length === 0) return;
    for (const order of [...orders].reverse()) {
      if (nextChange(order)) await dispatch(order.order_id);
    }
    await writeFile(stored, String(orders[0].order_id));
  }
}

await run(main);
