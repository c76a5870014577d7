// The frame around all views: the way between them, who one is, and what has to be known everywhere.

import type { VNode } from 'preact';
import { useEffect, useRef } from 'preact/hooks';

import { useNow } from '../../clock.js';
import { session, signOut } from '../api.js';
import { forgetFeed } from '../feed.js';
import { countText, sinceText, timeText } from '../format.js';
import { me, useMePolled } from '../me.js';
import { intent } from '../orders.js';
import { trouble, usePolled } from '../poll.js';
import { hashOf, route, VIEWS, type Route } from '../route.js';
import { visible } from '../safe.js';
import { useStore } from '../store.js';
import { t } from '../texts.js';
import type { Alarms as AlarmsRead } from '../types.js';
import { Acts } from './acts.js';
import { Chains } from './chains.js';
import { ActDialog } from './dialog.js';
import { Gateways } from './gateways.js';
import { Graphs } from './graphs.js';
import { Parked } from './parked.js';
import { Outside, Said } from './parts.js';
import { Payment } from './payment.js';
import { Payments } from './payments.js';
import { Settlers } from './settlers.js';
import { SignIn } from './signin.js';
import { Streams } from './streams.js';
import { Verifiers } from './verifiers.js';

const ALARMS_MS = 5000;
const ALARMS_SHOWN = 5;

export function App(): VNode {
  const { token } = useStore(session);
  return token === undefined ? <SignIn /> : <Signed key={token} />;
}

function Signed(): VNode {
  const known = useStore(me);
  const now = useMePolled();
  const at = useStore(route);
  const alarms = usePolled<AlarmsRead>('alarms', ALARMS_MS);
  const isFirst = useRef(true);
  const urgent = (alarms.value?.overdue ?? 0) + (alarms.value?.parked ?? 0) + (alarms.value?.alarms.length ?? 0);
  const place = at.id === undefined ? t(`nav.${at.view}`) : visible(at.id);
  useEffect(() => {
    document.title = `${urgent ? `(${urgent}) ` : ''}${place} · ${t('app.name')}`;
  }, [urgent, place]);
  // What somebody saw or was about to order is nothing for whoever signs in next.
  useEffect(() => () => {
    forgetFeed();
    intent.set(undefined);
    me.set(undefined);
  }, []);
  useEffect(() => document.querySelector('nav [aria-current]')?.scrollIntoView({ block: 'nearest', inline: 'nearest' }), [at.view]);
  // Whoever goes to another view by keyboard or is read to goes on at its head.
  useEffect(() => {
    if (isFirst.current) isFirst.current = false;
    else document.querySelector<HTMLElement>('#view h1')?.focus();
  }, [at.view, at.id]);
  return (
    <div class="frame">
      <a class="skip" href={location.hash || '#/payments'} onClick={(event) => {
        event.preventDefault();
        document.querySelector<HTMLElement>('#view h1')?.focus();
      }}>{t('app.skip')}</a>
      <header class="side">
        <p class="brand"><a href="#/payments">{t('app.name')}</a></p>
        <nav aria-label={t('nav.label')}>
          <ul>
            {VIEWS.map((view) => (
              <li key={view}>
                <a href={hashOf(view)} {...(at.view === view ? { 'aria-current': 'page' as const } : {})}>
                  {t(`nav.${view}`)}
                  {view === 'parked' && Boolean(alarms.value?.parked) && <span class="badge">{countText(alarms.value?.parked)}</span>}
                </a>
              </li>
            ))}
          </ul>
        </nav>
        <div class="who">
          {known && (
            <>
              <p><strong><Outside text={known.name} /></strong> <br /><span class="muted">{known.may_act ? t('who.acts') : t('who.reads')}</span></p>
              <p class="muted"><Outside text={known.gateway} /><br /><Outside text={`gw ${known.version}`} /></p>
            </>
          )}
          <button type="button" class="quiet" onClick={() => signOut('left')}>{t('signout')}</button>
        </div>
      </header>
      <div class={at.view === 'payments' && at.id === undefined ? 'body filled' : 'body'}>
        <TroubleBar />
        <AlarmBar alarms={alarms.value} now={now} />
        <main id="view" class="view">
          <ViewOf {...at} />
        </main>
      </div>
      <Said />
      <ActDialog />
    </div>
  );
}

