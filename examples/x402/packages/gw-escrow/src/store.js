import {
  closeSync,
  existsSync,
  fsyncSync,
  openSync,
  readFileSync,
  renameSync,
  truncateSync,
  writeFileSync,
} from "node:fs";

export { memoryStore } from "./memory.js";

/**
 * @template T
 * @typedef {import("./memory.js").Store<T>} Store
 */

/** So many lines that do not count any more are left in a file, and as many as there are records. */
const SPARE_LINES = 1000;

/**
 * Records in a file of JSON lines that one process writes; the last line of a key counts. Each line is on disk before
 * `set` resolves. Half a line, which a crash left, is cut off when the file is read again, and a file of which most
 * does not count any more is written anew.
 *
 * @template T
 * @param {string} path
 * @returns {Store<T>}
 */
export function fileStore(path) {
  let { records, lines } = read(path);
  const write = (/** @type {{ key: string, value?: T }} */ record) => {
    append(path, "a", `${JSON.stringify(record)}\n`);
    lines += 1;
  };
  const tidy = () => {
    if (lines <= 2 * records.size + SPARE_LINES) return;
    const all = [...records].map(([key, value]) => `${JSON.stringify({ key, value })}\n`);
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
    },
  };
}

/**
 * Writes to a file, and returns when that is on disk.
 *
 * @param {string} path
 * @param {"a" | "w"} flag
 * @param {string} text
 */
function append(path, flag, text) {
  const file = openSync(path, flag, 0o600);
  try {
    writeFileSync(file, text);
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
}

/**
 * @param {string} path
 * @returns {{ records: Map<string, any>, lines: number }}
 */
function read(path) {
  const records = new Map();
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
    if (record.value === undefined) records.delete(record.key);
    else records.set(record.key, record.value);
  }
  return { records, lines: lines.length };
}
