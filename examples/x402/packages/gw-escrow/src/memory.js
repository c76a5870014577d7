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
 * Records that end with the process, or with the page.
 *
 * @template T
 * @returns {Store<T>}
 */
export function memoryStore() {
  /** @type {Map<string, T>} */
  const records = new Map();
  return {
    get: async (key) => records.get(key),
    set: async (key, value) => void records.set(key, value),
    delete: async (key) => void records.delete(key),
  };
}
