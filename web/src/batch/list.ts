// A list of payments, as its payer writes it: what each line means, and which rule a line does not keep.

import { parseAmount } from '../../../sdk/typescript/src/amounts.js';
import { familyOf, normalOwned, splitAsset } from '../../../sdk/typescript/src/caip.js';
import type { Defaults, OwnedAsset, ServedAsset } from '../../../sdk/typescript/src/types.js';
import { chainName, chainOf } from '../chains.js';
import { visible } from '../console/safe.js';
import { BadCell, type Row, rowsOf } from '../csv.js';
import { servedAsset } from '../format.js';
import { t } from '../texts.js';

/** Most payments of a batch. */
export const PAYMENTS_MAX = 256;
const COLUMNS = ['recipient', 'amount', 'reference', 'chain', 'asset', 'most'] as const;
const REFERENCE = /^[A-Za-z0-9_.-]{1,128}$/;
/** How much more than what arrives may be taken, in hundredths of a percent, at most. */
const MARGIN_MAX = 10_000n;
const WHOLE = 10_000n;
const UNITS_MAX = 2n ** 256n;

type Column = (typeof COLUMNS)[number];

/** What holds for every line that does not say otherwise. */
export interface ListOptions {
  /** What is paid with, a token on an EVM chain. */
  source: string;
  /** What arrives. */
  asset: string;
  /** How much more than what arrives may be taken where both are of the same kind, in percent, as it is written. */
  margin: string;
}

export interface ListedPayment {
  line: number;
  /** The payer's own name for it: under one the account pays once. */
  reference?: string;
  requestId: string;
  to: OwnedAsset;
  amount: bigint;
  /** The most that is taken, in the source's smallest unit. */
  most: bigint;
  /** An earlier line that pays as much to the same account. */
  like?: number;
}

/** A line that cannot be meant; none where the list as a whole cannot. */
export interface Fault {
  line?: number;
  text: string;
}

export type List = { payments: ListedPayment[] } | { faults: Fault[] };

/** A rule that is not kept. */
class Broken extends Error {}

/** What is quoted of the list shows all that stands there: a space without width makes another account of one that looks right. */
const broken = (...of: Parameters<typeof t>): Broken => new Broken(visible(t(...of)));

/** The token assets of EVM chains on which one signature pays many payments. */
export function payableAssets(defaults: Defaults): string[] {
  return Object.values(defaults.chains).flatMap(({ message_schemes: schemes, assets }) =>
    (schemes as readonly string[] | undefined)?.includes('EVM_PERMIT2_BATCH')
      ? assets.map(({ asset_identifier }) => asset_identifier).filter((asset) => splitAsset(asset).namespace !== 'slip44')
      : [],
  );
}

/** Every asset that may arrive. */
export const deliverableAssets = (defaults: Defaults): string[] =>
  Object.values(defaults.chains).flatMap(({ assets }) => assets.map(({ asset_identifier }) => asset_identifier));

/** The payments of a text, or what is wrong with its lines: all of it, so that it is mended at once. */
export function listOf(text: string, options: ListOptions, defaults: Defaults): List {
  let rows: Row[];
  let columns: readonly (Column | undefined)[];
  let margin: bigint;
  try {
    margin = marginOf(options.margin);
    rows = rowsOf(text);
    [columns, rows] = headed(rows);
  } catch (error) {
    if (error instanceof BadCell) return { faults: [{ line: error.line, text: t('batch.rule.quote') }] };
    if (error instanceof Broken) return { faults: [{ text: error.message }] };
    throw error;
  }
  if (!rows.length) return { faults: [{ text: t('batch.rule.empty') }] };
  if (rows.length > PAYMENTS_MAX) return { faults: [{ text: t('batch.rule.many', { most: PAYMENTS_MAX, count: rows.length }) }] };
  const payments: ListedPayment[] = [];
  const faults: Fault[] = [];
  const references = new Map<string, number>();
  const alike = new Map<string, number>();
  for (const { line, cells } of rows) {
    try {
      if (cells.length > columns.length) throw broken('batch.rule.columns', { most: columns.length, count: cells.length });
      const cell = (column: Column): string => cells[columns.indexOf(column)] ?? '';
      const payment = paymentOf(line, cell, { ...options, margin }, defaults);
      const { reference, to, amount } = payment;
      const before = reference === undefined ? undefined : references.get(reference);
      if (before !== undefined) throw broken('batch.rule.reference.twice', { line: before });
      if (reference !== undefined) references.set(reference, line);
      const same = JSON.stringify([to.asset_identifier, to.account, String(amount)]);
      const like = alike.get(same);
      if (like === undefined) alike.set(same, line);
      payments.push(like === undefined ? payment : { ...payment, like });
    } catch (error) {
      if (!(error instanceof Broken)) throw error;
      faults.push({ line, text: error.message });
    }
  }
  return faults.length ? { faults } : { payments };
}

/** The columns of a table, and its rows without the one that names them. */
function headed(rows: Row[]): [readonly (Column | undefined)[], Row[]] {
  const [first, ...others] = rows;
  const names = first?.cells.map((cell) => cell.toLowerCase()) ?? [];
  if (!names.includes('recipient')) return [COLUMNS, rows];
  for (const [at, name] of names.entries()) {
    if (name && !COLUMNS.includes(name as Column)) throw broken('batch.rule.column', { name: name.slice(0, 80), columns: COLUMNS.join(', ') });
    if (name && names.indexOf(name) !== at) throw broken('batch.rule.column.twice', { name });
  }
  return [names.map((name) => (name ? (name as Column) : undefined)), others];
}

