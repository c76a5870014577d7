// One payment: how it went, its transactions, and everything the journal has of it.

import type { VNode } from 'preact';
import { useMemo, useState } from 'preact/hooks';

import { chainOf } from '../../chains.js';
import { amountOf, assetOf, countText, nameOf, preciseText, sinceText, spanText, symbolOf, timeText } from '../format.js';
import { marksOf, transactionsOf, verifiersOf, type SeenVerifiers } from '../lanes.js';
import { useChains, useMayAct } from '../me.js';
import { intent } from '../orders.js';
import { usePolled } from '../poll.js';
import { hashOf } from '../route.js';
import { textOf, visible } from '../safe.js';
import { named, t } from '../texts.js';
import type { Chain, Commit, ParkedState, ParkingEntry, PaymentDetail, Row } from '../types.js';
import { SwimLanes } from './lanes.js';
import { Ago, Chip, Hash, Head, Id, Loaded, Outside, Rows, Table, Time } from './parts.js';
import { stageText, toneOf } from './payments.js';

const EVERY_MS = 10_000;
/** What the first commit of a chain follows. */
const FIRST = /^(?:0x)?0+$/;

export function Payment({ id }: { id: string }): VNode {
  const polled = usePolled<PaymentDetail>(`payments/${encodeURIComponent(id)}`, EVERY_MS);
  return (
    <>
      <p class="back"><a href={hashOf('payments')} onClick={(event) => {
        // Where one came from the list, one goes back to it as it was.
        if (history.length < 2) return;
        event.preventDefault();
        history.back();
      }}>← {t('nav.payments')}</a></p>
      <Head title={t('payment.title')} lead={<Id id={id} isWhole />} />
      <Loaded of={polled}>{(detail) => <Detail id={id} {...detail} now={polled.now} />}</Loaded>
    </>
  );
}

function Detail({ id, payment, commits, has_more, parked, now }: PaymentDetail & { id: string; now: () => void }): VNode {
  const chains = useChains();
  const marks = useMemo(() => marksOf(commits), [commits]);
  const transactions = useMemo(() => transactionsOf(commits), [commits]);
  const verifiers = useMemo(() => verifiersOf(commits), [commits]);
  return (
    <>
      {payment ? <Summary row={payment} chains={chains} verifiers={verifiers} /> : <p class="note bad">{t('payment.unreadable')}</p>}
      {parked && <ParkedPanel id={id} parked={parked} now={now} />}
      <section>
        <h2>{t('lanes.title')}</h2>
        {marks.length ? <SwimLanes marks={marks} /> : <p class="empty">{t('commits.none')}</p>}
      </section>
      <section>
        <h2>{t('transactions.title')}</h2>
        <Table
          label={t('transactions.title')}
          isEmpty={!transactions.length}
          empty={t('transactions.none')}
          columns={[{ name: t('transactions.for') }, { name: t('transactions.hash') }, { name: t('transactions.chain') }, { name: t('transactions.block'), isNumber: true }, { name: t('transactions.at') }]}
        >
          {transactions.map(({ chainId, hash, type, block, at }) => (
            <tr key={`${chainId} ${hash}`}>
              <td><Outside text={named('event', type)} /></td>
              <td><Hash chainId={chainId} hash={hash} /></td>
              <td><Outside text={nameOf(chains, chainId)} /></td>
              <td class="number">{block === undefined ? <span class="muted">–</span> : countText(block)}</td>
              <td><Time at={at} /></td>
            </tr>
          ))}
        </Table>
      </section>
      <section>
        <h2>{t('commits.title')} <span class="muted">{countText(commits.length)}</span></h2>
        <p class="lead">{t('commits.text')}</p>
        <ol class="commits">{commits.map((commit) => <CommitView key={`${commit.stream} ${commit.sequence}`} {...commit} />)}</ol>
        {has_more && <p class="note wait">{t('commits.more')}</p>}
      </section>
    </>
  );
}

