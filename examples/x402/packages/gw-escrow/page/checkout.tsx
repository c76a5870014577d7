// From what is bought to a signature: wallet, what to pay with, allowance, price.

import type { ComponentChildren, VNode } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';

import { WalletError } from '../../../../../sdk/typescript/src/errors.js';
import { spendOf } from '../../../../../sdk/typescript/src/spend.js';
import type { Defaults, PreparedPayment } from '../../../../../sdk/typescript/src/types.js';
import { chainName } from '../../../../../web/src/chains.js';
import { useNow } from '../../../../../web/src/clock.js';
import { amountText, servedAsset, shortText, timeText } from '../../../../../web/src/format.js';
import { type InPlace, inPlaceOf } from '../../../../../web/src/signatures.js';
import { Busy, Problem, Rows } from '../../../../../web/src/views/parts.js';
import { type FoundWallet, type OpenWallet, useWallets } from '../../../../../web/src/wallets/index.js';
import type { PaymentRequired } from '../src/x402.js';
import { PaidElsewhere, problemOf, type ProblemText, ShopAway } from './errors.js';
import { gateway } from './gateway.js';
import { canKeep, keep, kept, type Kept, LOCK } from './kept.js';
import { askedNow, handed, isOffered, type Offer, offersOf } from './offer.js';
import { requestFor, signed } from './sign.js';
import { say } from './texts.js';

interface CheckoutProps {
  required: PaymentRequired;
  defaults: Defaults;
  onRequired: (required: PaymentRequired) => void;
  onSigned: (payment: Kept) => void;
}

type Step = 'connect' | 'choose' | 'allow' | 'pay';

const familyOf = ({ wanted }: Offer): string => (wanted.network.startsWith('solana:') ? 'solana' : 'evm');

/** The most that is paid, and where. */
export const mostText = (defaults: Defaults, { wanted }: Offer): { amount: string; chain: string } => ({
  amount: amountText(defaults, wanted.asset, wanted.amount),
  chain: chainName(wanted.network),
});

