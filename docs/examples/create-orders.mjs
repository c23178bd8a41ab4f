// Creates an order without documents and an order with documents, each exactly once. Then reads the
// second one back and downloads its documents.
//
// Needs Node.js 18 or newer and no package. Settings: BASE_URL, API_KEY, FILE_NUMBER (prefix of the
// file numbers), STATE_DIR (folder of the idempotency keys).

import { createHash, randomUUID } from "node:crypto";
import { existsSync, realpathSync } from "node:fs";
import { readFile, rename, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";

const { BASE_URL, API_KEY, FILE_NUMBER = "REFI-2026-100", STATE_DIR = "." } = process.env;
const ATTEMPTS = 5;
const [FIRST_BACKOFF, LONGEST_BACKOFF, TIMEOUT] = [500, 30_000, 60_000]; // milliseconds
export const UPLOAD_TIMEOUT = 600_000; // milliseconds

const ADVICE = {
  unauthorized: "check API_KEY, or ask the operator for a new key",
  forbidden: "the key lacks a scope or is limited to another signing service: ask the operator",
  not_found: "check BASE_URL",
  method_not_allowed: "check BASE_URL",
  duplicate_order: "another order has just used this file number: find it before you send this one",
  idempotency_key_reused: "the stored key was used for another payload: send that payload, or use a new key",
};

export class OrderFailed extends Error {
  constructor(message, code, faults = []) {
    super(message);
    this.code = code;
    this.faults = faults;
  }
}

export const order = (fileNumber) => ({
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
export async function idempotencyKey(fileNumber) {
  const path = join(STATE_DIR, `${fileNumber}.idempotency-key`);
  if (!existsSync(path)) {
    // A crash must not leave half a key.
    await writeFile(`${path}.new`, randomUUID());
    await rename(`${path}.new`, path);
  }
  return readFile(path, "utf8");
}

// Sends until there is a final answer, and returns it if its status is an expected one. A repeat must be
// safe.
export async function send(method, path, expected, { headers = {}, body, timeout = TIMEOUT } = {}) {
  const request = { method, headers: { Authorization: `Bearer ${API_KEY}`, ...headers }, body };
  let failure;
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    let retryAfter = 0;
    const { response, answer, error } = await attemptOnce(path, timeout, request);
    if (error) {
      // The service may have done it or not.
      failure = `no answer: ${error.cause?.message ?? error.message}`;
    } else {
      if ([expected].flat().includes(response.status)) return { headers: response.headers, answer };
      const problem = problemOf(response, answer);
      failure = described(response.status, problem);
      const faults = (problem.errors ?? []).map((error) => error.code);
      if (!worthRepeating(response.status, problem.code)) throw new OrderFailed(failure, problem.code, faults);
      const seconds = response.headers.get("Retry-After") ?? "";
      retryAfter = /^\d+$/.test(seconds) ? seconds * 1000 : 0;
    }
    // Never earlier than Retry-After. The jitter spreads clients that got the same Retry-After.
    if (attempt + 1 < ATTEMPTS) {
      const backoff = Math.min(LONGEST_BACKOFF, FIRST_BACKOFF * 2 ** attempt);
      await sleep(retryAfter + Math.random() * backoff);
    }
  }
  throw new OrderFailed(`gave up after ${ATTEMPTS} attempts, try later again: ${failure}`);
}

// Makes one attempt: returns a complete answer, or the error.
async function attemptOnce(path, timeout, request) {
  try {
    const signal = AbortSignal.timeout(timeout);
    const url = BASE_URL.replace(/\/+$/, "") + path;
    const response = await fetch(url, { redirect: "manual", signal, ...request });
    return { response, answer: Buffer.from(await response.arrayBuffer()) };
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
  const lines = errors.map((error) => `  ${error.pointer ?? error.parameter} ${error.code}: ${error.detail}`);
  return [`${status} ${code}: ${detail} (${advice}; request ${request_id})`, ...lines].join("\n");
}

// Creates an order, and returns its id. The key makes repeats safe.
async function post(path, fileNumber, { headers = {}, ...request }) {
  const key = { "Idempotency-Key": `"${await idempotencyKey(fileNumber)}"` };
  const { answer } = await send("POST", path, 201, { ...request, headers: { ...key, ...headers } });
  return JSON.parse(answer).order_id;
}

async function create(fileNumber) {
  const headers = { "Content-Type": "application/json" };
  return post("/api/order/create", fileNumber, { headers, body: JSON.stringify(order(fileNumber)) });
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
  return post("/api/order/create-with-documents", fileNumber, { body: form, timeout: UPLOAD_TIMEOUT });
}

// Reads a path. A read changes nothing, so it can be repeated without a key.
export const get = (path) => send("GET", path, 200);

// Reads an order back, and downloads its documents.
async function readBack(orderId) {
  const { documents } = JSON.parse((await get(`/api/order/${orderId}`)).answer);
  for (const { position, name, sha256 } of documents) {
    const { answer: content } = await get(`/api/order/${orderId}/documents/${position}`);
    if (createHash("sha256").update(content).digest("hex") !== sha256) throw new OrderFailed(`${name} is damaged`);
    console.log("document", name);
  }
}

async function main() {
  console.log("order_id", await create(`${FILE_NUMBER}-1`));
  const documents = ["deed-of-trust.pdf", "signing-instructions.docx"].map((name) => new URL(name, import.meta.url));
  const orderId = await createWithDocuments(`${FILE_NUMBER}-2`, documents);
  console.log("order_id", orderId);
  await readBack(orderId);
}

export async function run(program) {
  const missing = Object.entries({ BASE_URL, API_KEY }).flatMap(([name, value]) => (value ? [] : [name]));
  try {
    if (missing.length > 0) throw new OrderFailed(`set ${missing.join(" and ")}`);
    await program();
  } catch (error) {
    if (!(error instanceof OrderFailed)) throw error;
    console.error(error.message);
    process.exitCode = 1;
  }
}

// Not when another program imports this one.
if (realpathSync(process.argv[1]) === fileURLToPath(import.meta.url)) await run(main);
