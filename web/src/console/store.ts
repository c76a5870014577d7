// A value that several views show.

import { useEffect, useState } from 'preact/hooks';

export interface Store<T> {
  get: () => T;
  set: (value: T) => void;
  watch: (listener: (value: T) => void) => () => void;
}

export function store<T>(first: T): Store<T> {
  let now = first;
  const listeners = new Set<(value: T) => void>();
  return {
    get: () => now,
    set(value) {
      if (Object.is(value, now)) return;
      now = value;
      for (const listener of listeners) listener(value);
    },
    watch(listener) {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
  };
}

export function useStore<T>(of: Store<T>): T {
  const [value, setValue] = useState<{ now: T }>(() => ({ now: of.get() }));
  useEffect(() => {
    setValue((last) => (Object.is(last.now, of.get()) ? last : { now: of.get() }));
    return of.watch((now) => setValue({ now }));
  }, [of]);
  return value.now;
}
