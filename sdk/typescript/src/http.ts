// HTTP with bounded retries: every call of the API may be repeated with the same body, because a `request_id` can never start
// a second payment.

import { readJson } from './answer.js';
import { GatewayError, NoAnswer, UsageError } from './errors.js';
import { isResent } from './retry.js';
import { pause } from './time.js';
import type { CallOptions, ErrorBody, GatewayOptions } from './types.js';

const TIMEOUT_MS = 60_000;
const RETRIES = 5;
const PAUSE_MS = 500;
const PAUSE_MS_MAX = 30_000;

/** One call. */
export interface Call extends CallOptions {
  method: 'GET' | 'POST';
  /** Path below the base URL, with its query. */
  path: string;
  body?: unknown;
  headers?: Record<string, string>;
}

/** An answer, and what its headers say. */
export interface Answer<T> {
  body: T;
  headers: Headers;
}

/** The connection to one gateway. */
export class Http {
  readonly base: string;
  readonly #fetch: typeof fetch;
  readonly #timeoutMs: number;
  readonly #retries: number;
  readonly #headers: Record<string, string>;
  /** First and longest pause between two tries, in milliseconds. */
  readonly pauseMs: number;
  readonly pauseMsMax: number;

  constructor(base: string, options: GatewayOptions = {}) {
    const url = new URL(base);
    if (!/^https?:$/.test(url.protocol) || url.search || url.hash) throw new UsageError(`${base} is not the address of a gateway`);
    this.base = url.href.replace(/\/+$/, '');
    // A browser's fetch wants to be called as one of the window.
    this.#fetch = options.fetch ?? ((input, init) => globalThis.fetch(input, init));
    this.#timeoutMs = options.timeoutMs ?? TIMEOUT_MS;
    this.#retries = options.retries ?? RETRIES;
    this.#headers = options.headers ?? {};
    this.pauseMs = options.pauseMs ?? PAUSE_MS;
    this.pauseMsMax = options.pauseMsMax ?? PAUSE_MS_MAX;
  }

  /** Calls, and again where {@link isResent} and as often as there are tries. The body is the same each time, to the byte. */
  async call<T>(call: Call): Promise<Answer<T>> {
    const body = call.body === undefined ? undefined : JSON.stringify(call.body);
    const retries = call.retries ?? this.#retries;
    for (let tried = 0; ; tried += 1) {
      try {
        return await this.#once<T>(call, body);
      } catch (error) {
        if (!isResent(error) || tried >= retries || (error.retryAfterMs ?? 0) > this.pauseMsMax) throw error;
        await pause(this.pauseAfter(error, tried), call.signal);
      }
    }
  }

  /** How long to wait after the `tried`-th failure, from 0: doubled each time, with jitter, and not less than `Retry-After`. */
  pauseAfter(error: { retryAfterMs?: number | undefined } | undefined, tried: number): number {
    const grown = Math.min(this.pauseMs * 2 ** Math.min(tried, 20), this.pauseMsMax);
    return Math.max(grown * (0.5 + Math.random() / 2), error?.retryAfterMs ?? 0);
  }

  async #once<T>(call: Call, body: string | undefined): Promise<Answer<T>> {
    const response = await this.open(call, body, this.#timeoutMs);
    let value: unknown;
    try {
      value = await readJson(response);
    } catch (cause) {
      call.signal?.throwIfAborted();
      throw new NoAnswer(`${call.method} ${call.path} was answered with something that is not JSON, was cut off, or is too long`, { cause });
    }
    return { body: value as T, headers: response.headers };
  }

  /**
   * The response, once its head is there and says that the call succeeded.
   *
   * @throws {GatewayError} for a refusal, {@link NoAnswer} where nothing is known.
   */
  async open(call: Call, body: string | undefined, timeoutMs: number | undefined): Promise<Response> {
    const { method, path, signal } = call;
    signal?.throwIfAborted();
    const headers: Record<string, string> = { accept: 'application/json', ...this.#headers, ...call.headers };
    if (body !== undefined) headers['content-type'] = 'application/json';
    if (call.waitSeconds !== undefined) headers['prefer'] = `wait=${call.waitSeconds}`;
    const limits = [signal, timeoutMs === undefined ? undefined : AbortSignal.timeout(timeoutMs)];
    const init: RequestInit = {
      method,
      headers,
      // What was signed goes to nobody that the caller did not name.
      redirect: 'error',
      credentials: 'omit',
      signal: AbortSignal.any(limits.filter((limit) => limit !== undefined)),
    };
    if (body !== undefined) init.body = body;
    let response: Response;
    try {
      response = await this.#fetch(this.base + path, init);
    } catch (cause) {
      signal?.throwIfAborted();
      throw new NoAnswer(`${method} ${path}: ${reason(cause)}`, { cause });
    }
    if (response.ok) return response;
    throw await refusal(call, response);
  }
}

/** What `fetch` says, and what is behind it: on Node.js its own message is `fetch failed` alone. */
function reason(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const cause = error.cause instanceof Error ? error.cause.message : '';
  return cause ? `${error.message}: ${cause}` : error.message;
}

async function refusal(call: Call, response: Response): Promise<GatewayError | NoAnswer> {
  const { status } = response;
  const retryAfterMs = retryAfter(response.headers.get('retry-after'));
  let body: Partial<ErrorBody> | null = null;
  try {
    body = (await readJson(response)) as Partial<ErrorBody> | null;
  } catch {
    // Something else than the gateway answered; its status is all there is.
    call.signal?.throwIfAborted();
  }
  if (typeof body?.code === 'string' && typeof body.message === 'string') {
    return new GatewayError(status, body as ErrorBody, retryAfterMs);
  }
  const message = `${call.method} ${call.path} was answered with HTTP ${status}, and not by the gateway`;
  if (status === 429 || status >= 500) {
    return new NoAnswer(message, { status, ...(retryAfterMs === undefined ? {} : { retryAfterMs }) });
  }
  return new GatewayError(status, { code: `HTTP_${status}`, message });
}

/** `Retry-After` in milliseconds: seconds, or a date. */
function retryAfter(value: string | null): number | undefined {
  if (value === null) return undefined;
  if (/^\d{1,9}$/.test(value.trim())) return Number(value) * 1000;
  const date = Date.parse(value);
  return Number.isNaN(date) ? undefined : Math.max(0, date - Date.now());
}