export function Checkout({ required, defaults, onRequired, onSigned }: CheckoutProps): VNode {
  const { offers } = offersOf(required);
  const [step, setStep] = useState<Step>('connect');
  const [open, setOpen] = useState<OpenWallet>();
  const [offer, setOffer] = useState<Offer>();
  const [missing, setMissing] = useState<PreparedPayment>();
  const [inPlace, setInPlace] = useState<InPlace>('none');
  const [busy, setBusy] = useState<string>();
  const [problem, setProblem] = useState<ProblemText & { title?: string; again?: () => void; label?: string }>();
  const heading = useRef<HTMLHeadingElement>(null);

  useEffect(() => open?.onAccountChange(reset), [open]);
  const shown = useRef(step);
  useEffect(() => {
    if (shown.current !== step) heading.current?.focus({ preventScroll: true });
    shown.current = step;
  }, [step]);

  function reset(): void {
    setOpen(undefined);
    setOffer(undefined);
    setMissing(undefined);
    setInPlace('none');
    setProblem(undefined);
    setStep('connect');
  }

  /** Does something that takes a while; what goes wrong is told, with a way on. */
  async function act(text: string, work: () => Promise<void>): Promise<void> {
    setProblem(undefined);
    setBusy(text);
    try {
      await work();
    } catch (error) {
      setProblem({ ...problemOf(error), again: () => void act(text, work) });
    } finally {
      setBusy(undefined);
    }
  }

  const connect = (found: FoundWallet): Promise<void> =>
    act(say('asking'), async () => {
      const opened = await found.open();
      setOpen(opened);
      const fitting = offers.filter((it) => familyOf(it) === found.family);
      const [only, ...others] = fitting;
      if (others.length) setStep('choose');
      else if (only) await choose(opened, only);
    });

  /** Chain, then allowance, then price. */
  async function choose(opened: OpenWallet, chosen: Offer): Promise<void> {
    setOffer(chosen);
    const chain = chainName(chosen.wanted.network);
    try {
      await opened.wallet.connect(chosen.wanted.network);
    } catch (error) {
      if (!(error instanceof WalletError)) throw error;
      const text = error.reason === 'rejected' ? say('network.refused', { chain }) : say('network.unknown', { chain });
      setProblem({ text, label: say('network.do', { chain }), again: () => void act(say('asking'), () => choose(opened, chosen)) });
      return;
    }
    setBusy(say('checking'));
    const prepared = await gateway.prepare(requestFor(chosen, opened.wallet.account));
    const isMissing = prepared.approval !== undefined || prepared.wrap !== undefined;
    setMissing(isMissing ? prepared : undefined);
    setInPlace(inPlaceOf(prepared));
    setStep(isMissing ? 'allow' : 'pay');
  }

  /** Sends the payer's own transactions that are missing, and waits until they had their effect. */
  const allow = (opened: OpenWallet, chosen: Offer): Promise<void> =>
    act(say('asking'), async () => {
      const request = requestFor(chosen, opened.wallet.account);
      const spend = spendOf(request, await gateway.paymentDefaults(request), { lockSecondsMax: handed.maxLockSeconds });
      await opened.wallet.connect(spend.chainId);
      opened.lookAt?.(() => gateway.prepare(requestFor(chosen, opened.wallet.account)));
      await opened.wallet.fund(spend, {
        wrap: spend.wraps,
        allowance: inPlace === 'none' ? spend.cap : 0n,
        onStep: ({ step: stage, what }) => setBusy(stage === 'sent' ? say(what === 'wrap' ? 'wrap.wait' : 'allow.wait') : say('asking')),
      });
      setMissing(undefined);
      setStep('pay');
    });

  const pay = (opened: OpenWallet, chosen: Offer): Promise<void> =>
    act(say(inPlace === 'allowance' ? 'pay.signing.two' : 'pay.signing'), async () => {
      // What is shown has to be what the shop takes now: what was signed for an older price would be refused.
      const now = await askedNow().catch((error: unknown) => {
        throw new ShopAway(String(error));
      });
      if (!isOffered(chosen.requirement, now)) {
        onRequired(now);
        reset();
        setProblem({ title: say('changed.title'), text: say('changed') });
        return;
      }
      onSigned(await alone(() => signed(chosen, now, opened.wallet, gateway, handed)));
    });

  const sourceText = offer && mostText(defaults, offer);
  const symbol = offer && (servedAsset(defaults, offer.wanted.asset)?.symbol ?? offer.wanted.asset);
  if (!canKeep()) return <Problem text={say('storage')} />;
  return (
    <>
      {problem && (
        <Problem title={problem.title} text={problem.text} code={problem.code}>
          {problem.again && !busy && (
            <div class="actions">
              <button type="button" onClick={problem.again}>
                {problem.label ?? say('error.retry')}
              </button>
            </div>
          )}
        </Problem>
      )}
      {busy && <Busy text={busy} />}
      {open && (
        <p class="connected">
          <span class="muted">{say('connected')}</span> {open.found.name} <code>{shortText(open.wallet.account)}</code>{' '}
          {!busy && (
            <button type="button" class="plain" onClick={reset}>
              {say('connected.change')}
            </button>
          )}
        </p>
      )}
      {step === 'connect' && !open && !busy && <Connect heading={heading} offers={offers} onChoose={(found) => void connect(found)} />}
      {step === 'choose' && open && !busy && (
        <Card title={say('choose')} heading={heading}>
          <ul class="wallets">
            {offers
              .filter((it) => familyOf(it) === open.found.family)
              .map((it) => (
                <li key={`${it.wanted.asset} ${it.wanted.amount}`}>
                  <button type="button" onClick={() => void act(say('asking'), () => choose(open, it))}>
                    {say('choose.do', mostText(defaults, it))}
                  </button>
                </li>
              ))}
          </ul>
        </Card>
      )}
      {step === 'allow' && open && offer && missing && (
        <Card title={say('allow')} heading={heading}>
          {missing.wrap && (
            <p>{say('wrap.text', { symbol: symbol ?? '', amount: amountText(defaults, offer.wanted.asset, missing.wrap.amount) })}</p>
          )}
          {missing.approval && <p>{say('allow.text', { symbol: symbol ?? '', amount: sourceText?.amount ?? '' })}</p>}
          <button type="button" class="primary wide" disabled={Boolean(busy)} onClick={() => void allow(open, offer)}>
            {missing.approval
              ? say('allow.do', { amount: sourceText?.amount ?? '' })
              : say('wrap.do', { amount: amountText(defaults, offer.wanted.asset, missing.wrap?.amount ?? '') })}
          </button>
        </Card>
      )}
      {step === 'pay' && open && offer && (
        <Card title={say('pay')} heading={heading}>
          <PayText defaults={defaults} offer={offer} />
          {inPlace !== 'none' && <p>{say(`pay.${inPlace}`, { symbol: symbol ?? '' })}</p>}
          <button type="button" class="primary wide" disabled={Boolean(busy)} onClick={() => void pay(open, offer)}>
            {say('pay.do', { amount: sourceText?.amount ?? '' })}
          </button>
        </Card>
      )}
    </>
  );
}

