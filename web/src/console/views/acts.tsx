// The record of what operators ordered, and what came of it.

import type { VNode } from 'preact';
import { useMemo, useRef, useState } from 'preact/hooks';

import { apiError, ask, type ApiError } from '../api.js';
import { spanText } from '../format.js';
import { isDone, toldOf, type ActsPage, type Order, type Recorded, type Told } from '../orders.js';
import { usePolled } from '../poll.js';
import { hashOf } from '../route.js';
import { textOf } from '../safe.js';
import { named, t } from '../texts.js';
import { Chip, Head, Id, Loaded, Outside, Problem, Table, Time } from './parts.js';

const EVERY_MS = 10_000;
const LIMIT = 100;
/** Streams of one order that are named. */
const STREAMS_SHOWN = 3;

export function Acts(): VNode {
  const polled = usePolled<ActsPage>(`acts?limit=${LIMIT}`, EVERY_MS);
  return (
    <>
      <Head title={t('nav.acts')} lead={t('acts.lead')} />
      <Loaded of={polled}>{(page) => <List newest={page} />}</Loaded>
    </>
  );
}

function List({ newest }: { newest: ActsPage }): VNode {
  const [further, setFurther] = useState<{ acts: Recorded[]; next: number | null }>();
  const [error, setError] = useState<ApiError>();
  const isAsking = useRef(false);
  // Once older ones are loaded, what leaves the newest page is kept.
  const kept = useRef(new Map<number, Recorded>());
  const told = useMemo(() => {
    for (const act of [...newest.acts, ...(further?.acts ?? [])]) kept.current.set(act.sequence, act);
    return toldOf([...kept.current.values()]);
  }, [newest, further]);
  const next = further ? further.next : newest.next_before;
  const more = async (): Promise<void> => {
    if (next === null || isAsking.current) return;
    isAsking.current = true;
    setError(undefined);
    try {
      const page = await ask<ActsPage>(`acts?limit=${LIMIT}&before=${next}`);
      setFurther({ acts: page.acts, next: page.next_before });
    } catch (thrown) {
      setError(apiError(thrown));
    } finally {
      isAsking.current = false;
    }
  };
  return (
    <>
      <Table label={t('nav.acts')} isEmpty={!told.length} empty={t('acts.none')} columns={[{ name: t('acts.when') }, { name: t('acts.who') }, { name: t('acts.what') }, { name: t('acts.outcome') }]}>
        {told.map((act) => <Act key={act.sequence} {...act} />)}
      </Table>
      {error && <Problem isOnce error={error} />}
      {next !== null && <p><button type="button" onClick={() => void more()}>{t('acts.older')}</button></p>}
    </>
  );
}

function Act({ at, order, end, unknown, id }: Told): VNode {
  return (
    <tr>
      <td><Time at={at} />{id && <span class="sub"><Id id={id} /></span>}</td>
      <td>{order ? <><strong><Outside text={order.by} /></strong><span class="sub">{named('origin', order.origin)}{order.gateway && <> · <Outside text={order.gateway} /></>}</span></> : <span class="muted">–</span>}</td>
      <td class="wide">{order ? <What {...order} /> : <span class="muted">{t('acts.unknown')} <Outside text={unknown} /></span>}</td>
      <td class="wide">
        {order && (end
          ? <><Chip tone={isDone(end.outcome) ? 'good' : 'bad'}>{t(isDone(end.outcome) ? 'act.done' : 'act.failed')}</Chip> <span class="muted">{tookText(at, end.at)}</span>
            {(end.outcome.details ?? end.outcome.error) && <span class="sub lines"><Outside text={end.outcome.details ?? end.outcome.error} /></span>}</>
          : <Chip tone="wait" title={t('acts.open.title')}>{t('acts.open')}</Chip>)}
      </td>
    </tr>
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