function ViewOf({ view, id }: Route): VNode {
  if (view === 'payments') return id === undefined ? <Payments /> : <Payment key={id} id={id} />;
  const Shown = { parked: Parked, settlers: Settlers, verifiers: Verifiers, chains: Chains, gateways: Gateways, streams: Streams, graphs: Graphs, acts: Acts }[view];
  return <Shown />;
}

/** That the gateway is not heard, or cannot answer. What is shown stays. */
function TroubleBar(): VNode {
  const what = useStore(trouble);
  return <div role="status" class="troubles">{what && <TroubleText {...what} />}</div>;
}

function TroubleText({ kind, message, retryAt }: NonNullable<ReturnType<typeof trouble.get>>): VNode {
  const seconds = Math.max(0, Math.ceil((retryAt - useNow()) / 1000));
  return (
    <p class={`bar ${kind === 'lost' || kind === 'other' ? 'bad' : 'wait'}`}>
      <strong>{t(`trouble.${kind}`)}</strong>{' '}
      {kind !== 'lost' && kind !== 'other' && <Outside text={message} />}{' '}
      <span class="muted" aria-hidden="true">{seconds ? t('trouble.again', { seconds }) : t('trouble.now')}</span>
    </p>
  );
}

/** What has to be known wherever one is: the pause, what is past its time, and alarms. */
function AlarmBar({ alarms, now }: { alarms: AlarmsRead | undefined; now: () => void }): VNode {
  const known = useStore(me);
  const pause = known?.pause?.paused ? known.pause : undefined;
  return (
    <div class="alarms">
      <div class="state">
        {pause ? (
          <p class="paused">
            <strong>{t('paused')}</strong>{' '}
            <span title={visible(timeText(pause.since))}>{t('paused.since', { span: sinceText(pause.since) })}</span>
            {pause.reason && <>{' '}<q><Outside text={pause.reason} /></q></>}
          </p>
        ) : (
          <p>{known && (known.pause_unknown
            ? <span class="paused" title={visible(known.pause_unknown)}>{t('paused.unknown')}</span>
            : <><span class="dot good" aria-hidden="true" /> {t('accepting')}</>)}</p>
        )}
        {alarms && (
          <ul class="counts">
            <Count count={alarms.overdue} text={t('count.overdue')} href={hashOf('payments', undefined, { overdue: 'true' })} isBad />
            <Count count={alarms.parked ?? undefined} text={t('count.parked')} href={hashOf('parked')} isBad />
            {alarms.unattested > 0 && <Count count={alarms.unattested} text={t('count.unattested')} href={hashOf('payments', undefined, { overdue: 'true' })} isBad />}
            {alarms.misconfigured > 0 && <Count count={alarms.misconfigured} text={t('count.misconfigured')} href={hashOf('gateways')} isBad />}
          </ul>
        )}
        {known?.may_act && (pause
          ? <button type="button" class="primary" onClick={() => intent.set({ act: 'resume', pause, done: now })}>{t('act.resume.do')}</button>
          : <button type="button" class="quiet" onClick={() => intent.set({ act: 'pause', done: now })}>{t('act.pause.do')}</button>)}
      </div>
      {alarms && !alarms.ready && <p class="bar wait"><strong>{t('notready')}</strong> <Outside text={alarms.not_ready_reason} /></p>}
      {alarms && alarms.alarms.length > 0 && (
        <ul class="bar bad">
          {alarms.alarms.slice(0, ALARMS_SHOWN).map((alarm, at) => <li key={at}><Outside text={alarm} /></li>)}
          {alarms.alarms.length > ALARMS_SHOWN && <li><a href={hashOf('gateways')}>{t('more', { count: alarms.alarms.length - ALARMS_SHOWN })}</a></li>}
        </ul>
      )}
    </div>
  );
}

const Count = ({ count, text, href, isBad }: { count: number | undefined; text: string; href: string; isBad: boolean }): VNode => (
  <li><a href={href} class={isBad && (count ?? 0) > 0 ? 'bad' : ''}><strong>{countText(count)}</strong> {text}</a></li>
);
