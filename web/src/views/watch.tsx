// Follows a payment to its end.

import type { VNode } from 'preact';
import { useEffect, useState } from 'preact/hooks';

import type { Defaults, PaymentStatusRead, TimelineEntry } from '../../../sdk/typescript/src/types.js';
import type { CheckedAddress } from '../addresses.js';
import { gateway, useIsLost } from '../gateway.js';
import { isByAddress, statusOf } from '../progress.js';
import { t } from '../texts.js';
import { Busy, Problem } from './parts.js';
import { PaymentView } from './payment.js';
import { problemOf, type ProblemText } from '../problems.js';

/** How often confirmations are counted while there is something to count. */
const COUNT_MS = 4000;

interface WatchProps {
  paymentId: string;
  defaults: Defaults | undefined;
  /** What is known already. */
  entries: readonly TimelineEntry[];
  /** Where its money is to be sent, where this page has just checked that. */
  address?: CheckedAddress | undefined;
}

export function Watch({ paymentId, defaults, entries: known, address }: WatchProps): VNode {
  const [entries, setEntries] = useState(known);
  const [status, setStatus] = useState<PaymentStatusRead>();
  const [problem, setProblem] = useState<ProblemText>();
  const isLost = useIsLost();
  useEffect(() => {
    const over = new AbortController();
    void follow(paymentId, known, over.signal, setEntries).catch((error: unknown) => {
      if (!over.signal.aborted) setProblem(problemOf(error));
    });
    return () => over.abort();
  }, [paymentId]);
  const state = statusOf(entries);
  const isFinal = state === 'completed' || state === 'failed';
  const byAddress = isByAddress(entries);
  useEffect(() => {
    // Of a deposit address the status alone tells, also afterwards.
    if (!entries.length || (isFinal && !byAddress)) return;
    const over = new AbortController();
    const count = (): void => {
      gateway.status(paymentId, { retries: 0, signal: over.signal }).then(setStatus, () => undefined);
    };
    if (byAddress) count();
    const timer = isFinal ? undefined : setInterval(count, COUNT_MS);
    return () => {
      clearInterval(timer);
      over.abort();
    };
  }, [paymentId, isFinal, byAddress, entries.length > 0]);
  useEffect(() => {
    if (entries.length) document.title = `${t(`status.${state}.title`)} · ${t('app.name')}`;
  }, [state, entries.length > 0]);
  if (problem) return <Problem {...problem} />;
  if (!entries.length) return isLost ? <Problem title={t('live.off.title')} text={t('error.offline')} /> : <Busy text={t('status.pending.text')} />;
  return <PaymentView paymentId={paymentId} entries={entries} defaults={defaults} status={status} isLost={isLost} address={address} />;
}

async function follow(
  paymentId: string,
  known: readonly TimelineEntry[],
  signal: AbortSignal,
  told: (entries: readonly TimelineEntry[]) => void,
): Promise<void> {
  const entries = [...known];
  const last = known.at(-1)?.id;
  let isDue = false;
  for await (const entry of gateway.watch(paymentId, { signal, ...(last === undefined ? {} : { lastEventId: last }) })) {
    entries.push(entry);
    // What comes at once is shown at once.
    if (!isDue) {
      isDue = true;
      queueMicrotask(() => {
        isDue = false;
        if (!signal.aborted) told([...entries]);
      });
    }
  }
}
