/**
 * Reasons in a 402 after which the same payment is sent again, and no other is made: it is under way, it is in use at
 * this moment, nothing is known of it, or nothing was accepted. Answers of status 429, and of 500 and more, mean the
 * same.
 *
 * @type {readonly string[]}
 */
export const SEND_AGAIN: readonly string[];
