// The service in a mainstream stack. It keeps the promises that cost time: it checks the key and
// the order, and answers when the order is committed, each document is hashed and synced, and the
// folder has its name. It sends no mails.
// PORT, KEY, DATABASE_URL and DOCUMENTS (a folder) come from the environment.

import cluster from "node:cluster";
import { createHash, randomUUID, timingSafeEqual } from "node:crypto";
import { createWriteStream } from "node:fs";
import { open } from "node:fs/promises";
import { pipeline } from "node:stream/promises";

import multipart from "@fastify/multipart";
import fastify from "fastify";
import pg from "pg";

const PROCESSES = 2;
const text = { type: "string", minLength: 1, maxLength: 200 };
const details = {
  type: "object",
  required: ["fileNumber", "signingDate", "signingTimeType", "timeZoneId", "propertyAddress",
    "signingType", "signerName", "signerPhone", "signerEmail", "city", "state", "zipcode"],
  properties: {
    fileNumber: text, signingType: text, signerName: text, city: text, timeZoneId: text,
    propertyAddress: { ...text, maxLength: 500 },
    signingDate: { type: "string", pattern: "^\\d{4}-\\d{2}-\\d{2}$" },
    signingTimeType: { enum: ["at", "between", "anytime"] },
    signerPhone: { type: "string", pattern: "^\\+?[0-9 .()-]{7,20}$" },
    signerEmail: { type: "string", pattern: "^[^@\\s]+@[^@\\s]+$" },
    state: { type: "string", pattern: "^[A-Za-z]{2}$" },
    zipcode: { type: "string", pattern: "^\\d{5}$" },
  },
};
const order = {
  type: "object",
  required: ["signingContactsFormData", "signingDetailsFormData", "signingServiceId",
    "requestedBy"],
  properties: {
    signingContactsFormData: { type: "object" },
    signingDetailsFormData: details,
    signingServiceId: { type: "integer", minimum: 1 },
    requestedBy: { type: "object", required: ["userId"] },
  },
};

// The sizes and hashes of the documents are arrays, so one statement creates the whole order.
const CREATE = `
  WITH created AS (
    INSERT INTO orders (client_id, file_number, signer, address, details)
    VALUES (1, $1, $2, $3, $4) RETURNING id, file_number
  ), claimed AS (
    INSERT INTO claims (file_number) SELECT file_number FROM created
  ), stored AS (
    INSERT INTO documents (order_id, name, size, sha256, key)
    SELECT created.id, d.name, d.size, d.sha256, d.key FROM created,
      unnest($5::text[], $6::bigint[], $7::bytea[], $8::text[]) AS d (name, size, sha256, key)
  )
  INSERT INTO outbox (order_id, kind) SELECT id, 'order.created' FROM created
  RETURNING order_id`;

if (cluster.isPrimary) {
  let listening = 0;
  cluster.on("listening", () => {
    listening += 1;
    if (listening === PROCESSES) console.log("listening");
  });
  cluster.on("exit", () => process.exit(1));
  for (let count = 0; count < PROCESSES; count += 1) cluster.fork();
} else {
  await serve(process.env);
}

async function serve({ PORT, KEY, DATABASE_URL, DOCUMENTS }) {
  const pool = new pg.Pool({ connectionString: DATABASE_URL, max: 16 });
  const hashed = (value) => createHash("sha256").update(value).digest();
  const authorization = hashed(`Bearer ${KEY}`);

  async function createOrder(request, documents) {
    const { fileNumber, signerName, propertyAddress } = request.signingDetailsFormData;
    const values = [fileNumber, signerName, propertyAddress, JSON.stringify(request),
      ...["name", "size", "sha256", "key"].map((field) => documents.map((one) => one[field]))];
    const { rows } = await pool.query({ name: "create", text: CREATE, values });
    return { order_id: rows[0].order_id, documents_uploaded: documents.length };
  }

  async function store(part) {
    const [key, hash] = [randomUUID(), createHash("sha256")];
    let [size, start] = [0, null];
    await pipeline(
      part.file,
      async function* (chunks) {
        for await (const chunk of chunks) {
          start ??= chunk.subarray(0, 5).toString("latin1");
          size += chunk.length;
          hash.update(chunk);
          yield chunk;
        }
      },
      // `flush` syncs the file before it is closed.
      createWriteStream(`${DOCUMENTS}/${key}`, { flags: "wx", flush: true }),
    );
    if (start !== "%PDF-") throw Object.assign(new Error("not a PDF"), { statusCode: 400 });
    return { name: part.filename, size, sha256: hash.digest(), key };
  }

  const app = fastify();
  // The files are as large as the service permits.
  app.register(multipart, { limits: { fileSize: 10 * 1024 * 1024, files: 20 } });
  app.addHook("onRequest", async (request, reply) => {
    const sent = hashed(request.headers.authorization ?? "");
    if (!timingSafeEqual(sent, authorization)) return reply.code(401).send();
  });

  app.post("/api/order/create", { schema: { body: order } }, async (request, reply) =>
    reply.code(201).send(await createOrder(request.body, [])));

  app.post("/api/order/create-with-documents", async (request, reply) => {
    const [form, documents] = [{}, []];
    for await (const part of request.parts()) {
      if (part.type === "file") documents.push(await store(part));
      else form[part.fieldname] = JSON.parse(part.value);
    }
    if (documents.length === 0 || !request.validateInput(form, order)) {
      return reply.code(400).send();
    }
    const folder = await open(DOCUMENTS);
    await folder.sync();
    await folder.close();
    return reply.code(201).send(await createOrder(form, documents));
  });

  await app.listen({ host: "127.0.0.1", port: Number(PORT) });
}
