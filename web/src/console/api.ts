// The console's API, and who is signed in. The token is kept for the tab alone, and goes to the origin of this page alone.

import { heard, isHeard, isSamePage, lost } from './origin.js';
import { store } from './store.js';

const KEY = 'console.token';
const ANSWER_MS = 20_000;

/** Why nobody is signed in. */
export type Leaving = 'none' | 'left' | 'refused';

interface Session {
  token: string | undefined;
  why: Leaving;
}

function stored(): string | undefined {
  try {
    return sessionStorage.getItem(KEY) ?? undefined;
  } catch {
    return undefined;
  }
}

export const session = store<Session>({ token: stored(), why: 'none' });

/** Keeps the token for the tab, or nothing. */
function keep(token: string | undefined): void {
  try {
    if (token === undefined) sessionStorage.removeItem(KEY);
    else sessionStorage.setItem(KEY, token);
  } catch {
    // Without a storage one is signed in until the page is loaded again.
  }
}

export function signIn(token: string): void {
  keep(token);
  session.set({ token, why: 'none' });
}

export function signOut(why: Leaving): void {
  keep(undefined);
  session.set({ token: undefined, why });
}

/** The API refused, or nobody answered: then `status` is 0. */
export class ApiError extends Error {
  override readonly name = 'ApiError';
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    /** How long the API wants to be left alone, milliseconds. */
    readonly retryAfterMs = 0,
  ) {
    super(message);
  }

  /** Whether nothing was sent, as nobody known is there to send it to. */
  get isUnsent(): boolean {
    return this.code === 'NOT_SENT' || this.code === 'OTHER_PAGE';
  }

  /** Whether the same may be answered a little later. */
  get isPassing(): boolean {
    return this.status === 0 || this.status === 429 || this.status >= 500;
  }
}

export const isAborted = (error: unknown): boolean => error instanceof DOMException && error.name === 'AbortError';

/** What was thrown, as an error of the API. */
export const apiError = (error: unknown): ApiError =>
  error instanceof ApiError ? error : new ApiError(0, 'FAILED', error instanceof Error ? error.message : String(error));

interface Asked {
  signal?: AbortSignal | undefined;
  token?: string;
  /** What is posted. */
  body?: unknown;
}

/** Makes sure that it is the console whom the token is sent to. */
async function recognise(): Promise<void> {
  if (isHeard()) return;
  try {
    if (!(await isSamePage())) throw new ApiError(0, 'OTHER_PAGE', 'the address answers with another page');
  } catch (thrown) {
    // Whatever page is loaded here next finds no token in this tab.
    keep(undefined);
    throw thrown instanceof ApiError ? thrown : new ApiError(0, 'NOT_SENT', thrown instanceof Error ? thrown.message : String(thrown));
  }
  keep(session.get().token);
}

const isError = (answer: unknown): boolean => typeof answer === 'object' && answer !== null && 'error' in answer;

/** Asks for `path` under `/api/`. */
export async function ask<T>(path: string, { signal, token = session.get().token, body }: Asked = {}): Promise<T> {
  // Late answers of whoever was signed in before sign nobody out.
  const before = session.get();
  await recognise();
  if (signal?.aborted) throw new DOMException('called off', 'AbortError');
  const patience = AbortSignal.timeout(ANSWER_MS);
  let response: Response;
  let answer: unknown;
  try {
    response = await fetch(`/api/${path}`, {
      method: body === undefined ? 'GET' : 'POST',
      headers: { authorization: `Bearer ${token ?? ''}`, ...(body === undefined ? {} : { 'content-type': 'application/json' }) },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      // An order is not called off half-way: whether it was carried out would not be known.
      signal: signal && body === undefined ? anyOf(signal, patience) : body === undefined ? patience : null,
      cache: 'no-store',
      credentials: 'omit',
      redirect: 'error',
      referrerPolicy: 'no-referrer',
    });
    answer = await response.json().catch(() => undefined);
  } catch (error) {
    if (signal?.aborted) throw new DOMException('called off', 'AbortError');
    lost();
    throw new ApiError(0, 'NO_ANSWER', error instanceof Error ? error.message : String(error));
  }
  if (signal?.aborted) throw new DOMException('called off', 'AbortError');
  // What is not of the API comes from somebody else: a proxy, or who has the port now.
  if (response.ok ? answer === undefined : !isError(answer)) lost();
  else heard();
  if (response.ok) {
    if (answer === undefined) throw new ApiError(0, 'NO_ANSWER', 'the answer broke off');
    return answer as T;
  }
  const said = (answer as { error?: { code?: unknown; message?: unknown } } | undefined)?.error;
  const code = typeof said?.code === 'string' ? said.code : `HTTP_${response.status}`;
  const message = typeof said?.message === 'string' ? said.message : `${response.status} ${response.statusText}`;
  if (response.status === 401 && before.token !== undefined && session.get() === before) signOut('refused');
  const seconds = Number(response.headers.get('retry-after') ?? 0);
  throw new ApiError(response.status, code, message, Number.isFinite(seconds) ? seconds * 1000 : 0);
}

/** A signal that is given when one of the two is. */
function anyOf(one: AbortSignal, other: AbortSignal): AbortSignal {
  if ('any' in AbortSignal) return AbortSignal.any([one, other]);
  const both = new AbortController();
  for (const signal of [one, other] as AbortSignal[]) {
    if (signal.aborted) both.abort();
    signal.addEventListener('abort', () => both.abort(), { once: true });
  }
  return both.signal;
}
