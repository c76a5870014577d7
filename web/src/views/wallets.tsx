// The wallets of this browser, to be chosen from, and the one that was chosen.

import type { VNode } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';

import { shortText } from '../format.js';
import { t } from '../texts.js';
import { type FoundWallet, type OpenWallet, useWallets } from '../wallets/index.js';
import { Card, type Heading } from './parts.js';

export function WalletList({ wallets, onChoose }: { wallets: readonly FoundWallet[]; onChoose: (found: FoundWallet) => void }): VNode {
  return (
    <>
      {wallets.length === 0 && <p>{t('wallet.none')} {t('wallet.none.text')}</p>}
      <ul class="wallets">
        {wallets.map((found) => (
          <li key={found.id}>
            <button type="button" onClick={() => onChoose(found)}>
              {found.icon && <img src={found.icon} alt="" />}
              {t('wallet.connect', { name: found.name })}
              <span class="muted">{t(`wallet.family.${found.family}`)}</span>
            </button>
          </li>
        ))}
      </ul>
    </>
  );
}

/** The wallets of EVM chains. */
export function EvmWallets({ heading, onChoose }: { heading?: Heading; onChoose: (found: FoundWallet) => void }): VNode {
  const wallets = useWallets().filter(({ family }) => family === 'evm');
  return (
    <Card title={t('step.connect')} {...(heading ? { heading } : {})}>
      <WalletList wallets={wallets} onChoose={onChoose} />
    </Card>
  );
}

/** The wallet that was chosen, and the way back. */
export function Connected({ open, isBusy, onReset }: { open: OpenWallet; isBusy: boolean; onReset: () => void }): VNode {
  return (
    <p class="connected">
      <span class="muted">{t('wallet.connected')}</span> {open.found.name} <code>{shortText(open.wallet.account)}</code>{' '}
      {!isBusy && <button type="button" class="plain" onClick={onReset}>{t('wallet.change')}</button>}
    </p>
  );
}

/** A wallet that is open until its account is another one, and whether one that was open still is. */
export function useOpenWallet(): [OpenWallet | undefined, (open: OpenWallet | undefined) => void, (opened: OpenWallet) => boolean] {
  const [open, setOpen] = useState<OpenWallet>();
  const current = useRef(open);
  current.current = open;
  useEffect(() => open?.onAccountChange(() => setOpen(undefined)), [open]);
  return [open, setOpen, (opened) => current.current === opened];
}
