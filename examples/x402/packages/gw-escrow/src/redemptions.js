import { memoryStore } from "./memory.js";

/**
 * What a payment was used for.
 *
 * @typedef {object} Redemption
 * @property {string} resource Method and address of what it opened.
 * @property {number} [servedAt] UNIX milliseconds of its first use; absent until it was used.
 */

/**
 * What each payment opens. A gateway settles the same payment again and again with the same success, so a merchant
 * has to remember: one payment opens one resource, once, and for a short time again, for an answer that was lost on
 * its way.
 */
export class Redemptions {
  /** Payments that are being used at this moment. @type {Set<string>} */
  #inUse = new Set();

  /**
   * @param {object} [options]
   * @param {import("./memory.js").Store<Redemption>} [options.store] Kept for as long as payments may come back, which
   *   is for ever.
   * @param {number} [options.againSeconds] How long a payment opens the same resource again.
   */
  constructor({ store = memoryStore(), againSeconds = 300 } = {}) {
    this.store = store;
    this.againSeconds = againSeconds;
  }

  /**
   * Takes a payment for a resource. Whoever gets `undefined` has it until `release` or `served`.
   *
   * @param {string} paymentId
   * @param {string} resource
   * @returns {Promise<"payment_in_use" | "payment_used" | undefined>} Why it cannot be used.
   */
  async take(paymentId, resource) {
    if (this.#inUse.has(paymentId)) return "payment_in_use";
    this.#inUse.add(paymentId);
    try {
      const known = await this.store.get(paymentId);
      const { servedAt } = known ?? {};
      const spent = servedAt !== undefined && Date.now() > servedAt + this.againSeconds * 1000;
      if (spent || (known && known.resource !== resource)) {
        this.#inUse.delete(paymentId);
        return "payment_used";
      }
      if (!known) await this.store.set(paymentId, { resource });
      return undefined;
    } catch (error) {
      this.#inUse.delete(paymentId);
      throw error;
    }
  }

  /**
   * The payment has been made, and opens its resource now.
   *
   * @param {string} paymentId
   */
  async served(paymentId) {
    const known = await this.store.get(paymentId);
    if (known && known.servedAt === undefined) await this.store.set(paymentId, { ...known, servedAt: Date.now() });
    this.#inUse.delete(paymentId);
  }

  /**
   * The payment was not used after all.
   *
   * @param {string} paymentId
   */
  release(paymentId) {
    this.#inUse.delete(paymentId);
  }
}
