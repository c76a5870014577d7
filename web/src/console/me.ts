// Who is signed in, and what the gateway says of itself and its network.

import { useEffect } from 'preact/hooks';

import { ask } from './api.js';
import { usePolled } from './poll.js';
import { store, useStore } from './store.js';
import type { Chain, Me } from './types.js';

const EVERY_MS = 10_000;

export const me = store<Me | undefined>(undefined);

function learn(value: Me): void {
  const last = me.get()?.network;
  // What has not changed stays the same, so that nothing is drawn again for it.
  const isSame = last !== undefined && JSON.stringify(last) === JSON.stringify(value.network);
  me.set(isSame ? { ...value, network: last } : value);
}

/** Keeps it up to date. Returns what asks at once. */
export function useMePolled(): () => void {
  const { value, now } = usePolled<Me>('me', EVERY_MS);
  useEffect(() => value && learn(value), [value]);
  return now;
}

/** How it is now. */
export async function readMe(): Promise<Me> {
  const value = await ask<Me>('me');
  learn(value);
  return value;
}

const NO_CHAINS: readonly Chain[] = [];

export const useChains = (): readonly Chain[] => useStore(me)?.network.chains ?? NO_CHAINS;

/** Whether whoever is signed in may act. */
export const useMayAct = (): boolean => useStore(me)?.may_act ?? false;
