// The page: something to pay, then the payment.

import type { VNode } from 'preact';
import { useEffect, useState } from 'preact/hooks';

import type { Defaults, TimelineEntry } from '../../../sdk/typescript/src/types.js';
import type { CheckedAddress } from '../addresses.js';
import { useIsLost } from '../gateway.js';
import type { Purchase } from '../order.js';
import { resume } from '../pay.js';
import type { ProblemText } from '../problems.js';
import { type Kept, onKept } from '../store.js';
import { t } from '../texts.js';
import { Checkout } from './checkout.js';
import { Busy, Problem } from './parts.js';
import { Watch } from './watch.js';

/** What the page begins with. */
export type Begin =
  | { kind: 'payment'; id: string; entries: readonly TimelineEntry[] }
  | { kind: 'purchase'; purchase: Purchase; kept: Kept | undefined };

/** How long until the gateway is asked once more what became of a payment that was signed. */
const AGAIN_MS = 3000;

export function App({ defaults, begin }: { defaults: Defaults; begin: Begin }): VNode {
  const [paymentId, setPaymentId] = useState(begin.kind === 'payment' ? begin.id : undefined);
  const [signed, setSigned] = useState(begin.kind === 'purchase' ? begin.kept : undefined);
  const subject = begin.kind === 'purchase' ? begin.purchase.subject : undefined;
  useEffect(() => {
    // What another tab has signed is this one's payment, too.
    if (subject === undefined || paymentId !== undefined) return undefined;
    return onKept(subject, setSigned);
  }, [subject, paymentId]);
  const [problem, setProblem] = useState<ProblemText>();
  const [address, setAddress] = useState<CheckedAddress>();
  const onPayment = (id: string, checked?: CheckedAddress): void => {
    // From here on the address is the payment's: loaded again it shows the same.
    history.replaceState(null, '', `/pay/${id}`);
    setProblem(undefined);
    setAddress(checked);
    setPaymentId(id);
  };
  if (paymentId !== undefined) {
    return <Watch paymentId={paymentId} defaults={defaults} entries={begin.kind === 'payment' ? begin.entries : []} address={address} />;
  }
  if (begin.kind === 'payment') return <Busy text={t('status.pending.text')} />;
  if (signed) {
    return (
      <Resuming
        purchase={begin.purchase}
        payment={signed}
        onPayment={onPayment}
        onOver={(problem) => {
          setProblem(problem);
          setSigned(undefined);
        }}
      />
    );
  }
  return (
    <>
      {problem && <Problem {...problem} />}
      <Checkout purchase={begin.purchase} defaults={defaults} onPayment={onPayment} />
    </>
  );
}

interface ResumingProps {
  purchase: Purchase;
  payment: Kept;
  onPayment: (id: string) => void;
  onOver: (problem: ProblemText) => void;
}

/** A payment that was signed before the page was loaded: it goes on, or did not come to be. */
function Resuming({ purchase, payment, onPayment, onOver }: ResumingProps): VNode {
  const isLost = useIsLost();
  useEffect(() => {
    let isOver = false;
    let timer: ReturnType<typeof setTimeout>;
    const ask = async (): Promise<void> => {
      try {
        const id = await resume(purchase, payment);
        if (isOver) return;
        if (id === undefined) onOver({ text: t(payment.accepted ? 'resume.unpaid' : 'resume.refused') });
        else onPayment(id);
      } catch {
        // Nothing is known, so the same is asked again.
        if (!isOver) timer = setTimeout(() => void ask(), AGAIN_MS);
      }
    };
    void ask();
    return () => {
      isOver = true;
      clearTimeout(timer);
    };
  }, [purchase.subject, payment.paymentId]);
  return (
    <>
      <Busy text={t('pay.resuming')} />
      {isLost && <Problem title={t('live.off.title')} text={t('error.offline.signed')} />}
    </>
  );
}
