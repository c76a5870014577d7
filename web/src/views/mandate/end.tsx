// The end of a mandate, by a transaction of its payer's or its merchant's.

import type { VNode } from 'preact';

import { WalletError } from '../../../../sdk/typescript/src/errors.js';
import { chainOf } from '../../chains.js';
import type { MandateDocument } from '../../mandate/document.js';
import { end } from '../../mandate/sign.js';
import { networkProblem } from '../../problems.js';
import { t } from '../../texts.js';
import type { FoundWallet, OpenWallet } from '../../wallets/index.js';
import { useAct } from '../act.js';
import { Busy, Problem } from '../parts.js';
import { Connected, EvmWallets, useOpenWallet } from '../wallets.js';

export function End({ document, onEnded }: { document: MandateDocument; onEnded: (transaction: string) => void }): VNode {
  const [open, setOpen] = useOpenWallet();
  const { busy, problem, setProblem, act } = useAct('mandate.differs');
  const { mandate, source } = document;
  const chainId = chainOf(source.asset_identifier);
  const connect = (found: FoundWallet): Promise<void> =>
    act(t('wallet.asking'), async () => {
      const opened = await found.open();
      const { account } = opened.wallet;
      if (account === source.account.toLowerCase() || account === mandate.merchant.toLowerCase()) setOpen(opened);
      else setProblem({ text: t('mandate.end.account', { account: source.account }) });
    });
  const send = ({ wallet }: OpenWallet): Promise<void> =>
    act(t('mandate.end.asking'), async () => {
      try {
        onEnded(await end(document, wallet));
      } catch (error) {
        if (!(error instanceof WalletError) || error.reason !== 'chain') throw error;
        setProblem({ text: networkProblem(error, chainId) });
      }
    });
  return (
    <details class="card">
      <summary>{t('mandate.end')}</summary>
      <p>{t('mandate.end.text')}</p>
      {problem && (
        <Problem text={problem.text} code={problem.code} href={problem.href}>
          {!busy && problem.again && <div class="actions"><button type="button" onClick={problem.again}>{t('error.retry')}</button></div>}
        </Problem>
      )}
      {busy && <Busy text={busy} />}
      {open ? (
        <>
          <Connected open={open} isBusy={Boolean(busy)} onReset={() => setOpen(undefined)} />
          <button type="button" class="primary wide" disabled={Boolean(busy)} onClick={() => void send(open)}>{t('mandate.end.do')}</button>
        </>
      ) : (
        !busy && <EvmWallets onChoose={(found) => void connect(found)} />
      )}
    </details>
  );
}