/** Signs while no other tab does, and keeps what was signed before anybody else is told of it. */
async function alone(work: () => Promise<Kept>): Promise<Kept> {
  const once = async (): Promise<Kept> => {
    const other = kept();
    if (other) return other;
    const payment = await work();
    if (kept()) throw new PaidElsewhere();
    if (!keep(payment)) throw new Error(say('storage'));
    return payment;
  };
  // Pages that came without TLS have no locks; what is kept is looked at once more before anything is sent.
  const locks = (navigator as { locks?: LockManager }).locks;
  if (!locks) return once();
  return locks.request(LOCK, { ifAvailable: true }, (lock) => {
    if (!lock) throw new PaidElsewhere();
    return once();
  });
}

/** What a signature of this moment means. */
function PayText({ defaults, offer }: { defaults: Defaults; offer: Offer }): VNode {
  const until = useNow() + lockedSeconds(defaults, offer) * 1000;
  return <p>{say('pay.text', { time: timeText(new Date(until).toISOString()) })}</p>;
}

/** The longest until money that was not used is on its way back. */
function lockedSeconds(defaults: Defaults, { wanted }: Offer): number {
  const delays = [wanted.network, wanted.destination.network].map((chain) => defaults.chains[chain]?.refund_delay_seconds ?? 0);
  return wanted.fulfillmentSeconds + Math.max(...delays);
}

type Heading = { current: HTMLHeadingElement | null };

function Card({ title, heading, children }: { title: string; heading: Heading; children: ComponentChildren }): VNode {
  return (
    <section class="card">
      <h2 ref={heading} tabIndex={-1}>
        {title}
      </h2>
      {children}
    </section>
  );
}

function Connect({ heading, offers, onChoose }: { heading: Heading; offers: Offer[]; onChoose: (found: FoundWallet) => void }): VNode {
  const families = offers.map(familyOf);
  const wallets = useWallets().filter(({ family }) => families.includes(family));
  return (
    <Card title={say('connect')} heading={heading}>
      {wallets.length === 0 && (
        <p>
          {say('connect.none')} {say('connect.none.text')}
        </p>
      )}
      <ul class="wallets">
        {wallets.map((found) => (
          <li key={found.id}>
            <button type="button" onClick={() => onChoose(found)}>
              {found.icon && <img src={found.icon} alt="" />}
              {say('connect.do', { name: found.name })}
            </button>
          </li>
        ))}
      </ul>
    </Card>
  );
}

/** What is bought, what it costs, and who gets it. */
export function Summary({ required, defaults }: { required: PaymentRequired; defaults: Defaults }): VNode | null {
  const { offers } = offersOf(required);
  if (!offers.length) return null;
  const received = ({ wanted }: Offer): string => amountText(defaults, wanted.destination.asset, wanted.fulfillmentAmount);
  const got = (offer: Offer): string =>
    say('gets.text', { amount: received(offer), chain: chainName(offer.wanted.destination.network) });
  return (
    <section class="card" aria-labelledby="title">
      <p class="money">{distinct(offers.map(received)).join(' / ')}</p>
      <Rows
        rows={[
          { name: say('bought'), value: <code>{location.pathname + location.search}</code> },
          { name: say('most'), value: lines(offers.map((offer) => say('most.text', mostText(defaults, offer)))) },
          { name: say('gets'), value: lines(offers.map(got)) },
          { name: say('to'), value: <code>{lines(offers.map(({ wanted }) => wanted.destination.address))}</code> },
        ]}
      />
    </section>
  );
}

const distinct = (texts: string[]): string[] => [...new Set(texts)];
const lines = (texts: string[]): VNode[] => distinct(texts).map((text) => <div key={text}>{text}</div>);
