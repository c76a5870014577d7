// Asks once more before an order is given, and says what came of it.

import type { VNode } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';

import { whoPaused, type ActsPage, type Order } from '../acts.js';
import { ask, type ApiError } from '../api.js';
import { countText, shortId } from '../format.js';
import { readMe } from '../me.js';
import { endOf, give, IDS_MAX, intent, isDone, isUnclear, type ActAnswer, type Intent } from '../orders.js';
import { visible } from '../safe.js';
import { useStore } from '../store.js';
import { named, t, type TextName } from '../texts.js';
import type { Pause } from '../types.js';
import { Ago, Busy, OUTCOME_TONES, Outside, Problem, Rows, Time } from './parts.js';

/** As the gateway has it. */
const REASON_CHARS_MAX = 500;
const RESULTS_SHOWN = 200;
/** Acts among which is looked for who paused. */
const ACTS_LOOKED_AT = 100;
/** How long a gateway may go on to tell of a pause as it was, and how often it is asked. */
const PAUSE_KEPT_MS = 4000;
const PAUSE_EVERY_MS = 400;

export function ActDialog(): VNode | null {
  const wanted = useStore(intent);
  return wanted ? <Asked key={JSON.stringify([wanted.act, wanted.gateway, wanted.ids, wanted.all])} {...wanted} /> : null;
}

interface Ended {
  at: 'ended';
  answers: readonly ActAnswer[];
  error?: ApiError;
  /** Whether somebody else has done it already. */
  isDone?: boolean;
}

type State = { at: 'asked'; changed?: string } | { at: 'given' } | Ended;

function questionOf({ act, gateway, ids, all }: Intent): string {
  const name = `act.${act}.question` as TextName;
  if (all !== undefined) return t('act.replay.question.all', { count: countText(all), most: countText(IDS_MAX) });
  if (ids) return ids.length === 1 ? t('act.replay.question.one', { id: visible(ids[0] ?? '') }) : t(name, { count: ids.length });
  return t(name, { gateway: gateway === undefined ? t('act.everywhere') : visible(gateway) });
}

/** Why the gateway did not do it, where it says so for certain. */
function refusalOf({ answers, error }: { answers: readonly ActAnswer[]; error?: ApiError }): string | undefined {
  if (error) return [400, 409, 412].includes(error.status) ? error.message : undefined;
  const failed = answers.find(({ outcome }) => endOf(outcome) === 'failed');
  return failed && (failed.outcome.error ?? '');
}

/** What was said last of the pause, where that is no more what was `shown`; `undefined` where it still is, or nobody can tell. */
async function changedFrom(shown: Pause): Promise<Pause | 'resumed' | undefined> {
  const end = Date.now() + PAUSE_KEPT_MS;
  for (;;) {
    const { pause, pause_unknown } = await readMe();
    if (!pause_unknown && !pause?.paused) return 'resumed';
    if (pause && pause.since !== shown.since) return pause;
    if (Date.now() > end) return undefined;
    await new Promise((resolve) => setTimeout(resolve, PAUSE_EVERY_MS));
  }
}

function Asked(wanted: Intent): VNode {
  const [state, setState] = useState<State>({ at: 'asked' });
  const [reason, setReason] = useState('');
  // What is answered for is what is shown, whatever comes meanwhile.
  const [pause, setPause] = useState(wanted.pause);
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const shown = dialog.current;
    const before = document.activeElement;
    shown?.showModal();
    return () => {
      shown?.close();
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    };
  }, []);
  const close = (): void => {
    if (state.at === 'given') return;
    intent.set(undefined);
  };
  const confirm = async (): Promise<void> => {
    setState({ at: 'given' });
    const given = await give(pause ? { ...wanted, pause } : wanted, reason.trim());
    const refusal = pause && refusalOf(given);
    const changed = pause && refusal !== undefined ? await changedFrom(pause).catch(() => undefined) : undefined;
    if (changed !== undefined && changed !== 'resumed') {
      setPause(changed);
      setState({ at: 'asked', changed: refusal ?? '' });
    } else setState({ at: 'ended', ...given, isDone: changed === 'resumed' });
    wanted.done?.(given.answers);
  };
  const { act } = wanted;
  return (
    <dialog
      ref={dialog}
      aria-labelledby="act-title"
      onCancel={(event) => {
        event.preventDefault();
        close();
      }}
    >
      <h2 id="act-title">{t(state.at === 'asked' ? `act.${act}.title` : `ordered.${act}`)}</h2>
      {state.at === 'asked' && (
        <>
          {state.changed !== undefined && (
            <div class="problem" role="alert">
              <p class="problem-title">{t('act.changed')}</p>
              <p><Outside text={state.changed} /></p>
            </div>
          )}
          <p><bdi>{questionOf(wanted)}</bdi></p>
          {pause && <PauseFacts key={pause.since} {...pause} />}
          {act === 'pause' && (
            <>
              <label for="act-reason">{t('act.reason')}</label>
              <input id="act-reason" autocomplete="off" maxLength={REASON_CHARS_MAX} value={reason} onInput={({ currentTarget }) => setReason(currentTarget.value)} />
              <p class="muted">{t('act.reason.text')}</p>
            </>
          )}
          <div class="actions">
            <button type="button" ref={(button) => void (state.changed !== undefined && button?.focus())} onClick={close}>{t('act.cancel')}</button>
            <button type="button" class={act === 'pause' ? 'danger' : 'primary'} onClick={() => void confirm()}>{t(`act.${act}.do`)}</button>
          </div>
        </>
      )}
      <div role="status">{state.at === 'given' && <Busy text={t('act.given')} />}</div>
      {state.at === 'ended' && (
        <>
          {state.isDone ? <p class="note good" role="status">{t('act.resume.already')}</p> : <Came {...state} />}
          <div class="actions">
            <button type="button" class="primary" ref={(button) => button?.focus()} onClick={close}>{t('act.close')}</button>
          </div>
        </>
      )}
    </dialog>
  );
}