/** Who of a verifier set has attested, that it was delivered or that it was not. */
function Verifiers({ threshold, members, attested }: SeenVerifiers): VNode {
  return (
    <>
      {t('payment.verifiers.text', { threshold, count: members.length, attested: attested.length })}
      {members.map((member) => (
        <div key={member}><Id id={member} isWhole />{attested.includes(member) && <> <Chip tone="good">{t('payment.attested')}</Chip></>}</div>
      ))}
    </>
  );
}

function Summary({ row, chains, verifiers }: { row: Row; chains: readonly Chain[]; verifiers: SeenVerifiers | undefined }): VNode {
  const { source, destination, overdue, settler, rate } = row;
  const money = (assetId: string, units: string): VNode => {
    const asset = assetOf(chains, assetId);
    return <strong>{amountOf(asset, units)} <bdi>{visible(symbolOf(asset))}</bdi></strong>;
  };
  const on = (assetId: string): VNode => <span class="muted">{t('on')} <bdi>{visible(nameOf(chains, chainOf(assetId)))}</bdi></span>;
  const took = row.finished_at ? Date.parse(row.finished_at) - Date.parse(row.submitted_at) : Number.NaN;
  return (
    <section class="card summary">
      <p class="states">
        <span class={`status big ${toneOf(row.status)}`}>{named('status', row.status)}</span> <span class="muted"><Outside text={stageText(row)} /></span>
        {overdue && <Chip tone="bad">{t('overdue.chip', { step: named('overdue', overdue.step), span: sinceText(overdue.since) })}</Chip>}
        {row.parked && <Chip tone="bad">{t('parked.chip')}</Chip>}
      </p>
      <div class="sides">
        <div>
          <h2>{t('payment.source')}</h2>
          <p class="money">{source.paid_amount === undefined ? <><span class="muted">≤ </span>{money(source.asset_identifier, source.permitted_amount)}</> : money(source.asset_identifier, source.paid_amount)} {on(source.asset_identifier)}</p>
          <p><Id id={source.account} isWhole /></p>
          {source.paid_amount !== undefined && <p class="muted">{t('payment.permitted')} {money(source.asset_identifier, source.permitted_amount)}{source.refunded && <> · {t('stage.refunded')}</>}</p>}
        </div>
        <div>
          <h2>{t('payment.destination')}</h2>
          {destination ? (
            <>
              <p class="money">{money(destination.asset_identifier, destination.amount)} {on(destination.asset_identifier)}</p>
              <p><Id id={destination.account} isWhole /></p>
              <p class="muted">{destination.delivered ? t('payment.delivered') : row.status === 'failed' ? t('payment.never') : t('payment.undelivered')}</p>
            </>
          ) : <p class="muted">{t('payment.unawarded')}</p>}
        </div>
      </div>
      <Rows
        rows={[
          [t('payment.submitted'), <><Time at={row.submitted_at} /> <span class="muted">(<Ago at={row.submitted_at} />)</span></>],
          row.finished_at !== undefined && [t('payment.finished'), <><Time at={row.finished_at} />{!Number.isNaN(took) && <span class="muted"> {t('payment.took', { span: spanText(took) })}</span>}</>],
          overdue && [t('payment.overdue'), <>{named('overdue', overdue.step)}, {t('payment.since')} <Time at={overdue.since} /></>],
          row.failure_code !== undefined && [t('payment.failure'), <code><Outside text={row.failure_code} /></code>],
          settler !== undefined && [t('payment.settler'), <Id id={settler} isWhole href={hashOf('payments', undefined, { settler })} />],
          [t('payment.verifier'), <Id id={row.verifier} isWhole />],
          verifiers && [t('payment.verifiers'), <Verifiers {...verifiers} />],
          [t('payment.originator'), <Id id={row.originator} isWhole href={hashOf('payments', undefined, { originator: row.originator })} />],
          [t('payment.request'), <Id id={row.request_id} isWhole />],
          rate && [t('payment.rate'), <Outside text={`${rate.numerator} / ${rate.denominator}`} />],
          [t('payment.shard'), `${row.shard}, ${t('payment.version', { version: row.version })}`],
        ]}
      />
    </section>
  );
}

