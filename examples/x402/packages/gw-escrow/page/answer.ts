// The shop's answer, kept until what was bought is shown: a load of the page that the shop refuses must not cost it.

/** Names, types and sizes of what was bought. */
export interface Answer {
  type: string;
  /** What a file is to be called, where the shop says. */
  name?: string;
  isAttachment: boolean;
  blob: Blob;
}

interface Stored extends Omit<Answer, 'blob'> {
  paymentId: string;
  body: string;
}

const KEY = 'x402-gw-escrow:v1:answer';
/** A browser stores some 5 MB for a tab, in characters, and the shop's own pages may want some of it. */
const BYTES_MAX = 1_500_000;

export function answerOf(response: Response, blob: Blob): Answer {
  const disposition = response.headers.get('content-disposition') ?? '';
  const type = (response.headers.get('content-type') ?? '').split(';')[0]?.trim() || 'application/octet-stream';
  const name = /filename="?([^";]+)/.exec(disposition)?.[1];
  return { type, blob, isAttachment: isAttachment(response), ...(name ? { name } : {}) };
}

/** Whether the shop means it to be saved and not shown: what is not `inline` (RFC 6266). */
export const isAttachment = ({ headers }: Response): boolean =>
  !/^\s*(?:inline\s*(?:;|$)|$)/i.test(headers.get('content-disposition') ?? '');

/** Keeps it in this tab; `false` where it does not fit. */
export async function keepAnswer(paymentId: string, { blob, ...rest }: Answer): Promise<boolean> {
  if (blob.size > BYTES_MAX) return false;
  try {
    const bytes = new Uint8Array(await blob.arrayBuffer());
    let body = '';
    for (const byte of bytes) body += String.fromCharCode(byte);
    sessionStorage.setItem(KEY, JSON.stringify({ ...rest, paymentId, body: btoa(body) } satisfies Stored));
    return true;
  } catch {
    return false;
  }
}

/** What this tab keeps of this payment. */
export function keptAnswer(paymentId: string): Answer | undefined {
  try {
    const stored = JSON.parse(sessionStorage.getItem(KEY) ?? 'null') as Stored | null;
    if (stored?.paymentId !== paymentId) return undefined;
    const { type, name, isAttachment: isFile, body } = stored;
    const bytes = Uint8Array.from(atob(body), (character) => character.charCodeAt(0));
    return { type, isAttachment: isFile, blob: new Blob([bytes], { type }), ...(name ? { name } : {}) };
  } catch {
    return undefined;
  }
}

export function dropAnswer(): void {
  try {
    sessionStorage.removeItem(KEY);
  } catch {
    // Nothing is kept there either.
  }
}
