// All gateways of the installation: which shards they drive, how far their read models are, what they are alarmed by.

import type { VNode } from 'preact';

import { compactText, countText, secondsText } from '../format.js';
import { useMayAct } from '../me.js';
import { intent } from '../orders.js';
import { usePolled } from '../poll.js';
import { hashOf } from '../route.js';
import { visible } from '../safe.js';
import { named, t } from '../texts.js';
import type { Gateways as Read, GatewayStatus, Rebuild, Shard } from '../types.js';
import { Ago, Chip, Head, Loaded, Outside, Rows, Time } from './parts.js';

const EVERY_MS = 10_000;
/** Commits behind the stream from which a shard is marked. */
const LAG_MARKED = 100;

export function Gateways(): VNode {
  const polled = usePolled<Read>('gateways', EVERY_MS);
  const mayAct = useMayAct();
  const act = (name: 'rebuild' | 'acknowledge', gateway?: string): void => intent.set({ act: name, ...(gateway === undefined ? {} : { gateway }), done: polled.now });
  return (
    <>
      <Head title={t('nav.gateways')} lead={t('gateways.lead')}>
        {mayAct && <button type="button" onClick={() => act('rebuild')}>{t('act.rebuild.all')}</button>}
      </Head>
      <Loaded of={polled}>
        {({ gateways, silent }) => (
          <>
            {silent.length > 0 && <p class="note bad">{t('gateways.silent')} <Outside text={silent.join(', ')} /></p>}
            {!gateways.length && <p class="empty">{t('gateways.none')}</p>}
            {gateways.map(({ gateway, result, error }) => (
              <section key={`${gateway} ${result?.instance ?? ''}`} class="card">
                <div class="head">
                  <h2><Outside text={gateway} /> {result && <span class="muted"><Outside text={`gw ${result.version}`} /></span>}</h2>
                  {mayAct && result && (
                    <div class="actions">
                      {result.journal_alarms.length > 0 && <button type="button" class="primary" onClick={() => act('acknowledge', gateway)}>{t('act.acknowledge.do')}</button>}
                      <button type="button" onClick={() => act('rebuild', gateway)}>{t('act.rebuild.do')}</button>
                    </div>
                  )}
                </div>
                {result ? <Status {...result} /> : <p class="note bad"><Outside text={error ?? t('gateways.empty')} /></p>}
              </section>
            ))}
          </>
        )}
      </Loaded>
    </>
  );
}

function Status({ instance, listen, started_at, uptime_seconds, shards, rebuild, journal_alarms, unattested, misconfigured }: GatewayStatus): VNode {
  const driven = shards.filter(({ owned }) => owned).length;
  const behind = shards.reduce((sum, shard) => sum + (lagOf(shard) ?? 0), 0);
  return (
    <>
      {journal_alarms.map((alarm, at) => <p key={at} class="note bad"><strong>{t('gateways.alarm', { shard: alarm.shard })}</strong> <Outside text={alarm.message} /> <span class="muted">· <Ago at={alarm.found_at} /></span></p>)}
      {unattested > 0 && <p class="note bad"><a href={hashOf('payments', undefined, { overdue: 'true' })}>{t('gateways.unattested', { count: countText(unattested) })}</a></p>}
      {misconfigured > 0 && <p class="note wait">{t('gateways.misconfigured', { count: countText(misconfigured) })}</p>}
      <Rows
        rows={[
          [t('gateways.up'), <>{secondsText(uptime_seconds)} <span class="muted">{t('gateways.started')} <Time at={started_at} /></span></>],
          [t('gateways.listen'), <Outside text={listen} />],
          [t('gateways.instance'), <code><Outside text={instance} /></code>],
          [t('gateways.shards'), t('gateways.shards.text', { driven, count: shards.length, behind: countText(behind) })],
        ]}
      />
      {rebuild && <RebuildView {...rebuild} />}
      <ul class="shards" aria-label={t('gateways.shards')}>{shards.map((shard) => <ShardView key={shard.shard} {...shard} />)}</ul>
      <p class="legend muted" aria-hidden="true"><span class="shard owned live" /> {t('shard.owned')} <span class="shard live" /> {t('shard.live')} <span class="shard behind" /> {t('shard.behind')} <span class="shard stopped" /> {t('shard.stopped')}</p>
    </>
  );
}

const lagOf = ({ head, checkpoint }: Shard): number | undefined => (head === undefined ? undefined : Math.max(0, head - checkpoint));

function ShardView(shard: Shard): VNode {
  const lag = lagOf(shard);
  const look = shard.state === 'stopped' ? 'stopped' : shard.state !== 'live' || (lag ?? 0) >= LAG_MARKED ? 'behind' : 'live';
  const owned = shard.owned === undefined ? t('shard.unknown') : shard.owned ? t('shard.owned') : t('shard.other');
  const text = t('shard.text', {
    shard: shard.shard,
    owned,
    state: named('shard.state', shard.state),
    checkpoint: shard.checkpoint,
    head: shard.head ?? '?',
    lag: lag ?? '?',
  }) + (shard.reason ? `: ${visible(shard.reason)}` : '');
  return (
    <li class={`shard ${look}${shard.owned ? ' owned' : ''}`} title={text}>
      <span aria-hidden="true">{shard.shard}<small>{lag === undefined ? '?' : lag ? `−${compactText(lag)}` : ''}</small></span>
      <span class="hidden">{text}</span>
    </li>
  );
}

function RebuildView({ state, started_at, ended_at, error, shards }: Rebuild): VNode {
  const [done, total] = shards.reduce<[number, number]>(([d, all], shard) => [d + shard.done, all + shard.total], [0, 0]);
  const wrong = shards.filter(({ verdict }) => verdict?.result === 'different');
  const label = t('rebuild.progress', { done: countText(done), total: countText(total) });
  return (
    <div class="rebuild">
      <p>
        <strong>{t('rebuild.title')}</strong> <Chip tone={error ? 'bad' : ended_at ? 'good' : 'wait'}><Outside text={named('rebuild', state)} /></Chip>{' '}
        <span class="muted">{ended_at ? <Ago at={ended_at} /> : <>{label} · <Ago at={started_at} /></>}</span>
      </p>
      {!ended_at && <progress value={done} max={Math.max(1, total)} aria-label={label} />}
      {error && <p class="note bad"><Outside text={error} /></p>}
      {wrong.map(({ shard, verdict }) => (
        <p key={shard} class="note bad">
          {t('rebuild.wrong', { shard, count: verdict?.count ?? 0 })} {Array.isArray(verdict?.streams) && <Outside text={verdict.streams.join(', ')} />}
        </p>
      ))}
    </div>
  );
}
