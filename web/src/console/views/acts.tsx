// The record of what operators ordered, and what came of it.

import type { VNode } from 'preact';
import { useMemo, useRef, useState } from 'preact/hooks';

import { ActsRecord, toldOf, type ActsPage, type Order, type Told } from '../acts.js';
import { apiError, ask, type ApiError } from '../api.js';
import { spanText, timeText } from '../format.js';
import { endOf } from '../orders.js';
import { usePolled } from '../poll.js';
import { hashOf } from '../route.js';
import { textOf } from '../safe.js';
import { named, t } from '../texts.js';
import { Chip, Head, Id, Loaded, OUTCOME_TONES, Outside, Problem, Table, Time } from './parts.js';

const EVERY_MS = 10_000;
const LIMIT = 100;
/** Streams of one order that are named. */
const STREAMS_SHOWN = 3;

const page = (before: number | undefined, signal?: AbortSignal): Promise<ActsPage> =>
  ask<ActsPage>(`acts?limit=${LIMIT}${before === undefined ? '' : `&before=${before}`}`, { signal });

export function Acts(): VNode {
  const record = useMemo(() => new ActsRecord(), []);
  const polled = usePolled<ActsRecord>('acts', EVERY_MS, async (signal) => {
    await record.update((before) => page(before, signal));
    return record;
  });
  return (
    <>
      <Head title={t('nav.acts')} lead={t('acts.lead')} />
      <Loaded of={polled}>{() => <List record={record} />}</Loaded>
    </>
  );
}

function List({ record }: { record: ActsRecord }): VNode {
  const [, setChange] = useState(0);
  const [error, setError] = useState<ApiError>();
  const isAsking = useRef(false);
  const told = toldOf(record.entries);
  const more = async (): Promise<void> => {
    if (isAsking.current) return;
    isAsking.current = true;
    setError(undefined);
    try {
      await record.older((before) => page(before));
    } catch (thrown) {
      setError(apiError(thrown));
    } finally {
      isAsking.current = false;
      setChange((last) => last + 1);
    }
  };
  return (
    <>
      <Table label={t('nav.acts')} isEmpty={!told.length} empty={t('acts.none')} columns={[{ name: t('acts.when') }, { name: t('acts.who') }, { name: t('acts.what') }, { name: t('acts.outcome') }]}>
        {told.map((act) => <Act key={act.sequence} {...act} />)}
      </Table>
      {error && <Problem isOnce error={error} />}
      {record.next !== null && <p><button type="button" onClick={() => void more()}>{t('acts.older')}</button></p>}
    </>
  );
}

function Act({ storedAt, order, end, unknown, id }: Told): VNode {
  return (
    <tr>
      <td><Time at={storedAt} title={order?.at ? t('acts.claimed', { at: timeText(order.at) }) : undefined} />{id && <span class="sub"><Id id={id} /></span>}</td>
      <td>{order ? <><strong><Outside text={order.by} /></strong><span class="sub">{named('origin', order.origin)}{order.gateway && <> · <Outside text={order.gateway} /></>}</span></> : <span class="muted">–</span>}</td>
      <td class="wide">{order ? <What {...order} /> : <span class="muted">{t('acts.unknown')} <Outside text={unknown} /></span>}</td>
      <td class="wide">{order && (end ? <End from={storedAt} {...end} /> : <Chip tone="wait" title={t('acts.open.title')}>{t('acts.open')}</Chip>)}</td>
    </tr>
  );
}

function End({ from, storedAt, outcome }: NonNullable<Told['end']> & { from: string }): VNode {
  const end = endOf(outcome);
  const said = outcome.details ?? outcome.error;
  return (
    <>
      <Chip tone={OUTCOME_TONES[end]}>{t(`act.${end}`)}</Chip> <span class="muted">{tookText(from, storedAt)}</span>
      {said && <span class="sub lines"><Outside text={said} /></span>}
    </>
  );
}

function tookText(from: string, to: string): string {
  const ms = Date.parse(to) - Date.parse(from);
  return Number.isNaN(ms) ? '' : t('acts.took', { span: spanText(Math.max(0, ms)) });
}

function What({ act }: Order): VNode {
  const { act: name, streams, ...rest } = act;
  const ids = Array.isArray(streams) ? streams.filter((id): id is string => typeof id === 'string') : [];
  const members = Object.entries(rest).filter(([, value]) => value !== null && value !== undefined);
  return (
    <>
      <strong><Outside text={named('ordered', name)} /></strong>
      {members.map(([member, value]) => <span key={member} class="sub">{named('member', member)}: <Outside text={textOf(value)} /></span>)}
      {ids.length > 0 && (
        <span class="sub">
          {ids.slice(0, STREAMS_SHOWN).map((id, index) => <span key={id}>{index > 0 && ', '}<Id id={id} href={id.startsWith('pay_') ? hashOf('payments', id) : undefined} /></span>)}
          {ids.length > STREAMS_SHOWN && ` ${t('more', { count: ids.length - STREAMS_SHOWN })}`}
        </span>
      )}
    </>
  );
}
