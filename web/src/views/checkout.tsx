// From what is to be paid to a payment: wallet, asset, allowance, quotes, signature.

import type { VNode } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';

import { familyOf } from '../../../sdk/typescript/src/caip.js';
import { GatewayError, WalletError } from '../../../sdk/typescript/src/errors.js';
import type { Defaults, Family, PreparedPayment, QuoteBatch } from '../../../sdk/typescript/src/types.js';
import { addressPayment, addressSources, type CheckedAddress, isSendable, openFor } from '../addresses.js';
import { chainName, chainOf } from '../chains.js';
import { amountOn, amountText, servedAsset, shortText, timeText } from '../format.js';
import { gateway, useIsLost } from '../gateway.js';
import type { Source } from '../link.js';
import { limitFrom, type Purchase, quotesOf, requestOf, sourcesFor } from '../order.js';
import { existing, fund as sendFirst, pay, type PayPhase, stillNeeded } from '../pay.js';
import { networkProblem, problemOf, type ProblemText } from '../problems.js';
import { areTransactions, type InPlace, inPlaceOf } from '../signatures.js';
import { canKeep } from '../store.js';
import { t } from '../texts.js';
import { type FoundWallet, type OpenWallet, useWallets } from '../wallets/index.js';
import { AddressForm } from './address.js';
import { Accounts, Busy, Card, Countdown, type Heading, Problem, Rows, Time } from './parts.js';
import { Phone } from './phone.js';
import { Connected, WalletList } from './wallets.js';

/** How often new quotes are asked for by themselves while nobody does anything. */
const ROUNDS_MAX = 10;

interface CheckoutProps {
  purchase: Purchase;
  defaults: Defaults;
  /** A payment was accepted, or is there already; with the address that its money is to be sent to, where that was just checked. */
  onPayment: (paymentId: string, address?: CheckedAddress) => void;
}

/** Where the person is. */
type Step = 'connect' | 'asset' | 'fund' | 'quotes';

