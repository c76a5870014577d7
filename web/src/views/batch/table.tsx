// The payments of a batch, and what they come to.

import type { ComponentChildren, VNode } from 'preact';

import type { Defaults, OwnedAsset } from '../../../../sdk/typescript/src/types.js';
import { sumsOf } from '../../batch/list.js';
import { amountOn, amountText } from '../../format.js';
import { t } from '../../texts.js';
import { Account, Rows } from '../parts.js';

export interface ShownPayment {
  line: number;
  reference?: string;
  to: OwnedAsset;
  amount: bigint;
  most: bigint;
}

interface TableProps<T extends ShownPayment> {
  payments: readonly T[];
  defaults: Defaults;
  /** The asset that is paid with. */
  source: string;
  /** What stands in the last column. */
  last: { title: string; of: (payment: T) => ComponentChildren };
}

export function PaymentTable<T extends ShownPayment>({ payments, defaults, source, last }: TableProps<T>): VNode {
  return (
    <div class="scroll" role="region" aria-label={t('batch.payments')} tabIndex={0}>
      <table>
        <thead>
          <tr>
            <th scope="col">{t('batch.line')}</th>
            <th scope="col">{t('field.recipient')}</th>
            <th scope="col">{t('batch.amount')}</th>
            <th scope="col">{t('batch.most')}</th>
            <th scope="col">{last.title}</th>
          </tr>
        </thead>
        <tbody>
          {payments.map((payment) => {
            const { line, reference, to, amount, most } = payment;
            return (
              <tr key={line}>
                <th scope="row">{line}</th>
                <td>
                  <Account {...to} />
                  {reference !== undefined && <div class="muted">{reference}</div>}
                </td>
                <td>{amountText(defaults, to.asset_identifier, amount)}</td>
                <td>{amountText(defaults, source, most)}</td>
                <td>{last.of(payment)}</td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </div>
  );
}

/** How much arrives of each asset, and how much is taken at most. */
export function Sums({ payments, defaults, source }: { payments: readonly ShownPayment[]; defaults: Defaults; source: string }): VNode {
  const arrives = sumsOf(payments.map(({ to, amount }) => ({ asset: to.asset_identifier, units: amount })));
  const most = payments.reduce((sum, { most: units }) => sum + units, 0n);
  return (
    <Rows
      rows={[
        { name: t('batch.count'), value: String(payments.length) },
        { name: t('batch.arrives'), value: arrives.map(({ asset, units }) => <div key={asset}>{amountOn(defaults, asset, units)}</div>) },
        { name: t('batch.cost'), value: t('field.cost.most', { amount: amountOn(defaults, source, most) }) },
      ]}
    />
  );
}
