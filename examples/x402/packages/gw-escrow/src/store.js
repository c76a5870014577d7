import { closeSync, existsSync, fsyncSync, openSync, readFileSync, truncateSync, writeSync } from "node:fs";

export { memoryStore } from "./memory.js";

/**
 * @template T
 * @typedef {import("./memory.js").Store<T>} Store
 */

/**
 * Records in a file of JSON lines that one process writes; the last line of a key counts. Each line is on disk before
 * `set` resolves. Half a line, which a crash left, is cut off when the file is read again.
 *
 * @template T
 * @param {string} path
 * @returns {Store<T>}
 */
export function fileStore(path) {
  const records = read(path);
  const append = (/** @type {{ key: string, value?: T }} */ record) => {
    const file = openSync(path, "a", 0o600);
    try {
      writeSync(file, `${JSON.stringify(record)}\n`);
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
    },
  };
}

/**
 * @param {string} path
 * @returns {Map<string, any>}
 */
function read(path) {
  const records = new Map();
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
    if (record.value === undefined) records.delete(record.key);
    else records.set(record.key, record.value);
  }
  return records;
}
