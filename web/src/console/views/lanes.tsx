// The lanes of a payment: each event at its time in the lane of whoever did it.

import type { VNode } from 'preact';

import { preciseText, spanText, timeText } from '../format.js';
import { LANES, MARK_PX, type Mark } from '../lanes.js';
import { visible } from '../safe.js';
import { named, t } from '../texts.js';

export function SwimLanes({ marks }: { marks: readonly Mark[] }): VNode {
  const last = marks.at(-1);
  const height = (last?.top ?? 0) + MARK_PX + 8;
  const centre = (lane: number): string => `${((lane + 0.5) * 100) / LANES.length}%`;
  return (
    <div class="scroll lanes-box" tabIndex={0} role="region" aria-label={t('lanes.title')}>
      <div class="lanes">
        <div class="lane-names" aria-hidden="true">
          <span class="when">{t('lanes.time')}</span>
          <div class="of-lanes">{LANES.map((lane) => <span key={lane}>{named('lane', lane)}</span>)}</div>
        </div>
        <div class="lane-area" style={{ height: `${height}px` }}>
          <svg aria-hidden="true" class="of-lanes" height={height}>
            {LANES.map((lane, at) => <line key={lane} class="rail" x1={centre(at)} x2={centre(at)} y1="0" y2={height} />)}
            {marks.slice(1).map(({ lane, top }, at) => {
              const before = marks[at];
              return before && <line key={at} class="way" x1={centre(before.lane)} x2={centre(lane)} y1={before.top + MARK_PX / 2} y2={top + MARK_PX / 2} />;
            })}
          </svg>
          <ol>
            {marks.map(({ type, lane, at, sinceMs, detail, isBad, top, version }, index) => (
              <li key={index} style={{ top: `${top}px` }}>
                <span class="when">
                  <time dateTime={visible(at)} title={visible(timeText(at))}>{visible(preciseText(at))}</time>
                  {sinceMs !== undefined && sinceMs > 0 && <span class="since"> +{spanText(sinceMs)}</span>}
                </span>
                <span class="of-lanes">
                  <span class={`mark${isBad ? ' bad' : ''}${lane === LANES.length - 1 ? ' edge' : ''}`} style={{ left: centre(lane) }} title={t('lanes.mark', { type: visible(type), version: version ?? '?' })}>
                    <span class="hidden">{named('lane', LANES[lane] ?? '')}: </span>
                    <bdi>{visible(named('event', type))}</bdi>
                    {detail && <bdi class="muted">{' '}{visible(detail)}</bdi>}
                  </span>
                </span>
              </li>
            ))}
          </ol>
        </div>
      </div>
    </div>
  );
}
