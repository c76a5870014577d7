// Server-sent events, as WHATWG HTML 9.2 has them, over `fetch`: browsers' `EventSource` tells no status and no headers.

import { NoAnswer } from './errors.js';

/** One event. */
export interface ServerSentEvent {
  /** The last id that was said; `undefined` where none was. */
  id: string | undefined;
  data: string;
}

/** Longest event that is kept, in characters. */
const EVENT_CHARS_MAX = 1 << 20;

/**
 * The events of a stream. `retry` is told of a pause that the server asks for, in milliseconds. Ends where the stream ends;
 * what was not finished by a blank line is not an event.
 */
export async function* events(
  body: AsyncIterable<Uint8Array>,
  retry: (ms: number) => void,
): AsyncGenerator<ServerSentEvent, void, undefined> {
  const decoder = new TextDecoder();
  let rest = '';
  let data: string[] = [];
  let size = 0;
  let id: string | undefined;
  let isAfterReturn = false;
  for await (const chunk of body) {
    rest += decoder.decode(chunk, { stream: true });
    for (;;) {
      // The second half of a line's end, whose first half ended the line already.
      if (isAfterReturn && rest.startsWith('\n')) rest = rest.slice(1);
      if (rest) isAfterReturn = false;
      const end = rest.search(/[\r\n]/);
      if (end < 0) break;
      const line = rest.slice(0, end);
      isAfterReturn = rest[end] === '\r';
      rest = rest.slice(end + 1);
      if (line === '') {
        if (data.length) yield { id, data: data.join('\n') };
        data = [];
        size = 0;
        continue;
      }
      const colon = line.indexOf(':');
      const name = colon < 0 ? line : line.slice(0, colon);
      const value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '');
      if (name === 'data') data.push(value);
      else if (name === 'id' && !value.includes('\0')) id = value;
      else if (name === 'retry' && /^\d{1,9}$/.test(value)) retry(Number(value));
      size += line.length;
    }
    if (rest.length + size > EVENT_CHARS_MAX) throw new Error('an event is longer than any that the gateway sends');
  }
}

/** Aborts after so many milliseconds, unless it is started again. */
export function deadline(ms: number, over: AbortController): { restart: () => void; stop: () => void } {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const stop = (): void => clearTimeout(timer);
  const restart = (): void => {
    stop();
    timer = setTimeout(() => over.abort(new NoAnswer('the stream fell silent')), ms);
  };
  restart();
  return { restart, stop };
}

/** The chunks of a body; not every browser lets one iterate over it. */
export async function* read(body: ReadableStream<Uint8Array>, onChunk: () => void): AsyncGenerator<Uint8Array, void, undefined> {
  const reader = body.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      onChunk();
      yield value;
    }
  } finally {
    reader.releaseLock();
  }
}
