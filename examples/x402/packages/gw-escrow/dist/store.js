import {
  memoryStore
} from "./shared-RNKGJPOV.js";

// examples/x402/packages/gw-escrow/src/store.js
import { closeSync, existsSync, fsyncSync, openSync, readFileSync, truncateSync, writeSync } from "node:fs";
function fileStore(path) {
  const records = read(path);
  const append = (record) => {
    const file = openSync(path, "a", 384);
    try {
      writeSync(file, `${JSON.stringify(record)}
`);
      fsyncSync(file);
    } finally {
      closeSync(file);
    }
  };
  return {
    get: async (key) => records.get(key),
    set: async (key, value) => {
      append({ key, value });
      records.set(key, value);
    },
    delete: async (key) => {
      if (!records.has(key)) return;
      append({ key });
      records.delete(key);
    }
  };
}
function read(path) {
  const records = /* @__PURE__ */ new Map();
  const bytes = existsSync(path) ? readFileSync(path) : Buffer.alloc(0);
  const whole = bytes.subarray(0, bytes.lastIndexOf("\n") + 1);
  if (whole.length < bytes.length) truncateSync(path, whole.length);
  for (const [index, line] of whole.toString("utf8").split("\n").slice(0, -1).entries()) {
    let record;
    try {
      record = JSON.parse(line);
    } catch (cause) {
      throw new Error(`${path}:${index + 1} is not a record`, { cause });
    }
    if (record.value === void 0) records.delete(record.key);
    else records.set(record.key, record.value);
  }
  return records;
}
export {
  fileStore,
  memoryStore
};
