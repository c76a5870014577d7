// Asks once more before an order is given, and says what came of it.

import type { VNode } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';

import { apiError, type ApiError } from '../api.js';
import { shortId } from '../format.js';
import { give, intent, isDone, type ActAnswer, type Intent } from '../orders.js';
import { visible } from '../safe.js';
import { useStore } from '../store.js';
import { t, type TextName } from '../texts.js';
import { Busy, Outside, Problem } from './parts.js';

const REASON_CHARS_MAX = 1000;
const RESULTS_SHOWN = 200;
/** Of an order that was answered so, or not at all, nobody can tell whether it had its effect: an act goes on while nobody waits. */
const isUnclear = ({ status }: ApiError): boolean => status === 0 || status >= 500;

export function ActDialog(): VNode | null {
  const wanted = useStore(intent);
  return wanted ? <Asked key={JSON.stringify([wanted.act, wanted.gateway, wanted.ids])} {...wanted} /> : null;
}

type State = { at: 'asked' } | { at: 'given' } | { at: 'ended'; answers: readonly ActAnswer[]; error?: ApiError };

function questionOf({ act, gateway, ids }: Intent): string {
  const name = `act.${act}.question` as TextName;
  if (ids) return ids.length === 1 ? t('act.replay.question.one', { id: visible(ids[0] ?? '') }) : t(name, { count: ids.length });
  return t(name, { gateway: gateway === undefined ? t('act.everywhere') : visible(gateway) });
}

function Asked(wanted: Intent): VNode {
  const [state, setState] = useState<State>({ at: 'asked' });
  const [reason, setReason] = useState('');
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
    const { answers, error } = await give(wanted, reason.trim());
    setState({ at: 'ended', answers, ...(error ? { error: apiError(error) } : {}) });
    wanted.done?.(answers);
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
          <p><bdi>{questionOf(wanted)}</bdi></p>
          {act === 'pause' && (
            <>
              <label for="act-reason">{t('act.reason')}</label>
              <input id="act-reason" autocomplete="off" maxLength={REASON_CHARS_MAX} value={reason} onInput={({ currentTarget }) => setReason(currentTarget.value)} />
              <p class="muted">{t('act.reason.text')}</p>
            </>
          )}
          <div class="actions">
            <button type="button" onClick={close}>{t('act.cancel')}</button>
            <button type="button" class={act === 'pause' ? 'danger' : 'primary'} onClick={() => void confirm()}>{t(`act.${act}.do`)}</button>
          </div>
        </>
      )}
      <div role="status">{state.at === 'given' && <Busy text={t('act.given')} />}</div>
      {state.at === 'ended' && (
        <>
          {state.error && <Problem isOnce error={state.error} title={t(isUnclear(state.error) ? 'act.unknown' : 'act.refused')} />}
          {state.answers.map((answer) => <Answer key={answer.act_id} answer={answer} />)}
          <div class="actions">
            <button type="button" class="primary" ref={(button) => button?.focus()} onClick={close}>{t('act.close')}</button>
          </div>
        </>
      )}
    </dialog>
  );
}

function Answer({ answer: { act_id, outcome, results = [] } }: { answer: ActAnswer }): VNode {
  const failed = results.filter((result) => !isDone(result));
  const shown = [...failed, ...results.filter(isDone)].slice(0, RESULTS_SHOWN);
  return (
    <div class={`outcome ${!isDone(outcome) ? 'bad' : failed.length ? 'wait' : 'good'}`} role="status">
      <p><strong>{isDone(outcome) ? t('act.done') : t('act.failed')}</strong></p>
      {(outcome.details ?? outcome.error) && <p class="lines"><Outside text={outcome.details ?? outcome.error} /></p>}
      {results.length > 0 && (
        <>
          <p>{t('act.results', { done: results.length - failed.length, count: results.length })}</p>
          <ul class="results" tabIndex={0} aria-label={t('act.results.label')}>
            {shown.map((one) => (
              <li key={one.id} class={isDone(one) ? 'good' : 'bad'}>
                <code title={visible(one.id)}>{visible(shortId(one.id))}</code> {isDone(one) ? t('act.done') : <Outside text={one.error ?? t('act.failed')} />}
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
