// What was taken out of work because it keeps failing, and back into it.

import type { VNode } from 'preact';
import { useEffect, useState } from 'preact/hooks';

import { countText } from '../format.js';
import { useMayAct } from '../me.js';
import { endOf, intent, isDone, type ActAnswer, type ActResult } from '../orders.js';
import { usePolled } from '../poll.js';
import { hashOf } from '../route.js';
import { visible } from '../safe.js';
import { named, t } from '../texts.js';
import type { ParkedItem, ParkedRead } from '../types.js';
import { Ago, Chip, Head, Id, Loaded, OUTCOME_TONES, Outside, Table } from './parts.js';

const EVERY_MS = 10_000;
/** Rows that are shown at once, and more each time that one asks. */
const SHOWN = 300;

export function Parked(): VNode {
  const polled = usePolled<ParkedRead>('parked', EVERY_MS);
  return (
    <>
      <Head title={t('nav.parked')} lead={t('parked.lead')} />
      <Loaded of={polled}>{({ parked, total }) => <List items={parked} total={total} now={polled.now} />}</Loaded>
    </>
  );
}

function List({ items, total, now }: { items: readonly ParkedItem[]; total: number; now: () => void }): VNode {
  const mayAct = useMayAct();
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const [ended, setEnded] = useState<ReadonlyMap<string, ActResult>>(new Map());
  const [shown, setShown] = useState(SHOWN);
  // What is parked no more is chosen no more.
  useEffect(() => {
    const there = new Set(items.map(({ id }) => id));
    setChosen((last) => ([...last].every((id) => there.has(id)) ? last : new Set([...last].filter((id) => there.has(id)))));
  }, [items]);
  const done = (answers: readonly ActAnswer[]): void => {
    const results = answers.flatMap((answer) => answer.results ?? []);
    setEnded((last) => new Map([...last, ...results.map((result) => [result.id, result] as const)]));
    setChosen(new Set());
    now();
  };
  const toggle = (id: string): void => {
    const next = new Set(chosen);
    if (!next.delete(id)) next.add(id);
    setChosen(next);
  };
  const isAll = items.length > 0 && chosen.size === items.length;
  const columns = [{ name: t('parked.id') }, { name: t('parked.cause') }, { name: t('parked.attempts'), isNumber: true }, { name: t('parked.since') }, { name: t('parked.gateway') }, ...(ended.size ? [{ name: t('parked.result') }] : [])];
  const gone = [...ended].filter(([id, result]) => isDone(result) && !items.some((item) => item.id === id)).length;
  return (
    <>
      {mayAct && items.length > 0 && (
        <div class="batch">
          <label class="check">
            <input
              type="checkbox"
              checked={isAll}
              ref={(box) => {
                if (box) box.indeterminate = chosen.size > 0 && !isAll;
              }}
              onChange={() => setChosen(isAll ? new Set() : new Set(items.map(({ id }) => id)))}
            />
            {t('parked.all', { count: countText(items.length) })}
          </label>
          <button type="button" class="primary" disabled={!chosen.size} onClick={() => intent.set({ act: 'replay', ids: [...chosen], done })}>
            {chosen.size ? t('parked.replay', { count: countText(chosen.size) }) : t('act.replay.do')}
          </button>
          {total > items.length && (
            <button type="button" onClick={() => intent.set({ act: 'replay', all: total, done })}>{t('parked.replay.all', { count: countText(total) })}</button>
          )}
        </div>
      )}
      {gone > 0 && <p class="note good" role="status">{t('parked.gone', { count: countText(gone) })}</p>}
      {total > items.length && <p class="note wait">{t('parked.first', { count: countText(items.length), total: countText(total) })}</p>}
      <Table label={t('nav.parked')} isEmpty={!items.length} empty={t('parked.none')} columns={mayAct ? [{ name: t('parked.choose') }, ...columns] : columns}>
        {items.slice(0, shown).map((item) => {
          const { id, kind, since, cause, text, attempts, gateway } = item;
          const result = ended.get(id);
          return (
            <tr key={id}>
              {mayAct && <td class="tick"><input type="checkbox" aria-label={t('parked.choose.one', { id: visible(id) })} checked={chosen.has(id)} onChange={() => toggle(id)} /></td>}
              <td>{kind === 'payment' ? <Id id={id} href={hashOf('payments', id)} /> : <><Id id={id} /> <span class="sub">{named('kind', kind)}</span></>}</td>
              <td class="wide"><Chip tone="bad"><Outside text={named('cause', cause)} /></Chip> <span class="clamped" title={visible(text)}><Outside text={text} /></span></td>
              <td class="number">{countText(attempts)}</td>
              <td><Ago at={since} /></td>
              <td><Outside text={gateway} /></td>
              {ended.size > 0 && <td>{result && <Chip tone={OUTCOME_TONES[endOf(result)]}><Outside text={isDone(result) ? t('parked.again') : (result.error ?? t(`act.${endOf(result)}`))} /></Chip>}</td>}
            </tr>
          );
        })}
      </Table>
      {items.length > shown && <p><button type="button" onClick={() => setShown(shown + SHOWN)}>{t('more', { count: countText(items.length - shown) })}</button></p>}
    </>
  );
}
