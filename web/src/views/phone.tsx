// The page on a phone: a code to scan, and links into wallets that have a browser of their own.

import type { VNode } from 'preact';
import { encode } from 'uqr';

import { t } from '../texts.js';

/** Longest address that a phone's camera reads well off a screen, in characters. */
const QR_CHARS_MAX = 1200;

/** Addresses that a wallet on a phone opens by itself. They reach no server, so what the page's address asks for stays with it. */
const WALLETS: [string, (page: string) => string][] = [
  ['MetaMask', (page) => `metamask://dapp/${page.replace(/^https?:\/\//, '')}`],
  ['Trust Wallet', (page) => `trust://open_url?coin_id=60&url=${encodeURIComponent(page)}`],
  ['Phantom', (page) => `phantom://browse/${encodeURIComponent(page)}?ref=${encodeURIComponent(location.origin)}`],
  ['TronLink', (page) => `tronlinkoutside://pull.activity?param=${encodeURIComponent(JSON.stringify({ url: page, action: 'open', protocol: 'tronlink', version: '1.0' }))}`],
];

export function Phone({ isOpen }: { isOpen: boolean }): VNode {
  const page = location.href;
  return (
    <details class="card phone" open={isOpen}>
      <summary>{t('wallet.more')}</summary>
      <p>{t('phone.text')}</p>
      {page.length <= QR_CHARS_MAX && <QrCode text={page} label={t('phone.qr')} />}
      <div class="actions">
        {WALLETS.map(([name, address]) => (
          <a class="button" key={name} href={address(page)}>{t('phone.open', { name })}</a>
        ))}
      </div>
    </details>
  );
}

/** A text as a code to scan. */
export function QrCode({ text, label }: { text: string; label: string }): VNode {
  const { data, size } = encode(text, { ecc: 'L', border: 2 });
  const dark = data.flatMap((row, y) => row.flatMap((isDark, x) => (isDark ? [`M${x} ${y}h1v1h-1z`] : [])));
  return (
    <svg class="qr" viewBox={`0 0 ${size} ${size}`} role="img" aria-label={label} shape-rendering="crispEdges">
      <path d={dark.join('')} fill="#000" />
    </svg>
  );
}
