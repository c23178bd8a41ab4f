// Keeps a copy of all orders that the key sees in the file mirror.json. Run it again and again, for example by
// a timer or when a webhook arrives: it goes on where it was. It misses no change, also if it is killed. If the
// service was restored from an older backup, it begins anew.
//
// Needs create-orders.mjs beside it. Settings: BASE_URL, API_KEY, STATE_DIR (folder of mirror.json). Node.js
// has a stable SQLite since version 24 only, so this mirror is one file that is replaced as a whole. Your
// product has a table for the orders, and one for the cursor.

import { existsSync } from "node:fs";
import { readFile, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";

import { OrderFailed, get, run } from "./create-orders.mjs";

const { STATE_DIR = "." } = process.env;
const stored = join(STATE_DIR, "mirror.json");

// Reads an order as it is now, which may be later than the change. Null if it is erased.
async function read(orderId) {
  try {
    return JSON.parse((await get(`/api/order/${orderId}`)).answer);
  } catch (error) {
    if (!(error instanceof OrderFailed) || error.code !== "erased") throw error;
    return null;
  }
}

// Stores the orders and the cursor in one step: after a crash, the next run asks for this page again.
async function commit(mirror) {
  await writeFile(`${stored}.new`, JSON.stringify(mirror));
  await rename(`${stored}.new`, stored);
}

// Applies the next page of changes. Returns whether there are more.
async function applyPage(mirror) {
  const query = new URLSearchParams({ limit: 100 });
  if (mirror.next_after) query.set("after", mirror.next_after);
  let page;
  try {
    page = JSON.parse((await get(`/api/order/changes?${query}`)).answer);
  } catch (error) {
    if (!(error instanceof OrderFailed) || !error.faults.includes("unknown_cursor")) throw error;
    Object.assign(mirror, { next_after: null, orders: {} });
    await commit(mirror);
    return true;
  }
  // An order that changed twice is read once.
  const changed = new Set(page.data.map(({ order_id }) => order_id));
  const gone = new Set(page.data.flatMap(({ kind, order_id }) => (kind === "erased" ? [order_id] : [])));
  const lines = [];
  for (const orderId of changed) {
    const order = gone.has(orderId) ? null : await read(orderId);
    if (order) mirror.orders[orderId] = order;
    else delete mirror.orders[orderId];
    lines.push(`${order?.order_status ?? "erased"} ${orderId}`);
  }
  mirror.next_after = page.next_after;
  await commit(mirror);
  for (const line of lines) console.log(line);
  return page.has_more;
}

await run(async () => {
  const mirror = existsSync(stored) ? JSON.parse(await readFile(stored, "utf8")) : { next_after: null, orders: {} };
  while (await applyPage(mirror));
});
