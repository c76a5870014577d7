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
export function memoryStore<T>(): Store<T>;
/**
 * Where records are kept by key. What `set` has resolved for is there afterwards.
 */
export type Store<T> = {
    get: (key: string) => Promise<T | undefined>;
    set: (key: string, value: T) => Promise<void>;
    delete: (key: string) => Promise<void>;
};
