/**
 * Records in a file of JSON lines that one process writes; the last line of a key counts. Each line is on disk before
 * `set` resolves. Half a line, which a crash left, is cut off when the file is read again, and a file of which most
 * does not count any more is written anew.
 *
 * @template T
 * @param {string} path
 * @returns {Store<T>}
 */
export function fileStore<T>(path: string): Store<T>;
export { memoryStore } from "./memory.js";
export type Store<T> = import("./memory.js").Store<T>;