export function Checkout({ purchase, defaults, onPayment }: CheckoutProps): VNode {
  const [step, setStep] = useState<Step>('connect');
  const [open, setOpen] = useState<OpenWallet>();
  const [source, setSource] = useState<Source>();
  const [first, setFirst] = useState<PreparedPayment>();
  const [inPlace, setInPlace] = useState<InPlace>('none');
  const [signsTransactions, setSignsTransactions] = useState(false);
  const [batch, setBatch] = useState<QuoteBatch | undefined>(purchase.batch);
  const [busy, setBusy] = useState<string>();
  const [problem, setProblem] = useState<ProblemText & { again?: () => void; isNetwork?: boolean }>();
  const rounds = useRef(0);
  const [isSigned, setSigned] = useState(false);
  const isLost = useIsLost();
  const heading = useRef<HTMLHeadingElement>(null);

  useEffect(() => open?.onAccountChange(() => reset()), [open]);
  const shownStep = useRef(step);
  useEffect(() => {
    // A step that is new is where a reader goes on; the first one leaves the reader at the top of the page.
    if (shownStep.current !== step) heading.current?.focus({ preventScroll: true });
    shownStep.current = step;
  }, [step]);

  function reset(): void {
    setOpen(undefined);
    setSource(undefined);
    setFirst(undefined);
    setInPlace('none');
    setSignsTransactions(false);
    setBatch(purchase.batch);
    setProblem(undefined);
    setStep('connect');
  }

  /** Does something that takes a while; what goes wrong is told, with a way on. */
  async function act(text: string, work: (told: (text: string) => void) => Promise<void>): Promise<void> {
    setProblem(undefined);
    setBusy(text);
    try {
      await work(setBusy);
    } catch (error) {
      setProblem({ ...problemOf(error), again: () => void act(text, work) });
    } finally {
      setBusy(undefined);
    }
  }

  /** Money first: what this account has paid under this key is not paid again, however it was paid. */
  async function isPaid(family: Family, account: string): Promise<boolean> {
    const paid = await gateway.resolve({ requestId: purchase.requestId, account });
    const signed = paid && { id: paid.payment_id, is: await existing(purchase, paid.payment_id) };
    const found = signed ?? (isSendable(family) && !purchase.batch ? await addressPayment(purchase, family, account) : undefined);
    if (!found) return false;
    if (found.is === 'same') onPayment(found.id);
    else setProblem({ text: t('error.taken') });
    return true;
  }

  /** Whether the link has ended meanwhile, which is told. */
  function hasEnded(): boolean {
    if (purchase.expiresAt === undefined || Date.parse(purchase.expiresAt) > Date.now()) return false;
    setProblem({ text: t('link.expired.text', { time: timeText(purchase.expiresAt) }) });
    return true;
  }

  const connect = (found: FoundWallet): Promise<void> =>
    act(t('wallet.asking'), async () => {
      const opened = await found.open();
      const { account, family } = opened.wallet;
      const same = (a: string, b: string): boolean => a === b || (family === 'evm' && a.toLowerCase() === b.toLowerCase());
      if (purchase.payer !== undefined && !same(purchase.payer, account)) {
        setProblem({ text: t('wallet.wrong.account', { account: purchase.payer }) });
        return;
      }
      if (await isPaid(family, account)) return;
      const sources = sourcesFor(purchase, family, defaults);
      if (!sources.length) {
        setProblem({ text: t('wallet.noasset') });
        return;
      }
      setOpen(opened);
      const [only, ...others] = sources;
      if (others.length) {
        setStep('asset');
      } else if (only) {
        await choose(opened, only);
      }
    });

  /** The asset is chosen: network, then allowance, then quotes. */
  async function choose(opened: OpenWallet, chosen: Source): Promise<void> {
    setSource(chosen);
    const chainId = chainOf(chosen.asset_identifier);
    try {
      await opened.wallet.connect(chainId);
    } catch (error) {
      if (!(error instanceof WalletError)) throw error;
      setOpen(opened);
      setProblem({ text: networkProblem(error, chainId), isNetwork: true, again: () => void act(t('wallet.asking'), () => choose(opened, chosen)) });
      return;
    }
    await fund(opened, chosen);
  }

  /** The source with a limit close above the best price; `undefined` where nobody offers one. */
  async function limitedBy(chosen: Source, account: string): Promise<Source | undefined> {
    setBusy(t('quotes.asking'));
    const [best] = quotesOf(await gateway.quote(requestOf(purchase, chosen, account)), purchase);
    return best && { ...chosen, max_source_amount: limitFrom(best.price) };
  }

  /** An address that the money is sent to by whoever has it; `account` is where it goes back to. */
  const openAddress = (chosen: Source, account: string): Promise<void> =>
    act(t('address.asking'), async (told) => {
      if (hasEnded() || (await isPaid(familyOf(chosen.asset_identifier), account))) return;
      const limited = chosen.max_source_amount === undefined ? await limitedBy(chosen, account) : chosen;
      if (!limited) {
        setProblem({ text: t('quotes.none'), again: () => void openAddress(chosen, account) });
        return;
      }
      told(t('address.asking'));
      const opened = await openFor(purchase, limited, account);
      if (opened) onPayment(opened.paymentId, opened.address);
      else setProblem({ text: t('address.used') });
    });

  /** What has to be on chain before a signature counts. Where nobody set a limit, the price is asked for first. */
  async function fund(opened: OpenWallet, chosen: Source): Promise<void> {
    const { account } = opened.wallet;
    let limited = chosen;
    if (chosen.max_source_amount === undefined && !purchase.batch) {
      const found = await limitedBy(chosen, account);
      if (!found) {
        setBatch(undefined);
        setProblem({ text: t('quotes.none'), again: () => void act(t('quotes.asking'), () => fund(opened, chosen)) });
        return;
      }
      limited = found;
      setSource(limited);
    }
    const prepared = await stillNeeded(purchase, limited, defaults, opened.wallet, () => setBusy(t('approve.wait')));
    setInPlace(inPlaceOf(prepared));
    setSignsTransactions(areTransactions(prepared));
    if (prepared.wrap && opened.wallet.family === 'tron') {
      setProblem({ text: t('wrap.tron'), again: () => void act(t('wallet.asking'), () => fund(opened, chosen)) });
      return;
    }
    if (prepared.approval || prepared.wrap) {
      setFirst(prepared);
      setStep('fund');
      return;
    }
    await ask(opened, limited);
  }

  /** Sends what is missing, and goes on once the gateway has seen it. */
  const allow = (opened: OpenWallet, chosen: Source, missing: PreparedPayment): Promise<void> =>
    act(t('wallet.asking'), async (told) => {
      await sendFirst(purchase, chosen, defaults, opened, (what) => told(t(what === 'wrap' ? 'wrap.wait' : 'approve.wait')), missing);
      setFirst(undefined);
      await ask(opened, chosen);
    });

  async function ask(opened: OpenWallet, chosen: Source): Promise<void> {
    setStep('quotes');
    if (purchase.batch) return;
    setBatch(undefined);
    setBusy(t('quotes.asking'));
    setBatch(await gateway.quote(requestOf(purchase, chosen, opened.wallet.account)));
  }

  const askAgain = (): void => {
    if (open && source && !purchase.batch) void act(t('quotes.asking'), () => ask(open, source));
  };

  const take = (opened: OpenWallet, chosen: Source, collected: QuoteBatch, quoteId: string): Promise<void> =>
    act(t('pay.signing'), async (told) => {
      if (hasEnded()) return;
      const texts: Record<PayPhase, string> = { signing: t('pay.signing'), 'signing.two': t('pay.signing.two'), submitting: t('pay.submitting'), approve: t('approve.wait'), wrap: t('wrap.wait') };
      try {
        onPayment(await pay(purchase, chosen, opened, collected, quoteId, defaults, (phase, toSign) => {
          setSigned(phase === 'submitting');
          // A wallet that could not sign typed data is asked for transactions.
          if (toSign) setSignsTransactions(areTransactions(toSign));
          told(texts[phase]);
        }));
      } catch (error) {
        setSigned(false);
        const isOver = error instanceof GatewayError && ['QUOTE_EXPIRED', 'QUOTE_REQUEST_ALREADY_AWARDED', 'INVALID_DEADLINE'].includes(error.code);
        if (!isOver || purchase.batch) throw error;
        setProblem({ text: t('quotes.lapsed') });
        await ask(opened, chosen);
      }
    });

  const most = source?.max_source_amount;
  const sendable = addressSources(purchase, defaults);
  return (
    <article class="checkout">
      <Summary purchase={purchase} defaults={defaults} {...(source ? { source } : {})} />
      {!canKeep() && <p class="muted">{t('error.storage')}</p>}
      {isLost && <Problem title={t('live.off.title')} text={t(isSigned ? 'error.offline.signed' : 'error.offline')} />}
      {problem && (
        <Problem text={problem.text} code={problem.code} href={problem.href}>
          {problem.again && !busy && (
            <div class="actions">
              <button type="button" onClick={problem.again}>
                {problem.isNetwork && source ? t('network.switch.do', { chain: chainName(chainOf(source.asset_identifier)) }) : t('error.retry')}
              </button>
            </div>
          )}
        </Problem>
      )}
      {busy && <Busy text={busy} />}
      {step === 'connect' && !busy && !open && <Connect heading={heading} purchase={purchase} defaults={defaults} onChoose={(found) => void connect(found)} />}
      {step === 'connect' && !open && sendable.length > 0 && (
        <AddressForm sources={sendable} defaults={defaults} isBusy={Boolean(busy)} onOpen={(chosen, account) => void openAddress(chosen, account)} />
      )}
      {open && <Connected open={open} isBusy={Boolean(busy)} onReset={reset} />}
      {open && step === 'asset' && !busy && (
        <Assets heading={heading} sources={sourcesFor(purchase, open.wallet.family, defaults)} defaults={defaults} onChoose={(chosen) => void act(t('wallet.asking'), () => choose(open, chosen))} />
      )}
      {open && source && step === 'fund' && first && (
        <Card title={t('step.approve')} heading={heading}>
          {first.wrap && <p>{t('wrap.text', { symbol: symbolOf(defaults, source), amount: amountText(defaults, source.asset_identifier, first.wrap.amount), coin: first.wrap.coin.split(':').at(-1) ?? '' })}</p>}
          {first.approval && <p>{t('approve.text', { symbol: symbolOf(defaults, source), amount: amountText(defaults, source.asset_identifier, first.approval.amount) })}</p>}
          <button type="button" class="primary wide" disabled={Boolean(busy)} onClick={() => void allow(open, source, first)}>
            {first.approval ? t('approve.do', { amount: amountText(defaults, source.asset_identifier, first.approval.amount) }) : t('wrap.do', { amount: amountText(defaults, source.asset_identifier, first.wrap?.amount ?? '') })}
          </button>
        </Card>
      )}
      {open && source && step === 'quotes' && batch && (
        <Quotes
          heading={heading}
          batch={batch}
          purchase={purchase}
          asset={source.asset_identifier}
          most={most}
          defaults={defaults}
          isBusy={Boolean(busy)}
          canAsk={!purchase.batch}
          signsTransactions={signsTransactions}
          inPlace={inPlace}
          onLapse={() => {
            if (!busy && rounds.current < ROUNDS_MAX) {
              rounds.current += 1;
              askAgain();
            }
          }}
          onAsk={() => {
            rounds.current = 0;
            askAgain();
          }}
          onTake={(quoteId) => void take(open, source, batch, quoteId)}
        />
      )}
    </article>
  );
}

