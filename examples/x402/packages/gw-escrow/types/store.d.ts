/**
 * Where records are kept by key. What `set` has resolved for is there afterwards.
 *
 * @template T
 * @typedef {object} Store
 * @property {(key: string) => Promise<T | undefined>} get
 * @property {(key: string, value: T) => Promise<void>} set
 * @property {(key: string) => Promise<void>} delete
 */
/**
 * Records that end with the process.
 *
 * @template T
 * @returns {Store<T>}
 */
export function memoryStore<T>(): Store<T>;
/**
 * Records in a file of JSON lines that one process writes; the last line of a key counts. Each line is on disk before
 * `set` resolves. Half a line, which a crash left, is cut off when the file is read again.
 *
 * @template T
 * @param {string} path
 * @returns {Store<T>}
 */
export function fileStore<T>(path: string): Store<T>;
/**
 * Where records are kept by key. What `set` has resolved for is there afterwards.
 */
export type Store<T> = {
    get: (key: string) => Promise<T | undefined>;
    set: (key: string, value: T) => Promise<void>;
    delete: (key: string) => Promise<void>;
};
