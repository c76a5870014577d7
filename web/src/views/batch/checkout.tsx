// From a list to a signature: wallet, allowance, and what is signed.

import type { VNode } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';

import { WalletError } from '../../../../sdk/typescript/src/errors.js';
import { type Batch, PAYMENT_BATCHES } from '../../../../sdk/typescript/src/evm/batches.js';
import type { Defaults } from '../../../../sdk/typescript/src/types.js';
import { fingerprintOf, type ListedPayment } from '../../batch/list.js';
import { type Checked, checked, type Earlier, fund, isShort, paidBefore, type Plan, sign } from '../../batch/pay.js';
import { type KeptBatch, keptBatches } from '../../batch/store.js';
import { chainName, chainOf } from '../../chains.js';
import { amountText, servedAsset, timeText } from '../../format.js';
import { useIsLost } from '../../gateway.js';
import { networkProblem } from '../../problems.js';
import { canKeep } from '../../store.js';
import { t } from '../../texts.js';
import type { FoundWallet, OpenWallet } from '../../wallets/index.js';
import { useAct } from '../act.js';
import { Busy, Card, Problem, Rows, Time } from '../parts.js';
import { Connected, EvmWallets, useOpenWallet } from '../wallets.js';
import { PaymentTable, Sums } from './table.js';

/** Characters that the browser keeps of a payment, at most. */
const KEPT_CHARS = 1500;
/** Of an account that was not asked for nothing is known. */
const NONE: ReadonlyMap<string, Earlier> = new Map();

/** What the gateway knows of the list under an account. */
interface Looked {
  account: string;
  /** The payments whose references are used up. */
  known: ReadonlyMap<string, Earlier>;
  /** The message for the others. */
  made?: Checked;
}

interface CheckoutProps {
  payments: readonly ListedPayment[];
  source: string;
  defaults: Defaults;
  onBack: () => void;
  onSigned: (batch: KeptBatch) => void;
}

