import { memoryStore } from "./memory.js";

/**
 * What a payment was used for.
 *
 * @typedef {object} Redemption
 * @property {string} resource Method and address of what it opens.
 * @property {number} [settledAt] UNIX milliseconds from when on it was known to be paid.
 * @property {number} [servedAt] UNIX milliseconds at which an answer to it was sent to its end for the first time.
 */

/** How long a request may hold a payment where nobody says. */
const HOLD_SECONDS = 600;

/**
 * What each payment opens. A gateway settles the same payment again and again with the same success, so a merchant
 * has to remember: one payment opens one resource, once, and for a short time again, for an answer that was lost on
 * its way.
 */
export class Redemptions {
  /** Until when a request holds a payment, in UNIX milliseconds; the oldest first. @type {Map<string, number>} */
  #held = new Map();
  /** What reads a record and then writes it, by payment, one after another. @type {Map<string, Promise<unknown>>} */
  #turns = new Map();
  /** How many requests have bound a payment and do not know its outcome. @type {Map<string, number>} */
  #open = new Map();

  /**
   * @param {object} [options]
   * @param {import("./memory.js").Store<Redemption>} [options.store] Kept for as long as payments may come back, which
   *   is for ever.
   * @param {number} [options.againSeconds] How long a payment opens the same resource again, once an answer to it was
   *   sent.
   * @param {number} [options.claimSeconds] How long a payment that was made opens its resource while no answer to it
   *   was sent, as the buyer was gone; a day.
   */
  constructor({ store = memoryStore(), againSeconds = 300, claimSeconds = 86_400 } = {}) {
    this.store = store;
    this.againSeconds = againSeconds;
    this.claimSeconds = claimSeconds;
  }

  /**
   * Takes a payment for a resource. Whoever gets `undefined` has it until `release`, or for so many seconds.
   *
   * @param {string} paymentId
   * @param {string} resource
   * @param {number} [seconds]
   * @returns {Promise<"payment_in_use" | "payment_used" | undefined>} Why it cannot be used.
   */
  async take(paymentId, resource, seconds = HOLD_SECONDS) {
    const now = Date.now();
    for (const [id, until] of this.#held) {
      if (until > now) break;
      this.#held.delete(id);
    }
    if ((this.#held.get(paymentId) ?? 0) > now) return "payment_in_use";
    this.#held.delete(paymentId);
    this.#held.set(paymentId, now + seconds * 1000);
    try {
      if (this.#opens(await this.store.get(paymentId), resource)) return undefined;
    } catch (error) {
      this.release(paymentId);
      throw error;
    }
    this.release(paymentId);
    return "payment_used";
  }

  /**
   * Remembers that this payment is for this resource and no other. To be called before any money moves.
   *
   * @param {string} paymentId
   * @param {string} resource
   * @returns {Promise<"payment_used" | undefined>} Why it cannot be.
   */
  bind(paymentId, resource) {
    return this.#alone(paymentId, async () => {
      const known = await this.store.get(paymentId);
      if (!this.#opens(known, resource)) return "payment_used";
      if (!known) await this.store.set(paymentId, { resource });
      this.#open.set(paymentId, (this.#open.get(paymentId) ?? 0) + 1);
      return undefined;
    });
  }

  /**
   * The payment has been made.
   *
   * @param {string} paymentId
   */
  settled(paymentId) {
    return this.#alone(paymentId, async () => {
      this.#ends(paymentId);
      const known = await this.store.get(paymentId);
      if (known && known.settledAt === undefined && known.servedAt === undefined) {
        await this.store.set(paymentId, { ...known, settledAt: Date.now() });
      }
    });
  }

  /**
   * An answer to the payment was sent to its end.
   *
   * @param {string} paymentId
   */
  async served(paymentId) {
    try {
      await this.#alone(paymentId, async () => {
        const known = await this.store.get(paymentId);
        if (known && known.servedAt === undefined) await this.store.set(paymentId, { ...known, servedAt: Date.now() });
      });
    } finally {
      this.release(paymentId);
    }
  }

  /**
   * The payment is not in use any more.
   *
   * @param {string} paymentId
   */
  release(paymentId) {
    this.#held.delete(paymentId);
  }

  /**
   * A payment that was bound has not been made.
   *
   * @param {string} paymentId
   * @param {boolean} isFinal It was refused, or failed, and moved no money: nothing has to be remembered of it, unless
   *   another request is at it.
   */
  failed(paymentId, isFinal) {
    return this.#alone(paymentId, async () => {
      if (this.#ends(paymentId) > 0 || !isFinal) return;
      const known = await this.store.get(paymentId);
      if (known && known.settledAt === undefined && known.servedAt === undefined) await this.store.delete(paymentId);
    });
  }

  /** One request less is at a payment. @param {string} paymentId @returns {number} How many still are. */
  #ends(paymentId) {
    const left = (this.#open.get(paymentId) ?? 1) - 1;
    if (left > 0) this.#open.set(paymentId, left);
    else this.#open.delete(paymentId);
    return left;
  }

  /** @param {Redemption | undefined} known @param {string} resource */
  #opens(known, resource) {
    if (!known) return true;
    const { servedAt, settledAt } = known;
    const until =
      servedAt !== undefined
        ? servedAt + this.againSeconds * 1000
        : settledAt !== undefined
          ? settledAt + this.claimSeconds * 1000
          : Infinity;
    return known.resource === resource && Date.now() <= until;
  }

  /**
   * @template T
   * @param {string} paymentId
   * @param {() => Promise<T>} work
   * @returns {Promise<T>}
   */
  async #alone(paymentId, work) {
    const turn = (this.#turns.get(paymentId) ?? Promise.resolve()).then(work, work);
    this.#turns.set(paymentId, turn);
    try {
      return await turn;
    } finally {
      if (this.#turns.get(paymentId) === turn) this.#turns.delete(paymentId);
    }
  }
}
