// The list of all payments, live, and what a search finds.

import type { VNode } from 'preact';
import { useEffect, useMemo, useState } from 'preact/hooks';

import { chainOf } from '../../chains.js';
import { Feed, feedOf } from '../feed.js';
import { amountOf, assetOf, clockAndDay, countText, nameOf, settlerName, sinceText, symbolOf, timeText } from '../format.js';
import { useChains } from '../me.js';
import { usePolled } from '../poll.js';
import { go, hashOf, route, type Query } from '../route.js';
import { visible } from '../safe.js';
import { useStore } from '../store.js';
import { named, t } from '../texts.js';
import type { Chain, Found, Row } from '../types.js';
import { Filters } from './filters.js';
import { Busy, Chip, copy, Head, Id, Outside, Problem, Uncertain, type Tone } from './parts.js';
import { Window } from './window.js';

/** Heights of a row: of a table, and of a card where there is no room for one. */
const ROW_PX = 46;
const CARD_PX = 128;
const NARROW = '(max-width: 46rem)';
const COLUMNS = 6;
const SEARCH_MS = 10_000;
const SEARCH_CHARS_MIN = 6;

export function Payments(): VNode {
  const { query } = useStore(route);
  return (
    <>
      <Head title={t('nav.payments')} />
      <Filters query={query} />
      {query.q === undefined ? <Live query={query} /> : <Search text={query.q} />}
    </>
  );
}

function useNarrow(): boolean {
  const media = useMemo(() => matchMedia(NARROW), []);
  const [isNarrow, setNarrow] = useState(media.matches);
  useEffect(() => {
    const told = (): void => setNarrow(media.matches);
    media.addEventListener('change', told);
    return () => media.removeEventListener('change', told);
  }, []);
  return isNarrow;
}

function Live({ query }: { query: Query }): VNode {
  const feed = feedOf(query);
  return <List key={hashOf('payments', undefined, query)} feed={feed} />;
}

function List({ feed }: { feed: Feed }): VNode {
  const state = useStore(feed.state);
  const chains = useChains();
  const isNarrow = useNarrow();
  const [generation, setGeneration] = useState(0);
  useEffect(() => {
    feed.start();
    return () => feed.stop();
  }, [feed]);
  const { list } = feed;
  const again = (): void => {
    feed.restart();
    setGeneration(generation + 1);
  };
  const show = (): void => {
    feed.place.top = 0;
    feed.show();
    setGeneration(generation + 1);
  };
  return (
    <div class="payments">
      <Uncertain shards={list.uncertain} />
      {list.isParkingUnknown && <p class="note wait">{t('parked.unknown')}</p>}
      <div class="news">
        {list.hasGap
          ? <button type="button" class="fresh" onClick={again}>{t('list.gap', { count: countText(list.freshCount) })}</button>
          : list.freshCount > 0 && <button type="button" class="fresh" onClick={show}>{t('list.fresh', { count: countText(list.freshCount) })}</button>}
      </div>
      <Window
        key={generation}
        label={t('list.label')}
        count={list.length}
        columns={COLUMNS}
        rowPx={isNarrow ? CARD_PX : ROW_PX}
        place={feed.place}
        indexOf={(key) => list.indexOf(key)}
        onSeen={(firstIndex, lastIndex) => feed.seen(firstIndex, lastIndex)}
        onRest={(isAtRest) => void (feed.isAtRest = isAtRest)}
        onOpen={(index) => {
          const line = list.at(index);
          if (line) go(hashOf('payments', line.row.payment_id));
        }}
        onCopy={(index) => {
          const line = list.at(index);
          if (line) void copy(line.row.payment_id);
        }}
        head={<HeadCells />}
        row={(index) => {
          const line = list.at(index);
          if (!line) return { key: String(index), cells: null, class: 'row' };
          return { key: line.row.payment_id, cells: cellsOf(line.row, chains, line.isGone), class: line.isGone ? 'row gone' : 'row' };
        }}
        foot={<Foot feed={feed} again={again} />}
      />
      <p class="tally muted">{t('list.tally', { count: countText(list.length), looked: countText(list.lookedAt) })}<span class="keys">{t('list.keys')}</span></p>
      <span hidden>{state.change}</span>
    </div>
  );
}

