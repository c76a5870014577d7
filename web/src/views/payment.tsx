// A payment as a person watches it: money and people first, hashes and ids folded away.

import type { VNode } from 'preact';

import type { Defaults, PaymentStatusRead, TimelineEntry } from '../../../sdk/typescript/src/types.js';
import type { CheckedAddress } from '../addresses.js';
import { chainName } from '../chains.js';
import { amountText } from '../format.js';
import { claimsOf, failureOf, isAwaited, isByAddress, meaningOf, orderOf, type Stage, stagesOf, statusOf, type VerifiersShown, waitingFor } from '../progress.js';
import { maybe, t } from '../texts.js';
import { AwaitedMoney } from './address.js';
import { Account, Accounts, Countdown, Problem, Rows, Time, TransactionLink } from './parts.js';

export interface PaymentProps {
  paymentId: string;
  entries: readonly TimelineEntry[];
  defaults: Defaults | undefined;
  /** The status as it was read last; it counts the confirmations. */
  status: PaymentStatusRead | undefined;
  isLost: boolean;
  /** Where its money is to be sent, where that was checked before. */
  address?: CheckedAddress | undefined;
}

export function PaymentView(props: PaymentProps): VNode {
  const { entries, defaults, isLost } = props;
  const status = statusOf(entries);
  const order = orderOf(entries);
  const failure = failureOf(entries);
  const waiting = waitingFor(entries);
  const isFinal = status === 'completed' || status === 'failed';
  const delivered = entries.findLast(({ event }) => event === 'FulfillmentConfirmed' || event === 'FulfillmentFinalized');
  const first = order?.destinations[0];
  return (
    <article class={`payment ${status}`}>
      <header>
        <h1 id="title" tabIndex={-1}>{t(`status.${status}.title`)}</h1>
        <p role="status">{t(meaningOf(entries, props.status?.deposit_address?.amount))}</p>
      </header>
      {isLost && <Problem title={t('live.off.title')} text={t('live.off')} />}
      {isAwaited(entries) && <AwaitedMoney {...props} />}
      {order && (
        <section class="card" aria-labelledby="title">
          {first && <p class="money">{amountText(defaults, first.asset_identifier, order.amount)}</p>}
          <Rows
            rows={[
              { name: t('field.recipient'), value: <Accounts accounts={order.destinations} /> },
              { name: t(isByAddress(entries) ? 'address.back' : 'field.payer'), value: <Account {...order.source} /> },
              order.cost && { name: t(status === 'failed' && order.cost.isPrice ? 'field.price' : 'field.cost'), value: costText(props, order.source.asset_identifier, order.cost) },
              { name: t('field.requested'), value: <Time at={order.requestedAt} /> },
              delivered && { name: t('field.delivered'), value: <Time at={blockTime(delivered) ?? delivered.at} /> },
              !isFinal && order.fulfillmentDeadline
                ? { name: t('pay.countdown'), value: <Countdown until={order.fulfillmentDeadline} /> }
                : undefined,
              // Once it is delivered, what is waited for concerns the settler alone.
              status !== 'completed' && waiting && { name: t('field.waiting'), value: t(waiting) },
              ...claimsOf(entries).map(({ amount, asset, owner }) => ({
                name: t('field.held'),
                value: t('field.held.text', { amount: amountText(defaults, asset, amount), owner }),
              })),
              failure && {
                name: t('field.reason'),
                value: (
                  <>
                    {failure.message}
                    <br />
                    {failure.docsUrl ? <a href={failure.docsUrl}><code>{failure.code}</code></a> : <code>{failure.code}</code>}
                  </>
                ),
              },
              status === 'failed' && waiting && order.refundAfter
                ? { name: t('field.refund'), value: <Time at={order.refundAfter} /> }
                : undefined,
            ]}
          />
        </section>
      )}
      <section class="card">
        <h2>{t('stages.title')}</h2>
        <ol class="stages">
          {stagesOf(entries).map((stage) => <StageView key={stage.stage} {...stage} {...props} />)}
        </ol>
      </section>
      {status === 'completed' && (
        <section class="card receipt">
          <h2>{t('receipt.title')}</h2>
          <p>{t('receipt.again')}</p>
          <p class="address"><code>{location.origin}/pay/{props.paymentId}</code></p>
          <button type="button" class="primary" onClick={() => window.print()}>{t('receipt.print')}</button>
        </section>
      )}
      <Technical {...props} />
    </article>
  );
}