const symbolOf = (defaults: Defaults, { asset_identifier }: Source): string => servedAsset(defaults, asset_identifier)?.symbol ?? asset_identifier;

/** Amount, recipient, limit, deadlines. */
function Summary({ purchase, defaults, source }: { purchase: Purchase; defaults: Defaults; source?: Source }): VNode {
  const shown = (source ? [source] : purchase.sources).filter(({ max_source_amount: most }) => most !== undefined);
  // Of several assets that may arrive each has an amount of its own: a smallest unit of one is not worth one of another.
  const assets = [...new Set(purchase.destinations.map(({ asset_identifier }) => asset_identifier))];
  const text = assets.length > 1 ? amountOn : amountText;
  const amounts = assets.map((asset) => ({ asset, amount: text(defaults, asset, purchase.amount) }));
  const title = amounts.map(({ amount }) => amount).join(` ${t('field.or')} `);
  return (
    <>
      <header>
        <h1 id="title" tabIndex={-1}>{t('request.title', { amount: title })}</h1>
        <p>{t('request.lead')}</p>
      </header>
      <section class="card" aria-labelledby="title">
        {amounts.map(({ asset, amount }, at) => (
          <p class="money" key={asset}>
            {at > 0 && <span class="muted">{t('field.or')} </span>}
            {amount}
            {amounts.length > 1 && <code class="asset">{asset}</code>}
          </p>
        ))}
        <Rows
          rows={[
            { name: t('field.recipient'), value: <Accounts accounts={purchase.destinations} /> },
            purchase.memo !== undefined && { name: t('link.memo'), value: purchase.memo },
            purchase.payer !== undefined && { name: t('field.payer'), value: <code>{purchase.payer}</code> },
            shown.length > 0 && {
              name: t('field.cost'),
              value: shown.map(({ asset_identifier, max_source_amount: most }) => (
                <div key={asset_identifier}>
                  {t('field.cost.most', { amount: amountText(defaults, asset_identifier, most ?? '') })} {t('field.on', { chain: chainName(chainOf(asset_identifier)) })}
                </div>
              )),
            },
            purchase.expiresAt !== undefined && { name: t('link.expires'), value: <Countdown until={purchase.expiresAt} /> },
            purchase.batch && { name: t('pay.countdown'), value: <Countdown until={purchase.batch.fulfillment_deadline} /> },
          ]}
        />
      </section>
    </>
  );
}

