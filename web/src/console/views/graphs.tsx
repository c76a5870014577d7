// The last hour, a small graph for each measure.

import type { VNode } from 'preact';
import { useMemo, useRef, useState } from 'preact/hooks';

import { clockAndDay, nameOf, shortId, valueText } from '../format.js';
import { indexAt, pathOf, roundUp, xOf } from '../graph.js';
import { useChains } from '../me.js';
import { usePolled } from '../poll.js';
import { visible } from '../safe.js';
import { named, t } from '../texts.js';
import type { Chain, Graphs as Read, Series } from '../types.js';
import { Head, Loaded } from './parts.js';

const EVERY_MS = 10_000;
const WIDTH = 320;
const HEIGHT = 96;
/** Lines of one graph that can be told from each other. */
const LINES_MAX = 6;

export function Graphs(): VNode {
  const polled = usePolled<Read>('graphs', EVERY_MS);
  return (
    <>
      <Head title={t('nav.graphs')} lead={t('graphs.lead')} />
      <Loaded of={polled}>{(read) => <All {...read} />}</Loaded>
    </>
  );
}

function All({ series, every_seconds, ends_at }: Read): VNode {
  const groups = useMemo(() => {
    const of = new Map<string, Series[]>();
    for (const one of series) of.set(one.name, [...(of.get(one.name) ?? []), one]);
    return [...of];
  }, [series]);
  if (!groups.length) return <p class="empty">{t('graphs.none')}</p>;
  return <div class="graphs">{groups.map(([name, lines]) => <Graph key={name} name={name} lines={lines} everySeconds={every_seconds} endsAt={ends_at} />)}</div>;
}

/** What tells a series from others of its graph. */
function labelsOf({ labels }: Series, chains: readonly Chain[]): string {
  const texts = Object.entries(labels).map(([name, value]) => (name === 'chain' ? nameOf(chains, value) : name === 'account' ? shortId(value) : value.replaceAll('_', ' ')));
  return visible(texts.join(' · '));
}

const lastOf = ({ values }: Series): number | null => values.findLast((value) => value !== null) ?? null;

const mostOf = ({ values }: Series): number => values.reduce<number>((most, value) => Math.max(most, value ?? 0), 0);

interface GraphProps {
  name: string;
  lines: readonly Series[];
  everySeconds: number;
  endsAt: string | null;
}

function Graph({ name, lines: all, everySeconds, endsAt }: GraphProps): VNode {
  const [at, setAt] = useState<number>();
  const surface = useRef<SVGSVGElement>(null);
  const chains = useChains();
  const labelOf = (line: Series): string => labelsOf(line, chains);
  // Where there are too many, those that reach highest.
  const lines = all.length <= LINES_MAX ? all : [...all].sort((a, b) => mostOf(b) - mostOf(a)).slice(0, LINES_MAX);
  const unit = lines[0]?.unit ?? 'count';
  const points = Math.max(...lines.map(({ values }) => values.length), 0);
  const most = roundUp(Math.max(...lines.map(mostOf)));
  const title = named('graph', name);
  const timeAt = (index: number): string => {
    const ms = Date.parse(endsAt ?? '') - (points - 1 - index) * everySeconds * 1000;
    return Number.isNaN(ms) ? '' : clockAndDay(new Date(ms).toISOString())[0];
  };
  const shown = at === undefined ? undefined : Math.min(at, points - 1);
  const valueOf = (line: Series): string => valueText(line.unit, shown === undefined ? lastOf(line) : line.values[shown + line.values.length - points]);
  const onKeyDown = (event: KeyboardEvent): void => {
    const last = points - 1;
    const to = { ArrowLeft: (shown ?? last) - 1, ArrowRight: (shown ?? last) + 1, Home: 0, End: last, Escape: -1 }[event.key];
    if (to === undefined || !points) return;
    event.preventDefault();
    setAt(event.key === 'Escape' ? undefined : Math.max(0, Math.min(last, to)));
  };
  return (
    <figure class="card graph">
      <figcaption>
        <strong>{visible(title)}</strong>
        <span class="muted" aria-live="off">{shown === undefined ? t('graphs.now') : timeAt(shown)}</span>
      </figcaption>
      <p class="axis muted" aria-hidden="true">{valueText(unit, most)}</p>
      <div
        class="plot"
        tabIndex={0}
        role="slider"
        aria-label={t('graphs.label', { title: visible(title) })}
        aria-valuemin={0}
        aria-valuemax={Math.max(0, points - 1)}
        aria-valuenow={shown ?? Math.max(0, points - 1)}
        aria-valuetext={`${timeAt(shown ?? points - 1)}: ${lines.map((line) => [labelOf(line), valueOf(line)].filter(Boolean).join(' ')).join(', ')}`}
        onKeyDown={onKeyDown}
        onBlur={() => setAt(undefined)}
        onPointerMove={({ clientX }) => {
          const box = surface.current?.getBoundingClientRect();
          if (box && points) setAt(indexAt(clientX - box.left, points, box.width));
        }}
        onPointerLeave={() => setAt(undefined)}
      >
        <svg ref={surface} viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" aria-hidden="true">
          {[0, 0.5, 1].map((share) => <line key={share} class="grid" x1="0" x2={WIDTH} y1={HEIGHT * share} y2={HEIGHT * share} />)}
          {lines.map((line, index) => <path key={index} class={`line l${index}`} d={pathOf(line.values, { width: WIDTH, height: HEIGHT, most })} />)}
          {shown !== undefined && <line class="cursor" x1={xOf(shown, points, WIDTH)} x2={xOf(shown, points, WIDTH)} y1="0" y2={HEIGHT} />}
        </svg>
        </div>
      <p class="axis muted" aria-hidden="true"><span>{points ? timeAt(0) : ''}</span><span>{points ? timeAt(points - 1) : ''}</span></p>
      <ul class="values">
        {lines.map((line, index) => (
          <li key={index}>{lines.length > 1 && <span class={`swatch l${index}`} aria-hidden="true" />} <bdi class="muted">{labelOf(line)}</bdi> <strong>{valueOf(line)}</strong></li>
        ))}
        {all.length > lines.length && <li class="muted">{t('graphs.more', { count: all.length - lines.length })}</li>}
      </ul>
    </figure>
  );
}
