// Unpacks the archive of the standard input into a folder.
import { appendFileSync, mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { Unzip, UnzipInflate } from "fflate";

const unzip = new Unzip((file) => {
  const path = join(process.argv[2], file.name);
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, "");
  file.ondata = (error, bytes) => {
    if (error) throw error;
    appendFileSync(path, bytes);
  };
  file.start();
});
unzip.register(UnzipInflate);
for await (const block of process.stdin) unzip.push(block);
unzip.push(new Uint8Array(0), true);