function Connect({ heading, purchase, defaults, onChoose }: { heading: Heading; purchase: Purchase; defaults: Defaults; onChoose: (found: FoundWallet) => void }): VNode {
  const wallets = useWallets().filter(({ family }) => sourcesFor(purchase, family, defaults).length > 0);
  return (
    <>
      <Card title={t('step.connect')} heading={heading}>
        <WalletList wallets={wallets} onChoose={onChoose} />
      </Card>
      <Phone isOpen={wallets.length === 0} />
    </>
  );
}

function Assets({ heading, sources, defaults, onChoose }: { heading: Heading; sources: Source[]; defaults: Defaults; onChoose: (source: Source) => void }): VNode {
  return (
    <Card title={t('step.asset')} heading={heading}>
      <ul class="wallets">
        {sources.map((source) => {
          const { asset_identifier: asset, max_source_amount: most } = source;
          const members = { symbol: symbolOf(defaults, source), chain: chainName(chainOf(asset)) };
          return (
            <li key={asset}>
              <button type="button" onClick={() => onChoose(source)}>
                {most === undefined ? t('asset.on', members) : t('asset.capped', { ...members, amount: amountText(defaults, asset, most) })}
              </button>
            </li>
          );
        })}
      </ul>
    </Card>
  );
}

interface QuotesProps {
  heading: Heading;
  batch: QuoteBatch;
  purchase: Purchase;
  asset: string;
  most: string | undefined;
  defaults: Defaults;
  isBusy: boolean;
  canAsk: boolean;
  /** Whether the payer signs transactions, which the gateway sends. */
  signsTransactions: boolean;
  inPlace: InPlace;
  onLapse: () => void;
  onAsk: () => void;
  onTake: (quoteId: string) => void;
}