function marginOf(text: string): bigint {
  let hundredths: bigint | undefined;
  try {
    hundredths = parseAmount(text.trim(), 2);
  } catch {
    // Refused below.
  }
  if (hundredths === undefined || hundredths > MARGIN_MAX) throw broken('batch.rule.margin', { most: Number(MARGIN_MAX) / 100 });
  return hundredths;
}

interface Meant extends Omit<ListOptions, 'margin'> {
  margin: bigint;
}

function paymentOf(line: number, cell: (column: Column) => string, meant: Meant, defaults: Defaults): ListedPayment {
  const [recipient, reference, most] = [cell('recipient'), cell('reference'), cell('most')];
  const asset = assetOf(cell('chain'), cell('asset'), meant, defaults);
  const { identifier, decimals, symbol } = asset;
  if (!recipient) throw broken('batch.rule.recipient');
  let to: OwnedAsset;
  try {
    to = normalOwned({ asset_identifier: identifier, account: recipient }, 'recipient');
  } catch {
    throw broken('batch.rule.account', { account: recipient.slice(0, 80), chain: chainName(chainOf(identifier)) });
  }
  const amount = unitsOf(cell('amount'), 'amount', decimals, symbol);
  if (reference && !REFERENCE.test(reference)) throw broken('batch.rule.reference', { reference: reference.slice(0, 80) });
  return {
    line,
    ...(reference ? { reference } : {}),
    requestId: reference || `batch-${crypto.randomUUID()}`,
    to,
    amount,
    most: most ? mostOf(most, meant, defaults) : withMargin(amount, asset, meant, defaults),
  };
}

interface Named {
  identifier: string;
  decimals: number;
  symbol: string;
}

const namedOf = ({ asset_identifier: identifier, decimals, symbol }: ServedAsset): Named => ({ identifier, decimals, symbol });

/** What arrives: an asset by its id, or by its symbol and chain; what holds for the list where the line does not say. */
function assetOf(chain: string, asset: string, { asset: usual }: Meant, defaults: Defaults): Named {
  const chainId = chain ? chainIdOf(chain, defaults) : undefined;
  if (asset.includes('/')) {
    const served = servedAsset(defaults, asset);
    if (!served) throw broken('batch.rule.asset', { asset: asset.slice(0, 120) });
    if (chainId !== undefined && chainOf(served.asset_identifier) !== chainId) throw broken('batch.rule.asset.chain', { asset, chain });
    return namedOf(served);
  }
  const own = servedAsset(defaults, usual);
  if (!own) throw broken('batch.rule.asset', { asset: usual });
  if (!asset && chainId === undefined) return namedOf(own);
  const symbol = asset || own.symbol;
  const on = chainId ?? chainOf(own.asset_identifier);
  const found = (defaults.chains[on]?.assets ?? []).filter((served) => served.symbol.toLowerCase() === symbol.toLowerCase());
  const [only, ...others] = found;
  if (!only) throw broken('batch.rule.symbol', { symbol: symbol.slice(0, 40), chain: chainName(on) });
  if (others.length) throw broken('batch.rule.symbol.twice', { symbol, chain: chainName(on) });
  return namedOf(only);
}

function chainIdOf(chain: string, defaults: Defaults): string {
  const wanted = chain.toLowerCase();
  const found = Object.keys(defaults.chains).find((id) => id.toLowerCase() === wanted || chainName(id).toLowerCase() === wanted);
  if (found === undefined) throw broken('batch.rule.chain', { chain: chain.slice(0, 80) });
  return found;
}

function unitsOf(text: string, column: 'amount' | 'most', decimals: number, symbol: string): bigint {
  if (!text) throw broken(`batch.rule.${column}.none`);
  let units: bigint;
  try {
    units = parseAmount(text, decimals);
  } catch {
    throw broken('batch.rule.number', { text: text.slice(0, 80), symbol, decimals });
  }
  if (units === 0n || units >= UNITS_MAX) throw broken('batch.rule.number', { text: text.slice(0, 80), symbol, decimals });
  return units;
}

function sourceOf({ source }: Meant, defaults: Defaults): ServedAsset {
  const served = servedAsset(defaults, source);
  if (!served || familyOf(source) !== 'evm') throw broken('batch.rule.asset', { asset: source });
  return served;
}

function mostOf(text: string, meant: Meant, defaults: Defaults): bigint {
  const { decimals, symbol } = sourceOf(meant, defaults);
  return unitsOf(text, 'most', decimals, symbol);
}

/** What arrives and the margin, where the same kind of money is paid with; rounded up. */
function withMargin(amount: bigint, { decimals, symbol }: Named, meant: Meant, defaults: Defaults): bigint {
  const source = sourceOf(meant, defaults);
  if (source.symbol !== symbol) throw broken('batch.rule.most', { symbol, source: source.symbol });
  const over = amount * (WHOLE + meant.margin) * 10n ** BigInt(source.decimals);
  const under = WHOLE * 10n ** BigInt(decimals);
  return (over + under - 1n) / under;
}

/** Sums by asset, in the order in which the assets come up. */
export function sumsOf(amounts: readonly { asset: string; units: bigint }[]): { asset: string; units: bigint }[] {
  const sums = new Map<string, bigint>();
  for (const { asset, units } of amounts) sums.set(asset, (sums.get(asset) ?? 0n) + units);
  return [...sums].map(([asset, units]) => ({ asset, units }));
}

/** What two lists have alike that pay the same, whatever their references. */
export const fingerprintOf = (payments: readonly Pick<ListedPayment, 'to' | 'amount'>[]): string =>
  JSON.stringify(payments.map(({ to, amount }) => [to.asset_identifier, to.account, String(amount)]).sort());

