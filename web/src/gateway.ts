// The gateway that served this page, and whether it is being heard.

import { useEffect, useState } from 'preact/hooks';

import { Gateway } from '../../sdk/typescript/src/gateway.js';

/** Failures in a row after which the connection counts as lost: a stream that ends and is opened again is none. */
const FAILURES_MAX = 2;

let failures = 0;
let isLost = !navigator.onLine;
const listeners = new Set<(isLost: boolean) => void>();

function tell(): void {
  const now = failures >= FAILURES_MAX || !navigator.onLine;
  if (now === isLost) return;
  isLost = now;
  for (const listener of listeners) listener(isLost);
}

async function listening(...[input, init]: Parameters<typeof fetch>): Promise<Response> {
  try {
    const response = await fetch(input, init);
    failures = 0;
    return response;
  } catch (error) {
    // What was called off says nothing about the connection.
    if (!(init?.signal?.aborted ?? false)) failures += 1;
    throw error;
  } finally {
    tell();
  }
}

window.addEventListener('offline', tell);
window.addEventListener('online', () => {
  failures = 0;
  tell();
});

export const gateway = new Gateway(location.origin, { fetch: listening, pauseMs: 500, pauseMsMax: 5000 });

/** Whether nobody answers. */
export function useIsLost(): boolean {
  const [lost, setLost] = useState(isLost);
  useEffect(() => {
    setLost(isLost);
    listeners.add(setLost);
    return () => void listeners.delete(setLost);
  }, []);
  return lost;
}