export function Checkout({ payments, source, defaults, onBack, onSigned }: CheckoutProps): VNode {
  const [open, setOpen, isStill] = useOpenWallet();
  const { busy, problem, setProblem, act } = useAct('batch.differs');
  const isLost = useIsLost();
  const [looked, setLooked] = useState<Looked>();
  // What was looked up for one account says nothing of another one.
  const { known, made } = looked && looked.account === open?.wallet.account ? looked : { known: NONE };
  const [signing, setSigning] = useState<Batch>();
  const heading = useRef<HTMLHeadingElement>(null);
  const title = useRef<HTMLHeadingElement>(null);
  useEffect(() => title.current?.focus(), []);
  const step = !open || !made ? 'connect' : isShort(made.prepared) ? 'approve' : 'sign';
  useEffect(() => {
    if (step !== 'connect') heading.current?.focus({ preventScroll: true });
  }, [step]);
  const [isKept] = useState(() => canKeep(payments.length * KEPT_CHARS));

  const missing = payments.filter(({ requestId }) => !known.has(requestId));
  /** The latest list like this one, or like what is left of it. */
  const signedBefore = (): KeptBatch | undefined => {
    const alike = [payments, missing].map(fingerprintOf);
    return keptBatches().find(({ fingerprint }) => alike.includes(fingerprint));
  };
  const [same, setSame] = useState(signedBefore);
  useEffect(() => setSame(signedBefore()), [looked]);
  const planOf = ({ wallet }: OpenWallet, before = known): Plan => {
    const open = payments.filter(({ requestId }) => !before.has(requestId));
    return { payments: open, source, account: wallet.account };
  };

  /** Changes the wallet to the chain; what it answers is told. */
  async function onChain({ wallet }: OpenWallet): Promise<boolean> {
    try {
      await wallet.connect(chainOf(source));
      return true;
    } catch (error) {
      if (!(error instanceof WalletError)) throw error;
      setProblem({ text: networkProblem(error, chainOf(source)) });
      return false;
    }
  }

  const connect = (found: FoundWallet): Promise<void> =>
    act(t('wallet.asking'), async (told) => {
      setLooked(undefined);
      const opened = open?.found.id === found.id && isStill(open) ? open : await found.open();
      setOpen(opened);
      if (!(await onChain(opened))) return;
      told(t('batch.looking'));
      const { account } = opened.wallet;
      const before = await paidBefore(payments, account);
      setLooked({ account, known: before });
      const plan = planOf(opened, before);
      if (plan.payments.length) setLooked({ account, known: before, made: await checked(plan, opened.wallet) });
    });

  const allow = (opened: OpenWallet, of: Checked): Promise<void> =>
    act(t('wallet.asking'), async (told) => {
      if (!isStill(opened)) return;
      const now = await fund(planOf(opened), opened.wallet, of, (what) => told(t(what === 'wrap' ? 'wrap.wait' : 'approve.wait')));
      setLooked({ account: opened.wallet.account, known, made: now });
      if (isShort(now.prepared)) setProblem({ text: t('batch.short') });
    });

  const pay = (opened: OpenWallet): Promise<void> =>
    act(t('batch.preparing'), async (told) => {
      if (!isStill(opened)) return;
      try {
        const isTold = (): boolean => signedBefore()?.root === same?.root;
        const done = await sign(planOf(opened), opened.wallet, isTold, (shown) => {
          setSigning(shown);
          told(t('pay.signing'));
        });
        if ('signed' in done) onSigned(done.signed);
        else if ('short' in done) setLooked({ account: opened.wallet.account, known, made: done.short });
        // Another tab has signed for the list since it was shown here: that is told first.
        else setSame(signedBefore());
      } finally {
        setSigning(undefined);
      }
    });

  const symbol = servedAsset(defaults, source)?.symbol ?? source;
  return (
    <article class="checkout">
      <header>
        <h1 id="title" ref={title} tabIndex={-1}>{t('batch.check')}</h1>
        <p>{t('batch.check.text')}</p>
      </header>
      <section class="card" aria-labelledby="title">
        <Sums payments={missing} defaults={defaults} source={source} />
        <PaymentTable
          payments={payments}
          defaults={defaults}
          source={source}
          last={{
            title: t('batch.note'),
            of: ({ requestId, like }) => {
              const earlier = known.get(requestId);
              if (earlier) return <a href={`/pay/${earlier.paymentId}`}>{t(`batch.known.${earlier.is}`)}</a>;
              return like === undefined ? '' : t('batch.like', { line: like });
            },
          }}
        />
        <div class="actions">
          <button type="button" disabled={Boolean(busy)} onClick={onBack}>{t('batch.back')}</button>
        </div>
      </section>
      {same && (
        <Problem title={t('batch.again.title')} text={t('batch.again', { time: timeText(same.at) })}>
          <p><a href={`#batch=${same.root}`}>{t('batch.again.open')}</a></p>
        </Problem>
      )}
      {known.size > 0 && <p>{t(missing.length ? 'batch.known.some' : 'batch.known.all', { count: known.size })}</p>}
      {!isKept && <p class="muted">{t('error.storage')}</p>}
      {isLost && <Problem title={t('live.off.title')} text={t('error.offline')} />}
      {problem && (
        <Problem text={faultText(problem.text, problem.code, missing)} code={problem.code} href={problem.href}>
          {!busy && (problem.again || open) && (
            <div class="actions"><button type="button" onClick={problem.again ?? (() => open && void connect(open.found))}>{t('error.retry')}</button></div>
          )}
        </Problem>
      )}
      {busy && <Busy text={busy} />}
      {signing && <Signing shown={signing} defaults={defaults} source={source} />}
      {!open && !busy && <EvmWallets heading={heading} onChoose={(found) => void connect(found)} />}
      {open && <Connected open={open} isBusy={Boolean(busy)} onReset={() => setOpen(undefined)} />}
      {open && made && step === 'approve' && (
        <Card title={t('step.approve')} heading={heading}>
          {made.prepared.wraps?.map(({ asset_identifier: asset, amount, coin }) => (
            <p key={asset}>{t('wrap.text', { symbol, amount: amountText(defaults, asset, amount), coin: servedAsset(defaults, coin)?.symbol ?? coin })}</p>
          ))}
          {Boolean(made.prepared.approvals?.length) && <p>{t('approve.text', { symbol, amount: amountText(defaults, source, sumOf(made)) })}</p>}
          <button type="button" class="primary wide" disabled={Boolean(busy)} onClick={() => void allow(open, made)}>
            {t('approve.do', { amount: amountText(defaults, source, sumOf(made)) })}
          </button>
        </Card>
      )}
      {open && made && step === 'sign' && (
        <Card title={t('batch.sign')} heading={heading}>
          <p>{t('batch.sign.text', { chain: chainName(chainOf(source)) })}</p>
          <button type="button" class="primary wide" disabled={Boolean(busy)} onClick={() => void pay(open)}>
            {t(missing.length === 1 ? 'batch.sign.do.one' : 'batch.sign.do', { count: missing.length, amount: amountText(defaults, source, sumOf(made)) })}
          </button>
        </Card>
      )}
    </article>
  );
}

const sumOf = ({ shown }: Checked): bigint => shown.permitted.reduce((sum, { amount }) => sum + amount, 0n);

/** What the gateway says of one payment of the body, with the line that it stands on. */
function faultText(text: string, code: string | undefined, payments: readonly ListedPayment[]): string {
  const at = /payments\[(\d+)\]/.exec(code ?? '') ?? /payments\[(\d+)\]/.exec(text);
  const line = at && payments[Number(at[1])]?.line;
  return line ? t('batch.fault', { line, text }) : text;
}

/** What the wallet shows, to be compared. */
function Signing({ shown, defaults, source }: { shown: Batch; defaults: Defaults; source: string }): VNode {
  return (
    <Card title={t('batch.shown')}>
      <p>{t('batch.shown.text')}</p>
      <Rows
        rows={[
          { name: t('batch.cost'), value: shown.permitted.map(({ token, amount }) => <div key={token}>{amountText(defaults, source, amount)} <code>{String(amount)}</code> <code>{token}</code></div>) },
          { name: t('batch.spender'), value: <code>{PAYMENT_BATCHES}</code> },
          { name: t('batch.escrow'), value: <code>{shown.escrow}</code> },
          { name: t('batch.root'), value: <code>{shown.payments}</code> },
          { name: t('batch.deadline'), value: <Time at={new Date(shown.deadline * 1000).toISOString()} /> },
        ]}
      />
    </Card>
  );
}
