// Small parts that several views have.

import type { ComponentChildren, VNode } from 'preact';
import { useEffect, useState } from 'preact/hooks';

import { explorerLink } from '../../chains.js';
import type { ApiError } from '../api.js';
import { shortId, sinceText, timeText } from '../format.js';
import type { Polled } from '../poll.js';
import { textOf, visible } from '../safe.js';
import { store, useStore } from '../store.js';
import { t } from '../texts.js';

/** Text from outside. What turns its direction turns nothing beside it. */
export const Outside = ({ text }: { text: unknown }): VNode => <bdi>{textOf(text)}</bdi>;

/** What is read out once: that something was copied. */
export const said = store('');

export async function copy(text: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
    said.set(t('copy.done'));
  } catch {
    said.set(t('copy.failed'));
  }
  setTimeout(() => said.set(''), 2500);
}

export function Said(): VNode {
  const text = useStore(said);
  return <div class={text ? 'said shown' : 'said'} role="status">{text}</div>;
}

/** An id, short or whole, with a button that copies it whole. */
export function Id({ id, text = shortId(id), isWhole = false, isInGrid = false, href }: {
  id: string;
  /** What is shown of it. */
  text?: string;
  isWhole?: boolean;
  isInGrid?: boolean;
  href?: string | undefined;
}): VNode {
  const shown = <code class="id" title={visible(id)}><bdi>{visible(isWhole ? id : text)}</bdi></code>;
  return (
    <span class="copyable">
      {href ? <a href={href} {...(isInGrid ? { tabIndex: -1 } : {})}>{shown}</a> : shown}
      <button
        type="button"
        class="copy"
        title={t('copy.title')}
        aria-label={t('copy.label', { id: visible(shortId(id)) })}
        {...(isInGrid ? { tabIndex: -1 } : {})}
        onClick={(event) => {
          event.stopPropagation();
          void copy(id);
        }}
      />
    </span>
  );
}

/** A hash, linked to the chain's explorer where that is known. */
export function Hash({ chainId, hash }: { chainId: string; hash: string }): VNode {
  const href = explorerLink(chainId, hash);
  return (
    <>
      <Id id={hash} />
      {href && (
        <a class="outward" href={href} rel="noreferrer noopener" target="_blank">{t('explorer')}<span class="hidden"> {t('explorer.of', { hash: shortId(hash) })}</span></a>
      )}
    </>
  );
}

export const Time = ({ at, title }: { at: string | null | undefined; title?: string | undefined }): VNode =>
  at ? <time dateTime={visible(at)} {...(title === undefined ? {} : { title: visible(title) })}>{visible(timeText(at))}</time> : <span class="muted">–</span>;

/** How long ago, counted on. */
export function Ago({ at }: { at: string | null | undefined }): VNode {
  const [now, setNow] = useState(() => Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 10_000);
    return () => clearInterval(timer);
  }, []);
  // A newer time than this device's last look at its clock is now.
  return at ? <time dateTime={visible(at)} title={visible(timeText(at))}>{t('ago', { span: sinceText(at, Math.max(now, Date.parse(at))) })}</time> : <span class="muted">–</span>;
}

export type Tone = 'good' | 'bad' | 'wait' | 'plain';

export const OUTCOME_TONES = { done: 'good', failed: 'bad', unknown: 'wait' } as const;

export const Chip = ({ tone, children, title }: { tone: Tone; children: ComponentChildren; title?: string }): VNode => (
  <span class={`chip ${tone}`} {...(title === undefined ? {} : { title })}>{children}</span>
);

/** Names and values; what has no value is left out. */
export function Rows({ rows }: { rows: ([name: string, value: ComponentChildren] | undefined | false)[] }): VNode {
  const shown = rows.filter((row): row is [string, ComponentChildren] => Boolean(row));
  return (
    <dl class="facts">
      {shown.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

export interface Column {
  name: string;
  isNumber?: boolean;
}

/** A table in a box of its own, which scrolls where it is wider than the page. */
export function Table({ label, columns, children, isEmpty, empty }: {
  label: string;
  columns: readonly Column[];
  children: ComponentChildren;
  isEmpty: boolean;
  empty: string;
}): VNode {
  if (isEmpty) return <p class="empty">{empty}</p>;
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={label}>
      <table>
        <thead>
          <tr>{columns.map(({ name, isNumber }, at) => <th key={at} scope="col" class={isNumber ? 'number' : ''}>{name}</th>)}</tr>
        </thead>
        <tbody>{children}</tbody>
      </table>
    </div>
  );
}

export const Figure = ({ children }: { children: ComponentChildren }): VNode => <td class="number">{children}</td>;

/** The head of a view. */
export function Head({ title, lead, children }: { title: string; lead?: ComponentChildren; children?: ComponentChildren }): VNode {
  return (
    <header class="head">
      <div>
        <h1 tabIndex={-1}>{title}</h1>
        {lead && <p class="lead">{lead}</p>}
      </div>
      {children && <div class="actions">{children}</div>}
    </header>
  );
}

export const Busy = ({ text }: { text: string }): VNode => (
  <p class="busy"><span class="spinner" aria-hidden="true" />{text}</p>
);

function problemText(error: ApiError, isOnce: boolean): string {
  if (error.isUnsent) return t(error.code === 'OTHER_PAGE' ? 'error.other' : 'error.unsent');
  if (error.status === 0) return t(isOnce ? 'error.lost.once' : 'error.lost');
  if (error.status === 403) return t('error.forbidden', { message: visible(error.message) });
  return visible(error.message);
}

/** What went wrong. What was asked `isOnce` is not asked again by itself. */
export const Problem = ({ error, title = t('error.title'), isOnce = false }: { error: ApiError; title?: string; isOnce?: boolean }): VNode => (
  <div class="problem" role="alert">
    <p class="problem-title">{title}</p>
    <p><bdi>{problemText(error, isOnce)}</bdi></p>
    {error.status > 0 && error.code && <p class="muted"><code>{visible(error.code)}</code></p>}
  </div>
);

/** What was asked for, once it is there; what was shown stays while there is no newer. */
export function Loaded<T>({ of: { value, error }, children }: { of: Polled<T>; children: (value: T) => ComponentChildren }): VNode {
  if (value !== undefined) {
    return <>{error && !error.isPassing && <Problem error={error} />}{children(value)}</>;
  }
  return error ? <Problem error={error} /> : <Busy text={t('loading')} />;
}

/** Shards of which something may be missing. */
export const Uncertain = ({ shards }: { shards: readonly number[] }): VNode | null =>
  shards.length ? <p class="note wait">{t('uncertain', { shards: shards.slice(0, 20).join(', ') + (shards.length > 20 ? ' …' : '') })}</p> : null;
