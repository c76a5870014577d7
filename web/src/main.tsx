// The script of the pages. What the server wrote stays until there is something newer to show.

import './page.css';

import { render, type VNode } from 'preact';

import { GatewayError } from '../../sdk/typescript/src/errors.js';
import type { Defaults, QuoteBatch } from '../../sdk/typescript/src/types.js';
import { keptBatch } from './batch/store.js';
import { timeText } from './format.js';
import { gateway } from './gateway.js';
import { BadLink, type PaymentLink, readLink } from './link.js';
import { isServedMandate, MANDATE_FRAGMENT, readMandateLink } from './mandate/link.js';
import { signedBy } from './mandate/store.js';
import { purchaseOf, purchaseOfBatch } from './order.js';
import { kept } from './store.js';
import { App } from './views/app.js';
import { BATCH_FRAGMENT, BatchPage } from './views/batch/app.js';
import { Mandates } from './views/mandate/mandates.js';
import { Offer } from './views/mandate/offer.js';
import { Message } from './views/message.js';
import { Entrances, OpenPayment } from './views/start.js';

const PAUSE_MS = 2000;

/** Asks until there is an answer. What the server wrote is there meanwhile. */
async function persist<T>(ask: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await ask();
    } catch (error) {
      if (error instanceof GatewayError && error.status < 500 && error.status !== 429) throw error;
      await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
    }
  }
}

const ofPayment = async (id: string): Promise<VNode> => {
  const [defaults, { entries }] = await persist(() => Promise.all([gateway.defaults(), gateway.timeline(id)]));
  return <App defaults={defaults} begin={{ kind: 'payment', id, entries }} />;
};

const ofQuoteRequest = async (id: string): Promise<VNode> => {
  const [defaults, batch] = await persist(() => Promise.all([gateway.defaults(), collected(id)]));
  if (batch.payment_id !== undefined) return ofPayment(batch.payment_id);
  if (batch.status === 'expired') return <Message title="request.status.expired" text="link.expired.lapsed" />;
  return <App defaults={defaults} begin={{ kind: 'purchase', purchase: purchaseOfBatch(batch), kept: kept(id) }} />;
};

async function collected(id: string): Promise<QuoteBatch> {
  for (;;) {
    const batch = await gateway.quotes(id);
    if (batch.status !== 'collecting') return batch;
    await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
  }
}

/** The page that a fragment leads to. */
const ofFragment = async (): Promise<VNode> => {
  const fragment = location.hash.replace(/^#/, '');
  const [name, value] = fragment.split('=', 2);
  try {
    if (name === BATCH_FRAGMENT) return await ofBatch(value);
    if (fragment === 'mandates') return <Mandates defaults={await persist(() => gateway.defaults())} />;
    if (fragment.startsWith(MANDATE_FRAGMENT)) return await ofMandate(fragment.slice(MANDATE_FRAGMENT.length));
    return await ofLink(readLink(fragment));
  } catch (error) {
    if (!(error instanceof BadLink)) throw error;
    const { reason } = error;
    if (reason === 'empty') return <><Message title="link.empty.title" text="link.empty.text" /><Entrances /></>;
    return <Message title="link.bad.title" text={reason === 'newer' ? 'link.version.text' : 'link.bad.text'} />;
  }
};

/** The page of a batch, or of a list for a new one. */
const ofBatch = async (root: string | undefined): Promise<VNode> => {
  const begin = root === undefined ? undefined : keptBatch(root);
  if (root !== undefined && !begin) return <Message title="batch.missing" text="batch.missing.text" />;
  return <BatchPage defaults={await persist(() => gateway.defaults())} begin={begin} />;
};

/** What a merchant's link asks to be allowed. */
const ofMandate = async (text: string): Promise<VNode> => {
  const link = readMandateLink(text);
  const begin = signedBy(text);
  if (!begin && link.expires_at !== undefined && Date.parse(link.expires_at) <= Date.now()) {
    return <Message title="link.expired.title" text="mandate.expired" members={{ time: timeText(link.expires_at) }} />;
  }
  const defaults = await persist(() => gateway.defaults());
  if (!begin && !isServedMandate(link, defaults)) return <Message title="link.unserved.title" text="mandate.unserved" />;
  return <Offer link={link} fragment={text} defaults={defaults} begin={begin} />;
};

const ofLink = async (link: PaymentLink): Promise<VNode> => {
  const defaults: Defaults = await persist(() => gateway.defaults());
  const purchase = purchaseOf(link, defaults);
  const known = kept(purchase.subject);
  if (!known && purchase.expiresAt !== undefined && Date.parse(purchase.expiresAt) <= Date.now()) {
    return <Message title="link.expired.title" text="link.expired.text" members={{ time: timeText(purchase.expiresAt) }} />;
  }
  const [to] = purchase.destinations;
  const isServed = purchase.destinations.every(({ asset_identifier }) => isKnown(defaults, asset_identifier));
  if (!to || !isServed) return <Message title="link.unserved.title" text="link.unserved.text" />;
  return <App defaults={defaults} begin={{ kind: 'purchase', purchase, kept: known }} />;
};

function isKnown(defaults: Defaults, asset: string): boolean {
  const same = asset.startsWith('eip155:') ? asset.toLowerCase() : asset;
  const served = defaults.chains[asset.split('/')[0] ?? '']?.assets ?? [];
  return served.some(({ asset_identifier: id }) => id === asset || id.toLowerCase() === same);
}

async function start(): Promise<void> {
  const main = document.getElementById('main');
  const { page, id = '' } = document.body.dataset;
  if (!main) return;
  for (const time of document.querySelectorAll('time')) time.textContent = timeText(time.dateTime);
  const form = document.getElementById('open-payment');
  if (form) return render(<OpenPayment />, form);
  const make = { payment: () => ofPayment(id), 'quote-request': () => ofQuoteRequest(id), link: ofFragment }[page ?? ''];
  if (!make) return;
  const show = async (): Promise<void> => {
    const node = await make();
    main.replaceChildren();
    render(node, main);
  };
  // Another link in the same tab is another payment.
  if (page === 'link') window.addEventListener('hashchange', () => location.reload());
  try {
    await show();
  } catch {
    main.replaceChildren();
    render(<Message title="missing.title" text="missing.text" />, main);
  }
  document.body.dataset['live'] = 'true';
}

void start();