/** The pause that is to end, and who ordered it as far as the record tells. */
function PauseFacts(pause: Pause): VNode {
  const { since, reason } = pause;
  const [by, setBy] = useState<Order | null>();
  useEffect(() => {
    const over = new AbortController();
    const { signal } = over;
    ask<ActsPage>(`acts?limit=${ACTS_LOOKED_AT}`, { signal }).then(
      ({ acts }) => setBy(whoPaused(acts, pause) ?? null),
      () => signal.aborted || setBy(null),
    );
    return () => over.abort();
  }, []);
  return (
    <Rows
      rows={[
        [t('act.pause.since'), <><Time at={since} /> <span class="muted">(<Ago at={since} />)</span></>],
        [t('act.pause.reason'), reason ? <q><Outside text={reason} /></q> : <span class="muted">{t('act.pause.none')}</span>],
        [t('act.pause.by'), by ? <><strong><Outside text={by.by} /></strong> <span class="muted">{named('origin', by.origin)}</span></> : <span class="muted">{t(by === undefined ? 'loading' : 'act.pause.unknown')}</span>],
      ]}
    />
  );
}

/** What came of an order. */
function Came({ answers, error }: Ended): VNode {
  // The gateway itself says whether it was done, where it says so at all.
  const title = (): TextName => {
    if (error?.isUnsent) return 'act.unsent';
    if (error?.status === 503) return 'act.unclear';
    return error && isUnclear(error) ? 'act.lost' : 'act.refused';
  };
  return (
    <>
      {error && <Problem isOnce error={error} title={t(title())} />}
      {error && isUnclear(error) && <p>{t('act.look')}</p>}
      {answers.map((answer) => <Answer key={answer.act_id} answer={answer} />)}
    </>
  );
}

function Answer({ answer: { act_id, outcome, results = [], left = 0 } }: { answer: ActAnswer }): VNode {
  const others = results.filter((result) => !isDone(result));
  const shown = [...others, ...results.filter(isDone)].slice(0, RESULTS_SHOWN);
  const end = endOf(outcome);
  const said = outcome.details ?? outcome.error;
  return (
    <div class={`outcome ${end === 'done' && (others.length || left) ? 'wait' : OUTCOME_TONES[end]}`} role="status">
      <p><strong>{t(`act.${end}`)}</strong></p>
      {said && <p class="lines"><Outside text={said} /></p>}
      {left > 0 && <p>{t('act.left', { count: countText(left) })}</p>}
      {results.length > 0 && (
        <>
          <p>{t('act.results', { done: results.length - others.length, count: results.length })}</p>
          <ul class="results" tabIndex={0} aria-label={t('act.results.label')}>
            {shown.map((one) => (
              <li key={one.id} class={OUTCOME_TONES[endOf(one)]}>
                <code title={visible(one.id)}>{visible(shortId(one.id))}</code> <Outside text={isDone(one) ? t('act.done') : (one.error ?? t(`act.${endOf(one)}`))} />
              </li>
            ))}
          </ul>
          {results.length > shown.length && <p class="muted">{t('more', { count: results.length - shown.length })}</p>}
        </>
      )}
      <p class="muted">{t('act.id', { id: visible(act_id) })}</p>
    </div>
  );
}