function Foot({ feed, again }: { feed: Feed; again: () => void }): VNode {
  const { isLoading, isStopped, inVain, error } = feed.state.get();
  const { list } = feed;
  if (error) {
    return (
      <>
        <Problem error={error} title={t('list.failed')} />
        <button type="button" onClick={again}>{t('list.again')}</button>
      </>
    );
  }
  const back = inVain ? t('list.back', { count: countText(list.lookedAt), found: countText(list.length) }) : t('loading');
  if (isStopped && list.next !== null) {
    return <p>{t('list.stopped', { count: countText(list.lookedAt) })} <button type="button" onClick={() => feed.goOn()}>{t('list.on')}</button></p>;
  }
  if (isLoading) {
    return (
      <>
        <Busy text={back} />
        {inVain > 0 && <button type="button" onClick={() => feed.halt()}>{t('list.stop')}</button>}
      </>
    );
  }
  if (list.next === null) return <p class="muted">{list.length ? t('list.end') : t('list.none')}</p>;
  return <p class="muted">{t('list.on.scroll')}</p>;
}

function Search({ text }: { text: string }): VNode {
  const isLong = text.length >= SEARCH_CHARS_MIN;
  const { value, error } = usePolled<Found>(isLong ? `search?q=${encodeURIComponent(text)}` : undefined, SEARCH_MS);
  const chains = useChains();
  const isNarrow = useNarrow();
  const place = useMemo(() => ({ top: 0, focused: undefined }), [text]);
  if (!isLong) return <p class="empty">{t('search.short', { count: SEARCH_CHARS_MIN })}</p>;
  if (!value) return error ? <Problem error={error} /> : <Busy text={t('search.asking')} />;
  const { payments, quote_requests: batches } = value;
  return (
    <div class="payments">
      <Uncertain shards={value.uncertain_shards} />
      {payments.some(({ parked }) => parked === null) && <p class="note wait">{t('parked.unknown')}</p>}
      <p class="tally" role="status">
        {t(payments.length === 1 ? 'search.found.one' : 'search.found', { count: countText(payments.length) })}{value.incomplete && ` ${t('search.incomplete')}`}
      </p>
      {batches.length > 0 && (
        <ul class="batches" aria-label={t('search.batches')}>
          {batches.map(({ quote_request_id: id, status }) => <li key={id}>{t('search.batch')} <Id id={id} /> <Chip tone="plain"><Outside text={status} /></Chip></li>)}
        </ul>
      )}
      {payments.length > 0 && (
        <Window
          key={text}
          label={t('search.label')}
          count={payments.length}
          columns={COLUMNS}
          rowPx={isNarrow ? CARD_PX : ROW_PX}
          place={place}
          indexOf={(key) => payments.findIndex(({ payment_id }) => payment_id === key)}
          onSeen={() => undefined}
          onOpen={(index) => payments[index] && go(hashOf('payments', payments[index].payment_id))}
          onCopy={(index) => payments[index] && void copy(payments[index].payment_id)}
          head={<HeadCells />}
          row={(index) => {
            const row = payments[index];
            return row ? { key: row.payment_id, cells: cellsOf(row, chains, false), class: 'row' } : { key: String(index), cells: null, class: 'row' };
          }}
          foot={null}
        />
      )}
    </div>
  );
}

const HeadCells = (): VNode => (
  <>
    {(['payment', 'status', 'amount', 'accounts', 'settler', 'flags'] as const).map((name) => (
      <div key={name} role="columnheader" class={`c-${name}`}>{t(`column.${name}`)}</div>
    ))}
  </>
);

const TONES: Record<string, Tone> = { completed: 'good', failed: 'bad', pending: 'wait', finalizing: 'wait' };

export const toneOf = (status: string): Tone => (Object.hasOwn(TONES, status) ? TONES[status] : undefined) ?? 'plain';

