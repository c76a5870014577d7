import {
  memoryStore
} from "./shared-RNKGJPOV.js";

// examples/x402/packages/gw-escrow/src/store.js
import {
  closeSync,
  existsSync,
  fsyncSync,
  openSync,
  readFileSync,
  renameSync,
  truncateSync,
  writeFileSync
} from "node:fs";
var SPARE_LINES = 1e3;
function fileStore(path) {
  let { records, lines } = read(path);
  const write = (record) => {
    append(path, "a", `${JSON.stringify(record)}
`);
    lines += 1;
  };
  const tidy = () => {
    if (lines <= 2 * records.size + SPARE_LINES) return;
    const all = [...records].map(([key, value]) => `${JSON.stringify({ key, value })}
`);
    append(`${path}.new`, "w", all.join(""));
    renameSync(`${path}.new`, path);
    lines = records.size;
  };
  return {
    get: async (key) => records.get(key),
    set: async (key, value) => {
      write({ key, value });
      records.set(key, value);
      tidy();
    },
    delete: async (key) => {
      if (!records.has(key)) return;
      write({ key });
      records.delete(key);
      tidy();
    }
  };
}
function append(path, flag, text) {
  const file = openSync(path, flag, 384);
  try {
    writeFileSync(file, text);
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
}
function read(path) {
  const records = /* @__PURE__ */ new Map();
  const bytes = existsSync(path) ? readFileSync(path) : Buffer.alloc(0);
  const whole = bytes.subarray(0, bytes.lastIndexOf("\n") + 1);
  if (whole.length < bytes.length) truncateSync(path, whole.length);
  const lines = whole.toString("utf8").split("\n").slice(0, -1);
  for (const [index, line] of lines.entries()) {
    let record;
    try {
      record = JSON.parse(line);
    } catch (cause) {
      throw new Error(`${path}:${index + 1} is not a record`, { cause });
    }
    if (record.value === void 0) records.delete(record.key);
    else records.set(record.key, record.value);
  }
  return { records, lines: lines.length };
}
export {
  fileStore,
  memoryStore
};