function Quotes({ heading, batch, purchase, asset, most, defaults, isBusy, canAsk, signsTransactions, inPlace, onLapse, onAsk, onTake }: QuotesProps): VNode {
  const quotes = quotesOf(batch, purchase);
  const [chosen, setChosen] = useState<string>();
  const taken = quotes.find(({ quoteId }) => quoteId === chosen) ?? quotes[0];
  useEffect(() => {
    if (!taken) return undefined;
    const timer = setTimeout(onLapse, Math.max(0, taken.validUntil - Date.now()));
    return () => clearTimeout(timer);
  }, [batch.quote_request_id, taken?.validUntil]);
  if (!taken) {
    const none = most === undefined ? t('quotes.none') : t('quotes.none.cap', { amount: amountText(defaults, asset, most) });
    return (
      <Card title={t('step.quotes')} heading={heading}>
        <p>{batch.status === 'collecting' ? t('quotes.asking') : none}</p>
        {(batch.decline_summary ?? []).length > 0 && (
          <ul>
            {(batch.decline_summary ?? []).map(({ reason, count }) => <li key={reason}>{t('quotes.declined', { count, reason })}</li>)}
          </ul>
        )}
        {canAsk && <button type="button" disabled={isBusy} onClick={onAsk}>{t('quotes.again')}</button>}
      </Card>
    );
  }
  const price = amountText(defaults, asset, taken.price);
  return (
    <Card title={t('step.quotes')} heading={heading}>
      <fieldset disabled={isBusy}>
        <legend>{t('quotes.legend')}</legend>
        {quotes.map(({ quoteId, price: units, settler, to, fulfillBy }, at) => (
          <label class="choice" key={quoteId}>
            <input type="radio" name="quote" value={quoteId} checked={quoteId === taken.quoteId} onChange={() => setChosen(quoteId)} />
            <span>
              <strong>{amountText(defaults, asset, units)}</strong> {at === 0 && <span class="badge">{t('quotes.best')}</span>}
              <br />
              {t('quotes.delivers', { amount: amountOn(defaults, to.asset_identifier, purchase.amount), account: shortText(to.account) })}
              <br />
              <span class="muted">{t('quotes.settler', { name: shortText(settler.replace(/^did:key:/, '')) })}, {t('quotes.by')} <Time at={fulfillBy} /></span>
            </span>
          </label>
        ))}
      </fieldset>
      <p><span class="muted">{t('quotes.valid')}</span> <Countdown until={taken.validUntil} /></p>
      <p class="muted">{t('pay.text')} {signsTransactions && t('pay.tron')}</p>
      {inPlace !== 'none' && <p class="muted">{t(`pay.${inPlace}`, { symbol: servedAsset(defaults, asset)?.symbol ?? asset })}</p>}
      <button type="button" class="primary wide" disabled={isBusy} onClick={() => onTake(taken.quoteId)}>{t('pay.do', { amount: price })}</button>
    </Card>
  );
}
