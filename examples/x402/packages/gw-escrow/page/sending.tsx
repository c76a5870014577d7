// A payment that was signed: it is sent until it is known what became of it.

import type { VNode } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';

import type { TimelineEntry } from '../../../../../sdk/typescript/src/types.js';
import { useNow } from '../../../../../web/src/clock.js';
import { meaningOf, stagesOf, statusOf } from '../../../../../web/src/progress.js';
import { maybe } from '../../../../../web/src/texts.js';
import { Busy, Countdown, Problem } from '../../../../../web/src/views/parts.js';
import { paymentStatus } from '../src/gateway.js';
import type { PaymentRequired } from '../src/x402.js';
import { dropAnswer, keptAnswer } from './answer.js';
import { type Bought, inPlace, type Outcome, send, show } from './deliver.js';
import { gateway } from './gateway.js';
import { forget, keep, kept, type Kept, lapsesAt } from './kept.js';
import { gatewayUrl } from './offer.js';
import { say } from './texts.js';

const PAUSE_MS = 1000;
const PAUSE_MS_MAX = 10_000;
const WATCH_MS = 1500;

interface SendingProps {
  payment: Kept;
  /** The shop reads no cookies: what was bought is shown where this page stands. */
  isPlain: boolean;
  /** The payment is over and nothing was taken by it, or it was used: another one may be made. */
  onFree: (required?: PaymentRequired) => void;
}

type Ended = Exclude<Outcome, { kind: 'paid' | 'again' }>;

export function Sending({ payment, isPlain, onFree }: SendingProps): VNode {
  const [why, setWhy] = useState<'pending' | 'busy' | 'away'>();
  const [ended, setEnded] = useState<Ended>();
  const [isPaid, setPaid] = useState(payment.paid === true);
  const [bought, setBought] = useState<Bought>();
  const [tries, setTries] = useState(0);
  // What failed is watched until the money is back.
  const entries = useTimeline(payment.paymentId, !bought && (!ended || ended.kind === 'failed'));
  const heading = useRef<HTMLHeadingElement>(null);

  useEffect(() => heading.current?.focus({ preventScroll: true }), [ended?.kind, Boolean(bought)]);
  useEffect(() => {
    let isOver = false;
    const work = async (): Promise<void> => {
      for (let pause = PAUSE_MS; !isOver; pause = Math.min(pause * 2, PAUSE_MS_MAX)) {
        const outcome = await send(payment);
        if (isOver) return;
        if (outcome.kind === 'paid') {
          setPaid(true);
          keep({ ...payment, paid: true });
          try {
            setBought(await show(payment, outcome.response, isPlain));
          } catch (error) {
            const status = await paymentStatus(gatewayUrl, payment.paymentId).catch(() => say('status.unread'));
            setEnded({ kind: 'disputed', reason: String(error), status });
          }
          return;
        }
        if (outcome.kind !== 'again') {
          // The load that should have shown it did not.
          const answer = keptAnswer(payment.paymentId);
          if (answer) setBought(await inPlace(answer));
          else setEnded(outcome);
          return;
        }
        setWhy(outcome.why);
        if (outcome.why !== 'away') pause = PAUSE_MS;
        await new Promise((resolve) => setTimeout(resolve, pause));
      }
    };
    void work();
    return () => {
      isOver = true;
    };
  }, [payment.paymentId, tries]);

  function free(required?: PaymentRequired): void {
    forget(payment.paymentId);
    dropAnswer();
    onFree(required);
  }

  const resend = (): void => {
    setEnded(undefined);
    setTries(tries + 1);
  };
  if (bought) {
    return (
      <section class="card">
        <h2 ref={heading} tabIndex={-1}>
          {say('paid.title')}
        </h2>
        <p>{say('paid.file', { type: bought.type })}</p>
        <a class="button" href={bought.href} download={bought.name}>
          {say('paid.save')}
        </a>
      </section>
    );
  }
  if (ended) return <End ended={ended} payment={payment} entries={entries} heading={heading} onResend={resend} onFree={free} />;
  return (
    <section class="card">
      <h2 ref={heading} tabIndex={-1}>
        {say(isPaid ? 'paid.title' : 'sent.title')}
      </h2>
      {isPaid ? (
        <Busy text={say('paid.opening')} />
      ) : (
        <>
          <p>{say('sent.text')}</p>
          <Busy text={say(`sent.${why ?? 'pending'}`)} />
        </>
      )}
      <Stages entries={entries} />
      <Follow payment={payment} />
    </section>
  );
}

