// A mandate in plain words: who may ask for what, how often, until when, and what that comes to.

import type { ComponentChildren, VNode } from 'preact';

import type { Defaults, OwnedAsset } from '../../../../sdk/typescript/src/types.js';
import { visible } from '../../console/safe.js';
import { amountOn, amountText, spanText } from '../../format.js';
import { LAST_SECOND } from '../../mandate/link.js';
import { t } from '../../texts.js';
import { Accounts, type Row, Rows, Time } from '../parts.js';

/** What is shown of a mandate, before it is signed and afterwards. */
export interface Shown {
  merchant: string;
  asset: string;
  destination: readonly OwnedAsset[];
  amount: string;
  least?: string | undefined;
  /** UNIX seconds; `undefined` where it begins when it is signed. */
  begins: number | undefined;
  periodSeconds: number;
  periods: number;
  lockSeconds: number;
  memo?: string | undefined;
}

/** A time in UNIX seconds: contracts hold more of them than calendars do. */
const When = ({ seconds }: { seconds: number }): VNode =>
  seconds > LAST_SECOND ? <>{t('mandate.far')}</> : <Time at={new Date(seconds * 1000).toISOString()} />;

/** All periods together: what the wallet shows, and no more is ever taken. */
export const totalOf = ({ amount, periods }: Pick<Shown, 'amount' | 'periods'>): bigint => BigInt(amount) * BigInt(periods);

export function Terms({ shown, defaults, more = [] }: { shown: Shown; defaults: Defaults; more?: (Row | undefined | false)[] }): VNode {
  const { merchant, asset, destination, amount, least, begins, periodSeconds, periods, lockSeconds, memo } = shown;
  const amounts = { amount: amountText(defaults, asset, amount), period: spanText(periodSeconds) };
  const last = (begins ?? Math.floor(Date.now() / 1000)) + periodSeconds * periods - 1;
  return (
    <Rows
      rows={[
        { name: t('mandate.merchant'), value: <code>{merchant}</code> },
        memo !== undefined && { name: t('mandate.memo'), value: <bdi>{visible(memo)}</bdi> },
        { name: t('mandate.recipient'), value: <Accounts accounts={destination} /> },
        { name: t('mandate.period'), value: t('mandate.period.text', amounts) },
        { name: t('mandate.periods'), value: periods === 1 ? t('mandate.periods.one', amounts) : t('mandate.periods.text', { ...amounts, count: periods }) },
        { name: t('mandate.begins'), value: begins === undefined ? t('mandate.begins.signed') : <When seconds={begins} /> },
        { name: t('mandate.ends'), value: <When seconds={last} /> },
        { name: t('mandate.total'), value: <><strong>{amountOn(defaults, asset, totalOf(shown))}</strong> {t('mandate.total.text')}</> },
        { name: t('mandate.least'), value: <Least least={least} destination={destination} amount={amounts.amount} defaults={defaults} /> },
        { name: t('mandate.lock'), value: t('mandate.lock.text', { span: spanText(lockSeconds) }) },
        ...more,
      ]}
    />
  );
}

function Least({ least, destination, amount, defaults }: { least: string | undefined; destination: readonly OwnedAsset[]; amount: string; defaults: Defaults }): ComponentChildren {
  if (least === undefined) return <strong class="fault">{t('mandate.least.none')}</strong>;
  const assets = [...new Set(destination.map(({ asset_identifier }) => asset_identifier))];
  return t('mandate.least.text', { least: assets.map((asset) => amountOn(defaults, asset, least)).join(` ${t('field.or')} `), amount });
}
