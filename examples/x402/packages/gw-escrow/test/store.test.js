import assert from "node:assert/strict";
import { appendFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

import { fileStore } from "../src/store.js";

test("records are there when the file is read again, and half a line is not", async (context) => {
  const directory = mkdtempSync(join(tmpdir(), "store-"));
  context.after(() => rmSync(directory, { recursive: true }));
  const path = join(directory, "records.jsonl");
  const store = fileStore(path);
  await store.set("a", { n: 1 });
  await store.set("b", { n: 2 });
  await store.set("a", { n: 3 });
  await store.delete("b");
  appendFileSync(path, '{"key":"c","val');

  const again = fileStore(path);
  assert.deepEqual(await again.get("a"), { n: 3 });
  assert.equal(await again.get("b"), undefined);
  assert.equal(await again.get("c"), undefined);
  await again.set("c", { n: 4 });
  assert.deepEqual(await fileStore(path).get("c"), { n: 4 });

  writeFileSync(path, `${readFileSync(path, "utf8")}no record\n`);
  assert.throws(() => fileStore(path), /records\.jsonl:6 is not a record/);
});

test("a file of which most does not count any more is written anew", async (context) => {
  const directory = mkdtempSync(join(tmpdir(), "store-"));
  context.after(() => rmSync(directory, { recursive: true }));
  const path = join(directory, "records.jsonl");
  const store = fileStore(path);
  const lines = () => readFileSync(path, "utf8").split("\n").length - 1;
  await store.set("kept", { n: 0 });
  for (let n = 0; n < 1500; n++) {
    await store.set(`unpaid-${n}`, { n });
    await store.delete(`unpaid-${n}`);
  }
  assert.ok(lines() < 1100, `${lines()} lines`);
  assert.deepEqual(await fileStore(path).get("kept"), { n: 0 });
  assert.equal(await fileStore(path).get("unpaid-7"), undefined);
});