/** What the gateway says of the payment, while it is watched. */
function useTimeline(paymentId: string, isWatched: boolean): TimelineEntry[] {
  const [entries, setEntries] = useState<TimelineEntry[]>([]);
  useEffect(() => {
    let isOver = false;
    const work = async (): Promise<void> => {
      while (!isOver) {
        // There is none before the shop has handed it in, and the page goes on without it.
        const read = await gateway.timeline(paymentId, { retries: 0 } as object).catch(() => undefined);
        if (read && !isOver) setEntries(read.entries);
        if (!isWatched) return;
        await new Promise((resolve) => setTimeout(resolve, WATCH_MS));
      }
    };
    void work();
    return () => {
      isOver = true;
    };
  }, [paymentId, isWatched]);
  return entries;
}

function Stages({ entries }: { entries: TimelineEntry[] }): VNode | null {
  if (!entries.length) return null;
  return (
    <ol class="stages">
      {stagesOf(entries).map(({ stage, state }) => (
        <li key={stage} class={state}>
          <span class="stage">{maybe(`stage.${stage}`)}</span> <span class="state">{maybe(`state.${state}`)}</span>
        </li>
      ))}
    </ol>
  );
}

const Follow = ({ payment }: { payment: Kept }): VNode => (
  <p class="follow">
    <a href={`${gatewayUrl}/pay/${payment.paymentId}`} target="_blank" rel="noreferrer noopener">
      {say('sent.link')}
    </a>
  </p>
);

interface EndProps {
  ended: Ended;
  payment: Kept;
  entries: TimelineEntry[];
  heading: { current: HTMLHeadingElement | null };
  onResend: () => void;
  onFree: (required?: PaymentRequired) => void;
}

function End({ ended, payment, entries, heading, onResend, onFree }: EndProps): VNode {
  const card = (title: string, ...children: (VNode | null)[]): VNode => (
    <section class="card">
      <h2 ref={heading} tabIndex={-1}>
        {title}
      </h2>
      {children}
    </section>
  );
  const again = (
    <button type="button" onClick={onResend}>
      {say('refused.resend')}
    </button>
  );
  switch (ended.kind) {
    case 'failed':
      return card(
        say('failed.title'),
        <p role="status">{say(failureText(entries))}</p>,
        <p class="muted">{say('failed.reason', { reason: ended.reason })}</p>,
        <Stages entries={entries} />,
        <Follow payment={payment} />,
        <div class="actions">
          <button type="button" class="primary" onClick={() => onFree()}>
            {say('failed.again')}
          </button>
        </div>,
      );
    case 'used':
      return card(
        say('used.title'),
        <p>{say('used.text', { status: ended.status })}</p>,
        <Follow payment={payment} />,
        <div class="actions">
          <button type="button" class="primary" onClick={() => onFree()}>
            {say('used.do')}
          </button>
        </div>,
      );
    case 'disputed':
      return card(
        say('disputed.title'),
        <Problem text={say('disputed.text', { status: ended.status, reason: ended.reason })} />,
        <Follow payment={payment} />,
        <div class="actions">{again}</div>,
      );
    case 'broken':
      return card(
        say('disputed.title'),
        <Problem text={say('broken.text', { code: ended.code, status: ended.status })} />,
        <Follow payment={payment} />,
        <div class="actions">{again}</div>,
      );
    case 'refused':
      return card(
        say('refused.title'),
        <Problem text={ended.isChanged ? say('refused.price') : say('refused.text', { reason: ended.reason })} />,
        <Lapse payment={payment} onResend={onResend} onLapsed={() => onFree(ended.required)} />,
      );
  }
}

const failureText = (entries: TimelineEntry[]) =>
  statusOf(entries) !== 'failed' || meaningOf(entries) === 'status.failed.text'
    ? 'failed.back'
    : meaningOf(entries) === 'status.refunded.text'
      ? 'failed.returned'
      : 'failed.untouched';

/** Another payment is made only once nobody can take the one that was refused. */
function Lapse({ payment, onResend, onLapsed }: { payment: Kept; onResend: () => void; onLapsed: () => void }): VNode {
  const now = useNow();
  const until = lapsesAt(payment);
  const isOver = now > until;
  const anew = async (): Promise<void> => {
    const status = await paymentStatus(gatewayUrl, payment.paymentId).catch(() => undefined);
    if (status === 'unknown' || status === 'failed') onLapsed();
    else if (kept()) onResend();
  };
  return (
    <>
      {!isOver && Number.isFinite(until) && (
        <p>
          {say('refused.wait')} <Countdown until={until} />. {say('refused.wait.text')}
        </p>
      )}
      <div class="actions">
        {isOver ? (
          <button type="button" class="primary" onClick={() => void anew()}>
            {say('failed.again')}
          </button>
        ) : (
          <button type="button" onClick={onResend}>
            {say('refused.resend')}
          </button>
        )}
      </div>
    </>
  );
}