function ParkedPanel({ id, parked, now }: { id: string; parked: ParkedState; now: () => void }): VNode {
  const mayAct = useMayAct();
  return (
    <section class="card parked" aria-labelledby="parked-title">
      <h2 id="parked-title">{t('parked.title')} <span class="muted"><Ago at={parked.since} /></span></h2>
      <p><Chip tone="bad"><Outside text={named('cause', parked.kind ?? 'unknown')} /></Chip>{' '}
        {parked.attempts !== null && t('parked.by', { count: parked.attempts, gateway: visible(parked.gateway ?? '–') })}</p>
      <pre class="said-by" tabIndex={0} role="region" aria-label={t('parked.cause')}><bdi>{visible(parked.text)}</bdi></pre>
      <h3>{t('parked.advice')}</h3>
      <p class="lines"><Outside text={parked.advice} /></p>
      {parked.history.length > 0 && (
        <details>
          <summary>{t('parked.history', { count: parked.history.length })}</summary>
          <ol class="history">{parked.history.map((entry, at) => <li key={at}><Time at={entry.stored_at} /> {named('parking', entry.entry)}: <Outside text={historyText(entry)} /></li>)}</ol>
        </details>
      )}
      {mayAct && (
        <div class="actions">
          <button type="button" class="primary" onClick={() => intent.set({ act: 'replay', ids: [id], done: now })}>{t('act.replay.do')}</button>
        </div>
      )}
    </section>
  );
}

function historyText({ cause, by, reason }: ParkingEntry): string {
  if (cause) return `${cause.kind}: ${cause.text}`;
  return by === undefined ? (reason ?? '') : t('parked.replayed', { by });
}

function CommitView({ version, sequence, stream, stored_at, commit_id, previous, hash, events, unreadable, body }: Commit): VNode {
  return (
    <li class="commit">
      <div class="commit-head">
        <span class="version" title={t('commits.version', { version: version ?? '?' })}>{version ?? '?'}</span>
        <strong><Outside text={events.map(({ type }) => named('event', type)).join(', ')} /></strong>
        <time dateTime={visible(stored_at)} title={visible(timeText(stored_at))} class="muted">{visible(preciseText(stored_at))}</time>
        <span class="muted"><Outside text={stream} /> · {t('commits.sequence', { sequence })}</span>
      </div>
      <div class="chain">
        <span class="muted">{t('commits.id')}</span> {commit_id ? <Id id={commit_id} /> : '–'}
        <span class="muted">{t('commits.hash')}</span> {previous && !FIRST.test(previous) ? <Id id={previous} /> : <span class="muted">{t('commits.first')}</span>} <span aria-hidden="true">→</span> <Id id={hash} />
      </div>
      {unreadable && <p class="note bad"><Outside text={unreadable} /></p>}
      {body !== undefined && <pre tabIndex={0} role="region" aria-label={t('commits.body')}><bdi>{visible(body)}</bdi></pre>}
      {events.map((event, at) => <Raw key={at} type={event.type} data={event.data} />)}
    </li>
  );
}

/** An event as it is stored, made into text only once it is looked at. */
function Raw({ type, data }: { type: string; data: unknown }): VNode {
  const [isOpen, setOpen] = useState(false);
  return (
    <details onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
      <summary><code><Outside text={type} /></code></summary>
      {isOpen && <pre tabIndex={0} role="region" aria-label={textOf(type)}><bdi>{visible(JSON.stringify(data ?? null, null, 2))}</bdi></pre>}
    </details>
  );
}
