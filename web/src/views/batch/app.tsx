// Many payments for one signature: the list, the signature, then what becomes of each.

import type { VNode } from 'preact';
import { useState } from 'preact/hooks';

import type { Defaults } from '../../../../sdk/typescript/src/types.js';
import { deliverableAssets, type ListedPayment, type ListOptions, payableAssets } from '../../batch/list.js';
import type { KeptBatch } from '../../batch/store.js';
import { Message } from '../message.js';
import { Checkout } from './checkout.js';
import { Entry } from './entry.js';
import { Watch } from './watch.js';

/** What stands in front of a batch's root in the fragment. */
export const BATCH_FRAGMENT = 'batch';

/** What a payer has entered. */
export interface Entered extends ListOptions {
  text: string;
}

export function BatchPage({ defaults, begin }: { defaults: Defaults; begin: KeptBatch | undefined }): VNode {
  const [source = ''] = payableAssets(defaults);
  const [asset = ''] = [source, ...deliverableAssets(defaults)].filter(Boolean);
  const [entered, setEntered] = useState<Entered>({ text: '', source, asset, margin: '2' });
  const [payments, setPayments] = useState<readonly ListedPayment[]>();
  const [batch, setBatch] = useState(begin);
  if (batch) return <Watch batch={batch} defaults={defaults} onChange={setBatch} />;
  if (!source) return <Message title="link.unserved.title" text="batch.unserved" />;
  if (!payments) return <Entry entered={entered} defaults={defaults} onEnter={setEntered} onList={setPayments} />;
  return (
    <Checkout
      payments={payments}
      source={entered.source}
      defaults={defaults}
      onBack={() => setPayments(undefined)}
      onSigned={(signed) => {
        // Loaded again, the page shows what became of it.
        history.replaceState(null, '', `#${BATCH_FRAGMENT}=${signed.root}`);
        setBatch(signed);
      }}
    />
  );
}
