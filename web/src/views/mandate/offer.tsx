// What a merchant's link asks to be allowed, and the signature.

import type { VNode } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';

import { WalletError } from '../../../../sdk/typescript/src/errors.js';
import type { Defaults } from '../../../../sdk/typescript/src/types.js';
import { chainName, chainOf } from '../../chains.js';
import { amountText, servedAsset, spanText, timeText } from '../../format.js';
import { useIsLost } from '../../gateway.js';
import { lockSecondsOf, type MandateLink } from '../../mandate/link.js';
import { lacksAllowance, signMandate } from '../../mandate/sign.js';
import { type KeptMandate, keptMandates } from '../../mandate/store.js';
import { networkProblem } from '../../problems.js';
import { canKeep } from '../../store.js';
import { t } from '../../texts.js';
import type { FoundWallet, OpenWallet } from '../../wallets/index.js';
import { useAct } from '../act.js';
import { Busy, Card, Problem } from '../parts.js';
import { Phone } from '../phone.js';
import { Connected, EvmWallets, useOpenWallet } from '../wallets.js';
import { Signed } from './signed.js';
import { type Shown, Terms, totalOf } from './terms.js';

interface OfferProps {
  link: MandateLink;
  /** What the link is known by in this browser. */
  fragment: string;
  defaults: Defaults;
  /** What was signed by it before. */
  begin: KeptMandate | undefined;
}

export function Offer({ link, fragment, defaults, begin }: OfferProps): VNode {
  const [kept, setKept] = useState(begin);
  const [open, setOpen, isStill] = useOpenWallet();
  /** Whether the account has to let Permit2 draw first. */
  const [looked, setLooked] = useState<{ account: string; lacks: boolean }>();
  const { busy, problem, setProblem, act } = useAct('mandate.differs');
  const isLost = useIsLost();
  const heading = useRef<HTMLHeadingElement>(null);
  const isReady = open !== undefined && looked?.account === open.wallet.account;
  useEffect(() => {
    if (isReady) heading.current?.focus({ preventScroll: true });
  }, [isReady]);
  if (kept) return <Signed kept={kept} defaults={defaults} />;

  const { source, period_seconds: periodSeconds, periods } = link;
  const asset = source.asset_identifier;
  const shown: Shown = {
    merchant: link.merchant,
    asset,
    destination: link.destination,
    amount: link.amount,
    least: link.least,
    begins: link.begins !== undefined && link.begins * 1000 > Date.now() ? link.begins : undefined,
    periodSeconds,
    periods,
    lockSeconds: lockSecondsOf(link, defaults),
    memo: link.memo,
  };
  const total = amountText(defaults, asset, totalOf(shown));
  const before = keptMandates().find(({ document, ended }) => ended === undefined && document.mandate.merchant === link.merchant);

  /** Whether the link has ended meanwhile, which is told. */
  function hasEnded(): boolean {
    if (link.expires_at === undefined || Date.parse(link.expires_at) > Date.now()) return false;
    setProblem({ text: t('mandate.expired', { time: timeText(link.expires_at) }) });
    return true;
  }

  const connect = (found: FoundWallet): Promise<void> =>
    act(t('wallet.asking'), async (told) => {
      const opened = open?.found.id === found.id && isStill(open) ? open : await found.open();
      const { account } = opened.wallet;
      if (source.account !== undefined && source.account !== account) {
        setProblem({ text: t('wallet.wrong.account', { account: source.account }) });
        return;
      }
      setOpen(opened);
      try {
        await opened.wallet.connect(chainOf(asset));
      } catch (error) {
        if (!(error instanceof WalletError)) throw error;
        setProblem({ text: networkProblem(error, chainOf(asset)) });
        return;
      }
      told(t('mandate.looking'));
      setLooked({ account, lacks: await lacksAllowance(link, defaults, account) });
    });

  const sign = (opened: OpenWallet): Promise<void> =>
    act(t('mandate.preparing'), async (told) => {
      if (!isStill(opened) || hasEnded()) return;
      const texts = { allow: t('mandate.allow.asking'), allowing: t('approve.wait'), sign: t('pay.signing') };
      setKept(await signMandate(link, fragment, defaults, opened.wallet, (phase) => told(texts[phase])));
    });

  return (
    <article class="checkout">
      <header>
        <h1 id="title" tabIndex={-1}>{t('mandate.title', { amount: amountText(defaults, asset, link.amount), period: spanText(periodSeconds) })}</h1>
        <p>{t('mandate.lead')}</p>
      </header>
      <section class="card" aria-labelledby="title">
        <Terms
          shown={shown}
          defaults={defaults}
          more={[link.return_url !== undefined && { name: t('mandate.return'), value: t('mandate.return.text', { origin: new URL(link.return_url).origin }) }]}
        />
      </section>
      <p class="muted">{t('mandate.stranger')}</p>
      {before && (
        <Problem title={t('mandate.again.title')} text={t('mandate.again', { time: timeText(before.at) })}>
          <p><a href="#mandates">{t('mandate.again.open')}</a></p>
        </Problem>
      )}
      {!canKeep() && <p class="muted">{t('mandate.storage')}</p>}
      {isLost && <Problem title={t('live.off.title')} text={t('error.offline')} />}
      {problem && (
        <Problem text={problem.text} code={problem.code} href={problem.href}>
          {!busy && (problem.again || open) && (
            <div class="actions"><button type="button" onClick={problem.again ?? (() => open && void connect(open.found))}>{t('error.retry')}</button></div>
          )}
        </Problem>
      )}
      {busy && <Busy text={busy} />}
      {!open && !busy && <><EvmWallets onChoose={(found) => void connect(found)} /><Phone isOpen={false} /></>}
      {open && <Connected open={open} isBusy={Boolean(busy)} onReset={() => setOpen(undefined)} />}
      {isReady && (
        <Card title={t('mandate.sign')} heading={heading}>
          {looked.lacks && <p>{t('mandate.allow', { symbol: servedAsset(defaults, asset)?.symbol ?? asset, amount: total })}</p>}
          <p>{t('mandate.sign.text', { total, chain: chainName(chainOf(asset)) })}</p>
          <button type="button" class="primary wide" disabled={Boolean(busy)} onClick={() => void sign(open)}>
            {t(looked.lacks ? 'mandate.allow.do' : 'mandate.sign.do', { total })}
          </button>
        </Card>
      )}
    </article>
  );
}
