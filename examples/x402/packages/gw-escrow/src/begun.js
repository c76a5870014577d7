/**
 * @typedef {import("./x402.js").PaymentRequirements} PaymentRequirements
 */

/** So many payments are remembered; the oldest are given up first. */
const BEGUN_MAX = 10_000;

/**
 * What was asked for, of payments that were handed to the gateway: by the resource, and the digest of what the buyer
 * signed.
 */
export class Begun {
  /** @type {Map<string, { requirements: PaymentRequirements, until: number }>} */
  #known = new Map();

  /**
   * @param {string} resource
   * @param {unknown} payload What the buyer signed.
   * @param {PaymentRequirements} requirements
   * @param {number} seconds For how long.
   */
  async add(resource, payload, requirements, seconds) {
    const key = await digest(resource, payload);
    const until = this.#known.get(key)?.until ?? Date.now() + seconds * 1000;
    this.#known.set(key, { requirements, until });
    const [oldest] = this.#known.keys();
    if (this.#known.size > BEGUN_MAX) this.#known.delete(oldest);
  }

  /**
   * What was asked for, of the payment in a header.
   *
   * @param {string} resource
   * @param {unknown} header Base64 of JSON, by whomever.
   * @returns {Promise<PaymentRequirements | undefined>}
   */
  async of(resource, header) {
    const known = this.#known.get(await digest(resource, payloadOf(header)));
    return known && Date.now() <= known.until ? known.requirements : undefined;
  }
}

/** @param {unknown} header @returns {unknown} */
function payloadOf(header) {
  try {
    const bytes = Uint8Array.from(atob(String(header)), (character) => character.charCodeAt(0));
    return JSON.parse(new TextDecoder().decode(bytes))?.payload;
  } catch {
    return undefined;
  }
}

/** @param {string} resource @param {unknown} payload */
async function digest(resource, payload) {
  const bytes = new TextEncoder().encode(JSON.stringify([resource, payload]));
  return String(new Uint8Array(await crypto.subtle.digest("SHA-256", bytes)));
}
