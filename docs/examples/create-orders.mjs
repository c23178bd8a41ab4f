// Creates an order without documents and an order with documents, each exactly once. Then reads the
// second one back and downloads its documents.
//
// Needs Node.js 18 or newer and no package. Settings: BASE_URL, API_KEY, FILE_NUMBER (prefix of the
// file numbers), STATE_DIR (folder of the idempotency keys).

import { createHash, randomUUID } from "node:crypto";
import { existsSync } from "node:fs";
import { readFile, rename, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

const { BASE_URL, API_KEY, FILE_NUMBER = "REFI-2026-100", STATE_DIR = "." } = process.env;
const ATTEMPTS = 5;
const [FIRST_BACKOFF, LONGEST_BACKOFF, TIMEOUT, UPLOAD_TIMEOUT] = [500, 30_000, 60_000, 600_000]; // milliseconds

const ADVICE = {
  unauthorized: "check API_KEY, or ask the operator for a new key",
  forbidden: "the key is limited to another signing service: ask the operator",
  not_found: "check BASE_URL",
  method_not_allowed: "check BASE_URL",
  duplicate_order: "another order has just used this file number: find it before you send this one",
  idempotency_key_reused: "the stored key was used for another payload: send that payload, or use a new key",
};

class OrderFailed extends Error {}

const order = (fileNumber) => ({
  signingContactsFormData: { orderContactEmail: "escrow@title.example.com" },
  signingDetailsFormData: {
    fileNumber, signingType: "Refinance",
    signingDate: "2026-12-01", signingTimeType: "at", specificTime: "14:30",
    timeZoneId: "America/Chicago",
    propertyAddress: "123 Main St, Dallas, TX 75201", city: "Dallas", state: "TX", zipcode: "75201",
    signerName: "Jane Doe", signerPhone: "+1 555 010 0199", signerEmail: "jane.doe@example.com",
  },
  signingServiceId: 42,
  requestedBy: { userId: 1001 },
});

// Makes one key for each order and stores it before the first attempt, so that a restarted program
// repeats with the same key. Stores it in a file; your product stores it in a column of the order.
async function idempotencyKey(fileNumber) {
  const path = join(STATE_DIR, `${fileNumber}.idempotency-key`);
  if (!existsSync(path)) {
    // A crash must not leave half a key.
    await writeFile(`${path}.new`, randomUUID());
    await rename(`${path}.new`, path);
  }
  return readFile(path, "utf8");
}

// Sends until there is a final answer, and returns the order's id.
async function send(path, key, body, timeout, contentType = {}) {
  const headers = { Authorization: `Bearer ${API_KEY}`, "Idempotency-Key": `"${key}"`, ...contentType };
  let failure;
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    let retryAfter = 0;
    const { response, answer, error } = await post(path, timeout, { headers, body });
    if (error) {
      // The order may have been created or not. The key makes the repeat safe.
      failure = `no answer: ${error.cause?.message ?? error.message}`;
    } else {
      if (response.status === 201) return JSON.parse(answer).order_id;
      const problem = problemOf(response, answer);
      failure = described(response.status, problem);
      if (!worthRepeating(response.status, problem.code)) throw new OrderFailed(failure);
      const seconds = response.headers.get("Retry-After") ?? "";
      retryAfter = /^\d+$/.test(seconds) ? seconds * 1000 : 0;
    }
    // Never earlier than Retry-After. The jitter spreads clients that got the same Retry-After.
    if (attempt + 1 < ATTEMPTS) {
      const backoff = Math.min(LONGEST_BACKOFF, FIRST_BACKOFF * 2 ** attempt);
      await sleep(retryAfter + Math.random() * backoff);
    }
  }
  throw new OrderFailed(`gave up after ${ATTEMPTS} attempts, try later with the same key: ${failure}`);
}

// Makes one attempt: returns a complete answer, or the error.
async function post(path, timeout, request) {
  try {
    const signal = AbortSignal.timeout(timeout);
    const url = BASE_URL.replace(/\/+$/, "") + path;
    const response = await fetch(url, { method: "POST", redirect: "manual", signal, ...request });
    return { response, answer: await response.text() };
  } catch (error) {
    return { error };
  }
}

const worthRepeating = (status, code) => status === 429 || (status >= 500 && status !== 501) || code === "idempotency_in_flight";

// Returns the problem; an empty one if a proxy answered instead of the service.
function problemOf(response, answer) {
  if (!response.headers.get("Content-Type")?.startsWith("application/problem+json")) return {};
  try {
    return JSON.parse(answer);
  } catch {
    return {};
  }
}

function described(status, { code = "no code", detail = "no detail", request_id = "unknown", errors = [] }) {
  const byClass = { 4: "correct the request", 5: "the service failed, not the request" };
  const advice = ADVICE[code] ?? byClass[Math.floor(status / 100)] ?? "check BASE_URL";
  const lines = errors.map((error) => `  ${error.pointer} ${error.code}: ${error.detail}`);
  return [`${status} ${code}: ${detail} (${advice}; request ${request_id})`, ...lines].join("\n");
}

async function create(fileNumber) {
  const json = { "Content-Type": "application/json" };
  return send("/api/order/create", await idempotencyKey(fileNumber), JSON.stringify(order(fileNumber)), TIMEOUT, json);
}

async function createWithDocuments(fileNumber, documents) {
  const form = new FormData();
  // In the form, every part but the files is a text: objects as JSON, the id in decimal digits.
  for (const [name, value] of Object.entries(order(fileNumber))) {
    form.append(name, JSON.stringify(value));
  }
  for (const document of documents) {
    form.append("documents", new Blob([await readFile(document)]), basename(document.pathname));
  }
  return send("/api/order/create-with-documents", await idempotencyKey(fileNumber), form, UPLOAD_TIMEOUT);
}

// Reads a path. A read changes nothing, so it can be repeated without a key.
async function get(path) {
  const headers = { Authorization: `Bearer ${API_KEY}` };
  try {
    const signal = AbortSignal.timeout(TIMEOUT);
    const response = await fetch(BASE_URL.replace(/\/+$/, "") + path, { headers, redirect: "manual", signal });
    const answer = Buffer.from(await response.arrayBuffer());
    if (response.status === 200) return answer;
    throw new OrderFailed(described(response.status, problemOf(response, answer)));
  } catch (error) {
    if (error instanceof OrderFailed) throw error;
    throw new OrderFailed(`no answer: ${error.cause?.message ?? error.message}`);
  }
}

// Reads an order back, and downloads its documents.
async function readBack(orderId) {
  const { documents } = JSON.parse(await get(`/api/order/${orderId}`));
  for (const { position, name, sha256 } of documents) {
    const content = await get(`/api/order/${orderId}/documents/${position}`);
    if (createHash("sha256").update(content).digest("hex") !== sha256) throw new OrderFailed(`${name} is damaged`);
    console.log("document", name);
  }
}

const missing = Object.entries({ BASE_URL, API_KEY }).flatMap(([name, value]) => (value ? [] : [name]));
try {
  if (missing.length > 0) throw new OrderFailed(`set ${missing.join(" and ")}`);
  console.log("order_id", await create(`${FILE_NUMBER}-1`));
  const documents = ["deed-of-trust.pdf", "signing-instructions.docx"].map((name) => new URL(name, import.meta.url));
  const orderId = await createWithDocuments(`${FILE_NUMBER}-2`, documents);
  console.log("order_id", orderId);
  await readBack(orderId);
} catch (error) {
  if (!(error instanceof OrderFailed)) throw error;
  console.error(error.message);
  process.exitCode = 1;
}
