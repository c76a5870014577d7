// What becomes of each payment of a batch that was signed.

import type { VNode } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';

import type { Defaults } from '../../../../sdk/typescript/src/types.js';
import { run } from '../../batch/run.js';
import { forgetBatch, isDue, isOver, type KeptBatch, type KeptPayment } from '../../batch/store.js';
import { useIsLost } from '../../gateway.js';
import { problemOf, type ProblemText } from '../../problems.js';
import { t } from '../../texts.js';
import { Busy, Card, Problem, Rows, Time } from '../parts.js';
import { PaymentTable, type ShownPayment, Sums } from './table.js';

interface WatchProps {
  batch: KeptBatch;
  defaults: Defaults;
  onChange: (batch: KeptBatch) => void;
}

interface Shown extends ShownPayment {
  kept: KeptPayment;
}

export function Watch({ batch, defaults, onChange }: WatchProps): VNode {
  const [round, setRound] = useState(0);
  const [problem, setProblem] = useState<ProblemText>();
  const isLost = useIsLost();
  const title = useRef<HTMLHeadingElement>(null);
  useEffect(() => title.current?.focus(), []);
  useEffect(() => {
    const over = new AbortController();
    setProblem(undefined);
    run(batch, onChange, over.signal).catch((error: unknown) => {
      if (!over.signal.aborted) setProblem(problemOf(error));
    });
    return () => over.abort();
  }, [batch.root, round]);
  const { payments, source, at, root } = batch;
  const shown = payments.map((kept): Shown => ({ ...kept, amount: BigInt(kept.amount), most: BigInt(kept.most), kept }));
  const count = (is: (payment: KeptPayment) => boolean): number => payments.filter(is).length;
  const counts = {
    done: count(({ standing }) => standing.is === 'accepted' && standing.status === 'completed'),
    running: count(({ standing }) => standing.is === 'accepted' && standing.status !== 'completed' && standing.status !== 'failed'),
    failed: count(({ standing }) => standing.is === 'refused' || (standing.is === 'accepted' && standing.status === 'failed')),
    due: count(isDue),
  };
  const over = isOver(batch);
  const lacks = count(({ standing }) => standing.is === 'unfunded');
  const later = count(({ standing }) => standing.is === 'later');
  return (
    <article class="checkout">
      <header>
        <h1 id="title" ref={title} tabIndex={-1}>{t(over ? 'batch.over' : 'batch.under')}</h1>
        <p role="status">{t('batch.counts', counts)}</p>
      </header>
      {isLost && <Problem title={t('live.off.title')} text={t(counts.due ? 'error.offline.signed' : 'live.off')} />}
      {problem && (
        <Problem {...problem}>
          <div class="actions"><button type="button" onClick={() => setRound(round + 1)}>{t('error.retry')}</button></div>
        </Problem>
      )}
      {!over && !problem && !(lacks && lacks === counts.due && !counts.running) && <Busy text={t(counts.due > lacks ? 'batch.handing' : 'batch.following')} />}
      {lacks + later > 0 && (
        <Card title={t('batch.due')}>
          <p>{t(lacks ? 'batch.due.funds' : 'batch.due.text', { count: lacks || later })}</p>
          <div class="actions"><button type="button" onClick={() => setRound(round + 1)}>{t('batch.due.do')}</button></div>
        </Card>
      )}
      <section class="card" aria-labelledby="title">
        <Sums payments={shown} defaults={defaults} source={source.asset_identifier} />
        <PaymentTable payments={shown} defaults={defaults} source={source.asset_identifier} last={{ title: t('batch.state'), of: ({ kept }) => <State {...kept} /> }} />
      </section>
      <section class="card">
        <Rows
          rows={[
            { name: t('field.payer'), value: <code>{source.account}</code> },
            { name: t('batch.signed'), value: <Time at={at} /> },
            { name: t('batch.deadline'), value: <Time at={new Date(batch.reserveDeadline * 1000).toISOString()} /> },
            { name: t('batch.root'), value: <code>{root}</code> },
          ]}
        />
        <p class="muted">{t('batch.keep')}</p>
        {over && (
          <div class="actions">
            <button
              type="button"
              onClick={() => {
                forgetBatch(root);
                location.replace('/pay#batch');
              }}
            >
              {t('batch.forget')}
            </button>
          </div>
        )}
      </section>
    </article>
  );
}

function State({ paymentId, standing }: KeptPayment): VNode {
  switch (standing.is) {
    case 'open':
      return <span>{t('batch.state.open')}</span>;
    case 'later':
      return <span>{t('batch.state.later')} <code>{standing.code}</code></span>;
    case 'unfunded':
      return <span class="fault">{t('batch.state.unfunded')} <code>{standing.code}</code></span>;
    case 'refused':
      return <span class="fault">{t('batch.state.refused')} {standing.message} <code>{standing.code}</code></span>;
    case 'accepted':
      return (
        <a href={`/pay/${paymentId}`}>
          {t(`batch.state.${standing.status}`)}
          {standing.code !== undefined && <> <code>{standing.code}</code></>}
        </a>
      );
  }
}
