// Unpacks the archive of the standard input into a folder.
import { createWriteStream, mkdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { pipeline } from "node:stream/promises";
import unzipper from "unzipper";

for await (const entry of process.stdin.pipe(unzipper.Parse({ forceStream: true }))) {
  const path = join(process.argv[2], entry.path);
  mkdirSync(dirname(path), { recursive: true });
  await pipeline(entry, createWriteStream(path));
}
