// The service of `bench peers` in a mainstream stack. It creates orders as the service does, but
// checks neither the API key nor the order, sends no mails and does not wait for the disk to keep
// a document. DATABASE_URL and DOCUMENTS name the database and the folder of the documents.

import cluster from "node:cluster";
import { createWriteStream, readFileSync } from "node:fs";
import { pipeline } from "node:stream/promises";

import multipart from "@fastify/multipart";
import fastify from "fastify";
import pg from "pg";

const PROCESSES = 2;

if (cluster.isPrimary) {
  let listening = 0;
  cluster.on("listening", (_, { address, port }) => {
    listening += 1;
    if (listening === PROCESSES) console.log(`${address}:${port}`);
  });
  cluster.on("exit", () => process.exit(1));
  // The measurement ended.
  process.stdin.resume().on("end", () => process.exit(0));
  for (let count = 0; count < PROCESSES; count += 1) cluster.fork();
} else {
  await serve();
}

async function serve() {
  const { DATABASE_URL, DOCUMENTS } = process.env;
  const pool = new pg.Pool({ connectionString: DATABASE_URL, max: 16 });
  const create = readFileSync(new URL("order.sql", import.meta.url), "utf8");

  async function createOrder({ fileNumber, signerName, propertyAddress }) {
    const values = [fileNumber, signerName, propertyAddress];
    const { rows } = await pool.query({ name: "create", text: create, values });
    return { order_id: rows[0].order_id };
  }

  const app = fastify();
  // All limits are far above what the measurement sends.
  app.register(multipart, { limits: { fileSize: 1e9, files: 100, parts: 1000 } });

  app.post("/api/order/create", async (request, reply) => {
    const order = await createOrder(request.body.signingDetailsFormData);
    return reply.code(201).send(order);
  });

  app.post("/api/order/create-with-documents", async (request, reply) => {
    let details;
    let documents = 0;
    for await (const part of request.parts()) {
      if (part.type === "file") {
        const path = `${DOCUMENTS}/${details.fileNumber}-${documents}`;
        await pipeline(part.file, createWriteStream(path));
        documents += 1;
      } else if (part.fieldname === "signingDetailsFormData") {
        details = JSON.parse(part.value);
      }
    }
    return reply.code(201).send(await createOrder(details));
  });

  await app.listen({ host: "127.0.0.1", port: 0 });
}
