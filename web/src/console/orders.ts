// What an operator orders: asked for once more, sent, and answered for.

import { apiError, ask, type ApiError } from './api.js';
import { store } from './store.js';
import type { Pause } from './types.js';

export type ActName = 'pause' | 'resume' | 'rebuild' | 'acknowledge' | 'replay';

/** Most ids that one order may name. */
export const IDS_MAX = 1000;

export interface Outcome {
  outcome: string;
  details?: string;
  error?: string;
}

/** What became of one of several. */
export interface ActResult extends Outcome {
  id: string;
}

export interface ActAnswer {
  act_id: string;
  outcome: Outcome;
  results?: ActResult[];
  /** Of all that was parked, how many still are, as one order replays so many. */
  left?: number;
}

/** An order that waits for its confirmation. */
export interface Intent {
  act: ActName;
  /** Of `rebuild` and `acknowledge`: whom it is for; all where there is none. */
  gateway?: string;
  /** Of `replay`: which, or how many where all are meant. */
  ids?: readonly string[];
  all?: number;
  /** Of `resume`: the pause that is to end, as it was shown. Another is left as it is. */
  pause?: Pause;
  /** Told once the order has ended, whatever came of it. */
  done?: (answers: readonly ActAnswer[]) => void;
}

export const intent = store<Intent | undefined>(undefined);

/** How it ended, as far as that is known. */
export const endOf = ({ outcome }: Outcome): 'done' | 'failed' | 'unknown' =>
  outcome === 'done' || outcome === 'replayed' ? 'done' : outcome === 'failed' ? 'failed' : 'unknown';

export const isDone = (outcome: Outcome): boolean => endOf(outcome) === 'done';

/**
 * Of an order that was sent and answered so, or not at all, nobody can tell whether it had its effect: an act goes on while nobody
 * waits.
 */
export const isUnclear = (error: ApiError): boolean => !error.isUnsent && (error.status === 0 || error.status >= 500);

function bodiesOf({ gateway, ids, all, pause }: Intent, reason: string): unknown[] {
  if (all !== undefined) return [{ all: true }];
  if (pause) return [{ since: pause.since }];
  if (!ids) return [{ ...(gateway === undefined ? {} : { gateway }), ...(reason ? { reason } : {}) }];
  const bodies: unknown[] = [];
  for (let at = 0; at < ids.length; at += IDS_MAX) bodies.push({ ids: ids.slice(at, at + IDS_MAX) });
  return bodies;
}

/** Gives the order. More ids than one order may name are several, of which a failure ends the rest. */
export async function give(wanted: Intent, reason: string): Promise<{ answers: ActAnswer[]; error?: ApiError }> {
  const answers: ActAnswer[] = [];
  for (const body of bodiesOf(wanted, reason)) {
    try {
      answers.push(await ask<ActAnswer>(`acts/${wanted.act}`, { body }));
    } catch (error) {
      return { answers, error: apiError(error) };
    }
  }
  return { answers };
}