function costText({ defaults }: PaymentProps, asset: string, cost: { units: string; isPrice: boolean }): string {
  const amount = amountText(defaults, asset, cost.units);
  return cost.isPrice ? amount : t('field.cost.most', { amount });
}

function blockTime(entry: TimelineEntry): string | undefined {
  const time = entry.data?.['block_time'];
  return typeof time === 'string' ? time : undefined;
}

function StageView({ stage, state, entry, status }: Stage & PaymentProps): VNode {
  const transactions = Object.entries(entry?.transactions ?? {});
  const counted = { funded: status?.transactions?.deposit, delivered: status?.transactions?.fulfillment }[stage];
  const confirmations = state === 'running' ? counted?.confirmations : undefined;
  return (
    <li class={state}>
      <span class="stage">{maybe(`stage.${stage}`)}</span> <span class="state">{maybe(`state.${state}`)}</span>
      {entry && <> <Time at={entry.at} /></>}
      {confirmations !== undefined && <span class="muted"> {t('transaction.confirmations', { count: confirmations })}</span>}
      {transactions.map(([name, { chain_id, transaction_hash }]) => (
        <div key={name} class="transaction">
          <span class="muted">{maybe(`transaction.${name}`)}</span> <TransactionLink chainId={chain_id} hash={transaction_hash} />
        </div>
      ))}
    </li>
  );
}

type Transaction = NonNullable<NonNullable<TimelineEntry['transactions']>['deposit']>;

/** The last transaction of every stage. */
function transactionsOf(entries: readonly TimelineEntry[]): [string, Transaction][] {
  const latest = new Map<string, Transaction>();
  for (const { transactions } of entries) {
    for (const [stage, transaction] of Object.entries(transactions ?? {})) latest.set(stage, transaction);
  }
  return [...latest];
}

const verifiersText = ({ threshold, members, attested }: VerifiersShown): string =>
  t('details.verifiers.text', { threshold, count: members.length, attested });

function Technical({ paymentId, entries }: PaymentProps): VNode {
  const order = orderOf(entries);
  const code = (text: string | undefined): VNode | undefined => (text === undefined ? undefined : <code>{text}</code>);
  const row = (name: string, text: string | undefined) => (text ? { name, value: code(text) } : undefined);
  const transactions = transactionsOf(entries);
  return (
    <details class="card">
      <summary>{t('details.title')}</summary>
      <Rows
        rows={[
          row(t('details.payment'), paymentId),
          row(t('details.request'), order?.requestId),
          row(t('details.asset.source'), order?.source.asset_identifier),
          order && {
            name: t('details.asset.destination'),
            value: order.destinations.map(({ asset_identifier }) => <div key={asset_identifier}><code>{asset_identifier}</code></div>),
          },
          ...transactions.map(([name, { chain_id, transaction_hash, block_number }]) => ({
            name: maybe(`transaction.${name}`) ?? name,
            value: (
              <>
                <TransactionLink chainId={chain_id} hash={transaction_hash} />
                <br />
                {chainName(chain_id)}
                {block_number !== undefined && `, ${t('transaction.block', { block: block_number })}`}
              </>
            ),
          })),
          row(t('details.escrow'), order?.escrow),
          row(t('details.verifier'), order?.verifier),
          order?.verifiers && {
            name: t('details.verifiers'),
            value: (
              <>
                {verifiersText(order.verifiers)}
                {order.verifiers.members.map((member) => <div key={member}><code>{member}</code></div>)}
              </>
            ),
          },
          row(t('details.quote'), order?.quoteId),
          row(t('details.settler'), order?.settler),
          ...claimsOf(entries).map(({ call, escrow }) => row(t('details.call'), `${call} of ${escrow}`)),
          {
            name: t('details.events'),
            value: (
              <ul class="events">
                {entries.map(({ id, at, summary }) => (
                  <li key={id}><Time at={at} /> {summary}</li>
                ))}
              </ul>
            ),
          },
        ]}
      />
    </details>
  );
}
