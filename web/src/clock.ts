// One clock for everything that counts down.

import { useEffect, useState } from 'preact/hooks';

const TICK_MS = 1000;

/** The time now, in milliseconds, again every second. */
export function useNow(): number {
  const [now, setNow] = useState(() => Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), TICK_MS);
    return () => clearInterval(timer);
  }, []);
  return now;
}
