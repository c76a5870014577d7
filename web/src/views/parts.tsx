// Small parts that several views have.

import type { ComponentChildren, VNode } from 'preact';
import { useRef, useState } from 'preact/hooks';

import type { OwnedAsset } from '../../../sdk/typescript/src/types.js';
import { chainName, chainOf, explorerLink } from '../chains.js';
import { useNow } from '../clock.js';
import { leftText, timeText } from '../format.js';
import { t, type TextName } from '../texts.js';

export interface Row {
  name: string;
  value: ComponentChildren;
}

/** Names and values; a row without a value is left out. */
export function Rows({ rows }: { rows: (Row | undefined | false)[] }): VNode {
  const shown = rows.filter((row): row is Row => Boolean(row));
  return <dl>{shown.map(({ name, value }) => [<dt key={name}>{name}</dt>, <dd key={`${name} value`}>{value}</dd>])}</dl>;
}

export const Time = ({ at }: { at: string }): VNode => <time dateTime={at}>{timeText(at)}</time>;

/** An account and the chain on which it is. */
export function Account({ account, asset_identifier }: OwnedAsset): VNode {
  return (
    <>
      <code>{account}</code> {t('field.on', { chain: chainName(chainOf(asset_identifier)) })}
    </>
  );
}

/** Several of them, of which one counts. */
export function Accounts({ accounts }: { accounts: readonly OwnedAsset[] }): VNode {
  return (
    <>
      {accounts.map((owned, at) => (
        <div key={at}>
          {at > 0 && <span class="muted">{t('field.or')} </span>}
          <Account {...owned} />
        </div>
      ))}
    </>
  );
}

/** A hash, linked to the chain's explorer where that is known. */
export function TransactionLink({ chainId, hash }: { chainId: string; hash: string }): VNode {
  const href = explorerLink(chainId, hash);
  const shown = <code>{hash}</code>;
  if (!href) return shown;
  return (
    <a href={href} rel="noreferrer noopener" target="_blank">
      {shown}
    </a>
  );
}

/** Counts down to a time. What counts is not read out; the words around it are. */
export function Countdown({ until }: { until: string | number }): VNode {
  const now = useNow();
  const end = typeof until === 'number' ? until : Date.parse(until);
  return (
    <span class="countdown" role="timer" aria-live="off">
      {leftText(end, now)}
    </span>
  );
}

/** What went wrong, and the way on. */
export function Problem({ title, text, code, href, children }: {
  title?: string | undefined;
  text: string;
  code?: string | undefined;
  href?: string | undefined;
  children?: ComponentChildren;
}): VNode {
  return (
    <div class="problem" role="alert">
      <p class="problem-title">{title ?? t('error.title')}</p>
      <p>{text}</p>
      {code && <p class="muted">{href ? <a href={href}>{t('error.code', { code })}</a> : t('error.code', { code })}</p>}
      {children}
    </div>
  );
}

export type Heading = { current: HTMLHeadingElement | null };

/** A part of the page with a title; `heading` is where a reader goes on. */
export function Card({ title, heading, children }: { title: string; heading?: Heading; children: ComponentChildren }): VNode {
  return (
    <section class="card">
      <h2 ref={heading ?? null} tabIndex={-1}>{title}</h2>
      {children}
    </section>
  );
}

/** Something is going on. */
export const Busy = ({ text }: { text: string }): VNode => (
  <p class="busy" role="status">
    <span class="spinner" aria-hidden="true" />
    {text}
  </p>
);

/** A text with a button that copies it, or marks it where the browser does not let the page copy. */
export function Copied({ text, unit, label, isLong = false }: { text: string; unit?: string | undefined; label: string; isLong?: boolean }): VNode {
  const [told, setTold] = useState<TextName>();
  const shown = useRef<HTMLElement>(null);
  const copy = async (): Promise<void> => {
    try {
      await navigator.clipboard.writeText(text);
      setTold('address.copied');
    } catch {
      if (shown.current) getSelection()?.selectAllChildren(shown.current);
      setTold('address.marked');
    }
  };
  return (
    <>
      <code ref={shown} class={isLong ? 'document' : undefined}>{text}</code> {unit}
      <div class="copy">
        <button type="button" onClick={() => void copy()}>{label}</button> <span class="muted" role="status">{told && t(told)}</span>
      </div>
    </>
  );
}
