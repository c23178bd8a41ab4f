// Receives webhooks: verifies each one, and handles each event once.
//
// Needs Node.js 18 or newer and no package. Settings: WEBHOOK_SECRET (whsec_...), PORT, STATE_DIR
// (folder of the identifiers of handled events). It listens on this machine; a proxy in front of it
// serves HTTPS.

import { createHash, createHmac, timingSafeEqual } from "node:crypto";
import { existsSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { join } from "node:path";

const { WEBHOOK_SECRET, PORT = "9000", STATE_DIR = "." } = process.env;
const TOLERANCE = 300; // seconds between the clocks of both sides, and for the way
const LONGEST_BODY = 64 * 1024;

// Checks the signature over the bytes of the body as they came, before anything reads them.
function isGenuine(secret, headers, body) {
  const id = headers["webhook-id"] ?? "", timestamp = headers["webhook-timestamp"] ?? "";
  // An old webhook may be one that was overheard and is sent again.
  const age = Date.now() / 1000 - Number(timestamp);
  if (!/^\d+$/.test(timestamp) || Math.abs(age) > TOLERANCE) return false;
  const hmac = createHmac("sha256", secret).update(`${id}.${timestamp}.`).update(body);
  const expected = Buffer.from(`v1,${hmac.digest("base64")}`);
  // There are two while the secret is being rotated.
  return (headers["webhook-signature"] ?? "").split(" ").some((one) => {
    const signature = Buffer.from(one);
    return signature.length === expected.length && timingSafeEqual(signature, expected);
  });
}

// An event may arrive again, and events may arrive in any order. Your product stores the identifier
// in the transaction that does the work, in a unique column.
async function handleOnce(id, body) {
  const handled = join(STATE_DIR, createHash("sha256").update(id).digest("hex"));
  if (existsSync(handled)) return;
  handle(JSON.parse(body));
  await writeFile(handled, "");
}

// Takes little time: the service waits 15 seconds. Queue what takes longer. Ignore types that you
// do not know: there may be more of them one day.
function handle(event) {
  const { order_id, order_status } = event.data;
  // An erased order has no status, and a test has no order.
  console.log([event.type, order_id, order_status].filter((part) => part !== undefined).join(" "));
}

// Returns the body, or nothing if it is too long.
async function read(request) {
  const blocks = [];
  let length = 0;
  for await (const block of request) {
    length += block.length;
    if (length > LONGEST_BODY) return undefined;
    blocks.push(block);
  }
  return Buffer.concat(blocks);
}

async function receive(secret, request) {
  if (Number(request.headers["content-length"]) > LONGEST_BODY) return 413;
  const body = await read(request);
  if (!body) return 413;
  if (!isGenuine(secret, request.headers, body)) return 401;
  await handleOnce(request.headers["webhook-id"], body);
  return 204; // only now: the service repeats a webhook that gets no 2xx
}

if (!WEBHOOK_SECRET) {
  console.error("set WEBHOOK_SECRET");
  process.exit(1);
}
const secret = Buffer.from(WEBHOOK_SECRET.replace(/^whsec_/, ""), "base64");
const server = createServer(async (request, response) => {
  let status = 500;
  try {
    status = await receive(secret, request);
  } catch (error) {
    console.error("a webhook was not handled:", error.message);
  }
  if (status === 413) response.setHeader("Connection", "close"); // the body stays unread
  response.writeHead(status).end();
});
server.requestTimeout = 15_000; // milliseconds
server.listen(Number(PORT), "127.0.0.1");
