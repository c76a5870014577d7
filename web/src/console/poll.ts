// Asks again and again: not while the tab is hidden, further and further apart while the answer is an error, and never in step
// with other tabs.

import { useEffect, useMemo, useRef, useState } from 'preact/hooks';

import { apiError, ask, isAborted, type ApiError } from './api.js';
import { store } from './store.js';

const BACK_OFF_MS = 1000;
const BACK_OFF_MS_MAX = 60_000;
/** Share by which an interval differs from one time to the next. */
const JITTER = 0.15;

/** Something that does not work at the moment. */
export interface Trouble {
  kind: 'other' | 'lost' | 'busy' | 'unavailable';
  message: string;
  /** When it is asked again, by this device's clock, milliseconds. */
  retryAt: number;
}

const troubles = new Map<object, Trouble>();
const RANK = { other: 0, lost: 1, unavailable: 2, busy: 3 };

/** The worst of what does not work. */
export const trouble = store<Trouble | undefined>(undefined);

function tell(): void {
  trouble.set([...troubles.values()].sort((a, b) => RANK[a.kind] - RANK[b.kind])[0]);
}

function clear(key: object): void {
  if (troubles.delete(key)) tell();
}

function report(key: object, error: ApiError, retryAt: number): void {
  if (!error.isPassing) return clear(key);
  const kind = error.code === 'OTHER_PAGE' ? 'other' : error.status === 0 ? 'lost' : error.status === 429 ? 'busy' : 'unavailable';
  troubles.set(key, { kind, message: error.message, retryAt });
  tell();
}

/** How long to wait after so many failures in a row, milliseconds. */
export function backOff(failures: number, atLeast: number, random = Math.random()): number {
  const whole = Math.min(BACK_OFF_MS_MAX, BACK_OFF_MS * 2 ** Math.min(failures - 1, 10));
  return Math.max(atLeast, whole / 2) + (whole / 2) * random;
}

export interface Poll {
  stop: () => void;
  /** Asks at once. */
  now: () => void;
}

/** Does `task` now, and `everyMs` after it was done. */
export function poll(task: (signal: AbortSignal) => Promise<void>, everyMs: number): Poll {
  const over = new AbortController();
  const key = {};
  let timer: ReturnType<typeof setTimeout> | undefined;
  let [isRunning, isWanted, failures] = [false, false, 0];
  const run = async (): Promise<void> => {
    clearTimeout(timer);
    if (isRunning) isWanted = true;
    if (isRunning || over.signal.aborted || document.hidden) return;
    isRunning = true;
    isWanted = false;
    let pause = everyMs * (1 + JITTER * (2 * Math.random() - 1));
    try {
      await task(over.signal);
      failures = 0;
      clear(key);
    } catch (thrown) {
      if (over.signal.aborted || isAborted(thrown)) return;
      const error = apiError(thrown);
      failures += 1;
      pause = Math.max(error.isPassing ? 0 : everyMs, backOff(failures, error.retryAfterMs));
      report(key, error, Date.now() + pause);
    } finally {
      isRunning = false;
    }
    timer = setTimeout(() => void run(), isWanted ? 0 : pause);
  };
  const wake = (): void => void run();
  document.addEventListener('visibilitychange', wake);
  window.addEventListener('online', wake);
  void run();
  return {
    stop() {
      over.abort();
      clearTimeout(timer);
      document.removeEventListener('visibilitychange', wake);
      window.removeEventListener('online', wake);
      clear(key);
    },
    now: wake,
  };
}

/** Does `task` until it is done, or fails for good. */
export async function persist<T>(task: () => Promise<T>, signal: AbortSignal): Promise<T> {
  const key = {};
  try {
    for (let failures = 1; ; failures += 1) {
      try {
        return await task();
      } catch (thrown) {
        if (signal.aborted || isAborted(thrown)) throw thrown;
        const error = apiError(thrown);
        if (!error.isPassing) throw error;
        const pause = backOff(failures, error.retryAfterMs);
        report(key, error, Date.now() + pause);
        await new Promise<void>((resolve) => {
          const timer = setTimeout(resolve, pause);
          signal.addEventListener('abort', () => (clearTimeout(timer), resolve()), { once: true });
        });
        if (signal.aborted) throw new DOMException('called off', 'AbortError');
      }
    }
  } finally {
    clear(key);
  }
}

export interface Polled<T> {
  value: T | undefined;
  /** Why there is no newer one. */
  error: ApiError | undefined;
  now: () => void;
}

/** What `path` answers, again and again; `read` is how that is asked for. */
export function usePolled<T>(
  path: string | undefined,
  everyMs: number,
  read = (signal: AbortSignal): Promise<T> => ask<T>(path ?? '', { signal }),
): Polled<T> {
  const [state, setState] = useState<{ path: string | undefined; value?: T; error?: ApiError }>({ path });
  const running = useRef<Poll | undefined>(undefined);
  useEffect(() => {
    if (path === undefined) return;
    running.current = poll(async (signal) => {
      try {
        const value = await read(signal);
        setState({ path, value });
      } catch (thrown) {
        if (!isAborted(thrown)) setState((last) => (last.path === path ? { ...last, error: apiError(thrown) } : { path, error: apiError(thrown) }));
        throw thrown;
      }
    }, everyMs);
    return () => running.current?.stop();
  }, [path, everyMs]);
  const now = useMemo(() => () => running.current?.now(), []);
  const isOf = state.path === path;
  return { value: isOf ? state.value : undefined, error: isOf ? state.error : undefined, now };
}
