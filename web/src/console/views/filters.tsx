// What of all payments is looked for. It stands in the address.

import type { VNode } from 'preact';
import { useLayoutEffect, useRef, useState } from 'preact/hooks';

import { parseAmount } from '../../../../sdk/typescript/src/amounts.js';
import { amountOf } from '../format.js';
import { useChains } from '../me.js';
import { go, hashOf, type Filter, type Query } from '../route.js';
import { visible } from '../safe.js';
import { named, t } from '../texts.js';
import type { Asset } from '../types.js';

const STATUSES = ['pending', 'finalizing', 'completed', 'failed'];
const STAGES = ['auction', 'award', 'deposit', 'delivery', 'reassignment', 'finality', 'release', 'refund', 'ended'];
const FLAGS = ['in_flight', 'overdue', 'parked'] as const;
/** Filters that are folded away while none of them is set. */
const FURTHER: readonly Filter[] = ['settler', 'originator', 'submitted_from', 'submitted_until', 'amount_from', 'amount_to'];

export function Filters({ query }: { query: Query }): VNode {
  const chains = useChains();
  const [search, setSearch] = useState(query.q ?? '');
  const asked = useRef(query.q ?? '');
  // What comes from an address is shown; what was asked for here may be typed on meanwhile.
  useLayoutEffect(() => {
    if ((query.q ?? '') !== asked.current) setSearch(query.q ?? '');
    asked.current = query.q ?? '';
  }, [query.q]);
  const set = (changed: Query): void => go(hashOf('payments', undefined, { ...query, q: '', ...changed }));
  const find = (text: string): void => {
    const q = text.trim();
    if (q === (query.q ?? '')) return;
    asked.current = q;
    go(hashOf('payments', undefined, q ? { q } : {}));
  };
  const isSet = Object.values(query).some(Boolean);
  const further = FURTHER.filter((name) => query[name]).length;
  return (
    <search class="filters">
      <div class="line">
        <input
          type="search"
          class="find"
          aria-label={t('search.field')}
          placeholder={t('search.placeholder')}
          autocomplete="off"
          spellcheck={false}
          value={search}
          onInput={({ currentTarget }) => setSearch(currentTarget.value)}
          onKeyDown={({ key, currentTarget }) => key === 'Enter' && find(currentTarget.value)}
          onChange={({ currentTarget }) => find(currentTarget.value)}
        />
        <Choice name="status" query={query} set={set} options={STATUSES.map((name) => [name, named('status', name)])} />
        <Choice name="stage" query={query} set={set} options={STAGES.map((name) => [name, named('stage', name)])} />
        <Choice name="chain_id" query={query} set={set} options={chains.map(({ chain_id, name }) => [chain_id, visible(name)])} />
        {FLAGS.map((name) => (
          <button key={name} type="button" class="toggle" aria-pressed={query[name] === 'true'} onClick={() => set({ [name]: query[name] === 'true' ? '' : 'true' })}>
            {t(`filter.${name}`)}
          </button>
        ))}
        {isSet && <button type="button" class="quiet" onClick={() => go(hashOf('payments'))}>{t('filter.clear')}</button>}
      </div>
      <details open={further > 0}>
        <summary>{t('filter.further')}{further > 0 && <span class="badge">{further}</span>}</summary>
        <div class="line">
          <Field name="settler" query={query} set={set} placeholder="did:…" />
          <Field name="originator" query={query} set={set} placeholder={t('filter.originator.example')} />
          <When name="submitted_from" query={query} set={set} />
          <When name="submitted_until" query={query} set={set} />
          <Amounts query={query} set={set} />
        </div>
      </details>
    </search>
  );
}

interface Part {
  query: Query;
  set: (changed: Query) => void;
}

function Choice({ name, query, set, options }: Part & { name: Filter; options: readonly (readonly [string, string])[] }): VNode {
  const value = query[name] ?? '';
  // An address may name one that this page does not know.
  const all = value && !options.some(([known]) => known === value) ? [...options, [value, visible(value)] as const] : options;
  return (
    <select aria-label={t(`filter.${name as 'status'}`)} class={value ? 'set' : ''} value={value} onChange={({ currentTarget }) => set({ [name]: currentTarget.value })}>
      <option value="">{t(`filter.${name as 'status'}`)}</option>
      {all.map(([known, text]) => <option key={known} value={known} selected={known === value}>{text}</option>)}
    </select>
  );
}

function Field({ name, query, set, placeholder }: Part & { name: 'settler' | 'originator'; placeholder: string }): VNode {
  return (
    <label>
      <span>{t(`filter.${name}`)}</span>
      <input autocomplete="off" spellcheck={false} placeholder={placeholder} value={query[name] ?? ''} onChange={({ currentTarget }) => set({ [name]: currentTarget.value.trim() })} />
    </label>
  );
}

/** A time of the API as the field for it has it: by the clock of the reader. */
function localOf(at: string | undefined): string {
  const ms = at ? Date.parse(at) : Number.NaN;
  if (Number.isNaN(ms)) return '';
  return new Date(ms - new Date(ms).getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}

function When({ name, query, set }: Part & { name: 'submitted_from' | 'submitted_until' }): VNode {
  return (
    <label>
      <span>{t(`filter.${name}`)}</span>
      <input
        type="datetime-local"
        value={localOf(query[name])}
        onChange={({ currentTarget }) => {
          const ms = Date.parse(currentTarget.value);
          set({ [name]: Number.isNaN(ms) ? '' : new Date(ms).toISOString() });
        }}
      />
    </label>
  );
}

/** Amounts are of the smallest unit; they may be written in the unit of an asset. */
function Amounts({ query, set }: Part): VNode {
  const assets = useChains().flatMap((chain) => chain.assets.map((asset) => ({ ...asset, chain: chain.name })));
  const [unit, setUnit] = useState('');
  const asset: Asset | undefined = assets.find(({ asset_identifier: id }) => id === unit);
  const [wrong, setWrong] = useState(false);
  const shown = (units: string | undefined): string => (units ? amountOf(asset, units).replaceAll(' ', '') : '');
  const write = (name: 'amount_from' | 'amount_to', text: string): void => {
    const plain = text.replace(/[\s ]/g, '');
    try {
      set({ [name]: plain && parseAmount(plain, asset?.decimals ?? 0).toString() });
      setWrong(false);
    } catch {
      setWrong(true);
    }
  };
  return (
    <>
      {(['amount_from', 'amount_to'] as const).map((name) => (
        <label key={name}>
          <span>{t(`filter.${name}`)}</span>
          <input inputMode="decimal" autocomplete="off" value={shown(query[name])} aria-invalid={wrong} onChange={({ currentTarget }) => write(name, currentTarget.value)} />
        </label>
      ))}
      <label>
        <span>{t('filter.unit')}</span>
        <select value={unit} onChange={({ currentTarget }) => setUnit(currentTarget.value)}>
          <option value="">{t('amount.units')}</option>
          {assets.map(({ asset_identifier: id, symbol, chain }) => <option key={id} value={id}>{visible(`${symbol} · ${chain}`)}</option>)}
        </select>
      </label>
      {wrong && <p class="note bad" role="alert">{t('filter.amount.wrong')}</p>}
    </>
  );
}