/** What a payment waits for, in words; why, where it failed. */
export function stageText({ status, stage, failure_code: code, source }: Row): string {
  if (stage !== 'ended') return named('stage', stage);
  if (source.refunded) return t('stage.refunded');
  return status === 'failed' && code ? code : t('stage.ended');
}

function Sum({ asset, units, isMost, chains }: { asset: string; units: string; isMost: boolean; chains: readonly Chain[] }): VNode {
  const known = assetOf(chains, asset);
  return (
    <>
      <span class="sum" title={isMost ? t('amount.permitted') : undefined}>
        {isMost && <span class="muted">≤ </span>}
        {amountOf(known, units)} <bdi>{visible(symbolOf(known))}</bdi>
      </span>{' '}
      <bdi class="muted small">{visible(nameOf(chains, chainOf(asset)))}</bdi>
    </>
  );
}

const Becomes = (): VNode => <><span class="muted" aria-hidden="true">→ </span><span class="hidden">{t('amount.becomes')}</span></>;

/** Cells as they were made last; a row that has the same again is not drawn again. */
const made = new Map<Row, { chains: readonly Chain[]; isGone: boolean; minute: number; cells: VNode }>();
const MADE_MAX = 300;
const MINUTE_MS = 60_000;

function cellsOf(row: Row, chains: readonly Chain[], isGone: boolean): VNode {
  const last = made.get(row);
  // How long something is overdue is counted on.
  const minute = Math.floor(Date.now() / MINUTE_MS);
  if (last && last.chains === chains && last.isGone === isGone && last.minute === minute) return last.cells;
  const cells = <Cells row={row} chains={chains} isGone={isGone} />;
  if (made.size >= MADE_MAX) made.clear();
  made.set(row, { chains, isGone, minute, cells });
  return cells;
}

function Cells({ row, chains, isGone }: { row: Row; chains: readonly Chain[]; isGone: boolean }): VNode {
  const { payment_id: id, status, source, destination, settler, overdue, parked } = row;
  const [clock, day] = clockAndDay(row.submitted_at);
  return (
    <>
      <div role="gridcell" class="c-payment">
        <span class="main"><time dateTime={visible(row.submitted_at)} title={visible(timeText(row.submitted_at))}>{day && <span class="muted">{day} </span>}{visible(clock)}</time></span>
        <span class="sub"><Id id={id} isInGrid href={hashOf('payments', id)} /></span>
      </div>
      <div role="gridcell" class="c-status">
        <span class={`status ${toneOf(status)}`}>{named('status', status)}</span>
        <span class="sub"><Outside text={stageText(row)} /></span>
      </div>
      <div role="gridcell" class="c-amount">
        <span class="main">
          <Sum asset={source.asset_identifier} units={source.paid_amount ?? source.permitted_amount} isMost={source.paid_amount === undefined} chains={chains} />
        </span>
        {destination && <span class="main"><Becomes /><Sum asset={destination.asset_identifier} units={destination.amount} isMost={false} chains={chains} /></span>}
      </div>
      <div role="gridcell" class="c-accounts">
        <span class="main"><Id id={source.account} isInGrid /></span>
        {destination && <span class="main"><Becomes /><Id id={destination.account} isInGrid /></span>}
      </div>
      <div role="gridcell" class="c-settler">{settler ? <Id id={settler} text={settlerName(settler)} isInGrid href={hashOf('payments', undefined, { settler })} /> : <span class="muted">–</span>}</div>
      <div role="gridcell" class="c-flags">
        {overdue && <Chip tone="bad" title={t('overdue.title', { step: named('overdue', overdue.step), at: visible(timeText(overdue.since)) })}>{t('overdue.chip', { step: named('overdue', overdue.step), span: sinceText(overdue.since) })}</Chip>}
        {parked && <Chip tone="bad">{t('parked.chip')}</Chip>}
        {isGone && <Chip tone="plain" title={t('gone.title')}>{t('gone.chip')}</Chip>}
      </div>
    </>
  );
}
