// Opens the page of a payment by its id, and leads to what needs no link.

import type { VNode } from 'preact';
import { useState } from 'preact/hooks';

import { t } from '../texts.js';

const ID = /(?:pay|qrq)_[a-z2-7]{52}/;

export function OpenPayment(): VNode {
  const [text, setText] = useState('');
  const id = ID.exec(text)?.[0];
  // A form would be sent somewhere; the page's policy lets none be.
  return (
    <div>
      <label for="payment-id">{t('start.watch.label')}</label>
      <input id="payment-id" autocomplete="off" spellcheck={false} value={text} onInput={({ currentTarget }) => setText(currentTarget.value)} onKeyDown={({ key }) => key === 'Enter' && id && location.assign(`/pay/${id}`)} />
      <div class="actions">
        <button type="button" class="primary" disabled={!id} onClick={() => id && location.assign(`/pay/${id}`)}>{t('start.watch.go')}</button>
      </div>
      <Entrances />
    </div>
  );
}

/** What the page does without a link. */
export const Entrances = (): VNode => (
  <ul>
    <li><a href="/pay#batch">{t('start.batch')}</a></li>
    <li><a href="/pay#mandates">{t('start.mandates')}</a></li>
  </ul>
);
