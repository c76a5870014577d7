// The list of a batch, as its payer loads or pastes it.

import type { VNode } from 'preact';
import { useRef, useState } from 'preact/hooks';

import type { Defaults } from '../../../../sdk/typescript/src/types.js';
import { deliverableAssets, type Fault, type ListedPayment, listOf, payableAssets, PAYMENTS_MAX } from '../../batch/list.js';
import { keptBatches } from '../../batch/store.js';
import { chainName, chainOf } from '../../chains.js';
import { servedAsset } from '../../format.js';
import { t } from '../../texts.js';
import { Card, Time } from '../parts.js';
import type { Entered } from './app.js';

/** The largest file that is read, in bytes. */
const FILE_BYTES_MAX = 262_144;
/** Faults that are shown at once. */
const FAULTS_SHOWN = 20;

interface EntryProps {
  entered: Entered;
  defaults: Defaults;
  onEnter: (entered: Entered) => void;
  onList: (payments: readonly ListedPayment[]) => void;
}

export function Entry({ entered, defaults, onEnter, onList }: EntryProps): VNode {
  const [faults, setFaults] = useState<Fault[]>([]);
  const text = useRef<HTMLTextAreaElement>(null);
  const read = (of: Entered): void => {
    const list = listOf(of.text, of, defaults);
    setFaults('faults' in list ? list.faults : []);
    if ('faults' in list) text.current?.focus();
    else onList(list.payments);
  };
  const load = async (input: HTMLInputElement): Promise<void> => {
    const [file] = input.files ?? [];
    if (!file) return;
    if (file.size > FILE_BYTES_MAX) setFaults([{ text: t('batch.rule.file') }]);
    else {
      setFaults([]);
      onEnter({ ...entered, text: await file.text() });
    }
    input.value = '';
  };
  return (
    <article class="checkout">
      <header>
        <h1 id="title" tabIndex={-1}>{t('batch.title')}</h1>
        <p>{t('batch.lead', { most: PAYMENTS_MAX })}</p>
      </header>
      <Card title={t('batch.list')}>
        <AssetChoice
          id="batch-source"
          label={t('batch.source')}
          assets={payableAssets(defaults)}
          value={entered.source}
          defaults={defaults}
          onChange={(source) => onEnter({ ...entered, source })}
        />
        <AssetChoice
          id="batch-asset"
          label={t('batch.asset')}
          assets={deliverableAssets(defaults)}
          value={entered.asset}
          defaults={defaults}
          onChange={(asset) => onEnter({ ...entered, asset })}
        />
        <label for="batch-margin">{t('batch.margin')}</label>
        <input
          id="batch-margin"
          inputMode="decimal"
          autocomplete="off"
          value={entered.margin}
          onInput={({ currentTarget }) => onEnter({ ...entered, margin: currentTarget.value })}
          aria-describedby="batch-margin-text"
        />
        <p id="batch-margin-text" class="muted">{t('batch.margin.text')}</p>
        <label for="batch-file">{t('batch.file')}</label>
        <input id="batch-file" type="file" accept=".csv,.tsv,.txt,text/csv,text/plain" onChange={({ currentTarget }) => void load(currentTarget)} />
        <label for="batch-text">{t('batch.text')}</label>
        <textarea
          id="batch-text"
          ref={text}
          rows={10}
          value={entered.text}
          onInput={({ currentTarget }) => onEnter({ ...entered, text: currentTarget.value })}
          aria-describedby="batch-form batch-faults"
          aria-invalid={faults.length > 0}
          autocomplete="off"
          autocapitalize="off"
          spellcheck={false}
        />
        <p id="batch-form" class="muted">{t('batch.form')}</p>
        <div id="batch-faults" role="alert">
          {faults.length > 0 && <Faults faults={faults} />}
        </div>
        <button type="button" class="primary wide" onClick={() => read(entered)}>{t('batch.read')}</button>
      </Card>
      <Earlier />
    </article>
  );
}

function Faults({ faults }: { faults: Fault[] }): VNode {
  const more = faults.length - FAULTS_SHOWN;
  return (
    <>
      <p class="fault">{t('batch.faults')}</p>
      <ul class="fault">
        {faults.slice(0, FAULTS_SHOWN).map(({ line, text }) => (
          <li key={`${line} ${text}`}>{line === undefined ? text : t('batch.fault', { line, text })}</li>
        ))}
        {more > 0 && <li>{t('batch.faults.more', { count: more })}</li>}
      </ul>
    </>
  );
}

interface AssetChoiceProps {
  id: string;
  label: string;
  assets: string[];
  value: string;
  defaults: Defaults;
  onChange: (asset: string) => void;
}

function AssetChoice({ id, label, assets, value, defaults, onChange }: AssetChoiceProps): VNode {
  const nameOf = (asset: string): string => t('asset.on', { symbol: servedAsset(defaults, asset)?.symbol ?? asset, chain: chainName(chainOf(asset)) });
  return (
    <>
      <label for={id}>{label}</label>
      <select id={id} value={value} onChange={({ currentTarget }) => onChange(currentTarget.value)}>
        {assets.map((asset) => <option key={asset} value={asset}>{nameOf(asset)}</option>)}
      </select>
    </>
  );
}

/** The batches that this browser has signed for. */
function Earlier(): VNode | null {
  const batches = keptBatches();
  if (!batches.length) return null;
  return (
    <Card title={t('batch.earlier')}>
      <ul>
        {batches.map(({ root, at, payments }) => (
          <li key={root}><a href={`#batch=${root}`}>{t('batch.earlier.one', { count: payments.length })}</a> <Time at={at} /></li>
        ))}
      </ul>
    </Card>
  );
}
