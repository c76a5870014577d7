// Paying without a wallet: where money should come back to, then the address that it is sent to.

import type { VNode } from 'preact';
import { useRef, useState } from 'preact/hooks';

import { formatAmount } from '../../../sdk/typescript/src/amounts.js';
import { StaleAddress } from '../../../sdk/typescript/src/errors.js';
import type { Defaults } from '../../../sdk/typescript/src/types.js';
import { addressOfPayment, type CheckedAddress, refundAccount, refundText, transferOf } from '../addresses.js';
import { chainName, chainOf } from '../chains.js';
import { useNow } from '../clock.js';
import { amountText, servedAsset } from '../format.js';
import type { Source } from '../link.js';
import { t, type TextName } from '../texts.js';
import { Busy, Copied, Countdown, Problem, Rows } from './parts.js';
import type { PaymentProps } from './payment.js';
import { QrCode } from './phone.js';

const symbolOf = (defaults: Defaults | undefined, asset: string): string => servedAsset(defaults, asset)?.symbol ?? asset;

interface AddressFormProps {
  sources: Source[];
  defaults: Defaults;
  isBusy: boolean;
  onOpen: (source: Source, account: string) => void;
}

/** What is sent, and where it should come back to. */
export function AddressForm({ sources, defaults, isBusy, onOpen }: AddressFormProps): VNode | null {
  const [asset, setAsset] = useState<string>();
  const [entered, setEntered] = useState('');
  const [fault, setFault] = useState<TextName>();
  const input = useRef<HTMLInputElement>(null);
  const source = sources.find(({ asset_identifier: id }) => id === asset) ?? sources[0];
  if (!source) return null;
  const nameOf = (id: string): { symbol: string; chain: string } => ({ symbol: symbolOf(defaults, id), chain: chainName(chainOf(id)) });
  const name = nameOf(source.asset_identifier);
  const submit = (): void => {
    const read = refundAccount(entered, source);
    setFault('fault' in read ? read.fault : undefined);
    if ('fault' in read) input.current?.focus();
    else onOpen(source, read.account);
  };
  return (
    <details class="card">
      <summary>{t('address.or')}</summary>
      <p>{t('address.or.text')}</p>
      <fieldset disabled={isBusy}>
        {sources.length > 1 ? (
          <>
            <label for="address-asset">{t('address.asset')}</label>
            <select id="address-asset" value={source.asset_identifier} onChange={({ currentTarget }) => setAsset(currentTarget.value)}>
              {sources.map(({ asset_identifier: id }) => <option key={id} value={id}>{t('asset.on', nameOf(id))}</option>)}
            </select>
          </>
        ) : (
          <p><span class="muted">{t('address.asset')}</span> {t('asset.on', name)}</p>
        )}
        <label for="refund-account">{t('address.refund')}</label>
        <input
          id="refund-account"
          ref={input}
          value={entered}
          onInput={({ currentTarget }) => setEntered(currentTarget.value)}
          onKeyDown={({ key }) => key === 'Enter' && submit()}
          aria-describedby="refund-text refund-fault"
          aria-invalid={fault !== undefined}
          aria-required="true"
          autocomplete="off"
          autocapitalize="off"
          spellcheck={false}
        />
        <p id="refund-text" class="muted">{t(refundText(source), name)}</p>
        <p id="refund-fault" class="fault" role="alert">{fault && t(fault, name)}</p>
        <button type="button" class="primary wide" onClick={submit}>{t('address.do')}</button>
      </fieldset>
    </details>
  );
}

/** Where the money of a payment is to be sent, once it is checked. */
export function AwaitedMoney({ paymentId, entries, status, defaults, address }: PaymentProps): VNode {
  let checked = address;
  try {
    if (!checked && status && defaults) checked = addressOfPayment(paymentId, entries, status, defaults);
  } catch (error) {
    const account = status?.deposit_address?.refund_account;
    if (error instanceof StaleAddress && account !== undefined) return <Problem text={t('address.over', { account })} />;
    return <Problem text={t('address.wrong')} />;
  }
  return checked ? <AddressCard address={checked} defaults={defaults} /> : <Busy text={t('address.asking')} />;
}

function AddressCard({ address, defaults }: { address: CheckedAddress; defaults: Defaults | undefined }): VNode {
  const { chainId, token, amount, payBy, refundAccount: account } = address;
  const { asset, served, only, code } = transferOf(address, defaults);
  const shown = amountText(defaults, asset, amount);
  const isOver = useNow() > payBy.getTime();
  return (
    <section class="card" aria-labelledby="send-title">
      <h2 id="send-title">{t('address.title')}</h2>
      {isOver && <p>{t('address.over', { account })}</p>}
      {!isOver && (
        <>
          <p>{t('address.text')}</p>
          <p><strong>{t(only, { symbol: served?.symbol ?? token, chain: chainName(chainId) })}</strong></p>
          <QrCode text={code.text} label={t(code.label, { amount: shown, address: address.address })} />
          {code.hints.map((hint) => <p key={hint}>{t(hint)}</p>)}
          <Rows
            rows={[
              code.network && { name: t('address.network'), value: t(code.network, { chain: chainName(chainId) }) },
              {
                name: t('address.amount'),
                value: <Copied text={served ? formatAmount(amount, served.decimals) : String(amount)} unit={served?.symbol} label={t('address.copy.amount')} />,
              },
              { name: t('address.to'), value: <Copied text={address.address} label={t('address.copy.to')} /> },
              { name: t('address.by'), value: <Countdown until={payBy.getTime()} /> },
              { name: t('address.token'), value: <code>{token}</code> },
              { name: t('address.back'), value: <code>{account}</code> },
            ]}
          />
          <div class="actions">
            <a class="button" href={code.link}>{t('address.open')}</a>
          </div>
        </>
      )}
    </section>
  );
}
