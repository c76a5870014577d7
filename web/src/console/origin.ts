// Who answers at the address of this page. A gateway that restarts leaves its port for a moment, and another program may have it
// then. So before the token is sent to somebody who was not heard for a while, what the address answers without it is looked at.
//
// It tells a program that came there by chance. Who imitates the console is told by TLS alone.

/** How long whoever was heard is taken to be there. Every view asks more often than that. */
const HEARD_MS = 15_000;
const ANSWER_MS = 10_000;
const PAGE_CHARS_MAX = 64 * 1024;

/** The page that is open, as the address gave it at first. */
let known: string | undefined;
let heardAt: number | undefined;
let looking: Promise<boolean> | undefined;

/** That the console answered. */
export function heard(): void {
  heardAt = Date.now();
}

/** That it did not, or somebody else did. */
export function lost(): void {
  heardAt = undefined;
}

/** Whether it was heard so lately that nobody else can well be there. A clock that was set back says nothing. */
export function isHeard(): boolean {
  const ms = heardAt === undefined ? Number.NaN : Date.now() - heardAt;
  return ms >= 0 && ms < HEARD_MS;
}

/** Whether the address answers with the page that is open; asked once for all who want to know. Throws where nobody answers. */
export function isSamePage(): Promise<boolean> {
  looking ??= look().finally(() => {
    looking = undefined;
  });
  return looking;
}

async function look(): Promise<boolean> {
  const response = await fetch('/', {
    signal: AbortSignal.timeout(ANSWER_MS),
    cache: 'no-store',
    credentials: 'omit',
    redirect: 'error',
    referrerPolicy: 'no-referrer',
  });
  const page = (await response.text()).slice(0, PAGE_CHARS_MAX);
  // A proxy says so where nobody is behind it.
  if (response.status >= 500) throw new Error(`${response.status} ${response.statusText}`);
  if (!response.ok) return false;
  known ??= page;
  if (page !== known) return false;
  heard();
  return true;
}
