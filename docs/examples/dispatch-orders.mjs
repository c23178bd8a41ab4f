// The side of the signing service: finds its new orders, assigns a notary to each, and confirms it. Run
// it again and again: it goes on after the last order that it has seen.
//
// Needs create-orders.mjs beside it. Settings: BASE_URL, API_KEY (a key of the signing service),
// NOTARY_ID, STATE_DIR (folder of the position in the list).

import { existsSync } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";

import { OrderFailed, get, run, send } from "./create-orders.mjs";

const { NOTARY_ID = "7001", STATE_DIR = "." } = process.env;
const notary = Number(NOTARY_ID);

// Decides by the state of an order. Your product asks its notaries here.
function nextChange({ order_status, notary_id }) {
  if (order_status === "NEW") return { order_status: "ASSIGNED", notary_id: notary };
  if (order_status === "ASSIGNED" && notary_id === notary) return { order_status: "CONFIRMED" };
  return undefined;
}

async function dispatch(orderId) {
  const path = `/api/order/${orderId}`;
  for (;;) {
    const found = await get(path);
    const change = nextChange(JSON.parse(found.answer));
    if (!change) return;
    // Changes only the version that was read, so a repeat is safe, too.
    const headers = { "Content-Type": "application/json", "If-Match": found.headers.get("ETag") };
    try {
      await send("PATCH", path, 200, { headers, body: JSON.stringify(change) });
      console.log(change.order_status, orderId);
    } catch (error) {
      // Another dispatcher or the client was quicker: read the order again, and decide anew.
      if (!(error instanceof OrderFailed) || error.code !== "precondition_failed") throw error;
    }
  }
}

// Follows the list of orders from its stored position, which your product has in its database. Begins
// with the newest 100.
async function main() {
  const stored = join(STATE_DIR, "newest-order");
  for (;;) {
    const since = existsSync(stored) ? `&ending_before=${await readFile(stored, "utf8")}` : "";
    const { data: orders } = JSON.parse((await get(`/api/order?limit=100${since}`)).answer);
    if (orders.length === 0) return;
    for (const { order_id } of [...orders].reverse()) await dispatch(order_id);
    await writeFile(stored, String(orders[0].order_id));
  }
}

await run(main);
