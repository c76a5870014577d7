// The settlers, each with its record.

import type { VNode } from 'preact';

import { chainOf } from '../../chains.js';
import { assetOf, countText, nameOf, secondsText, shareText, timeText } from '../format.js';
import { useChains } from '../me.js';
import { usePolled } from '../poll.js';
import { hashOf } from '../route.js';
import { visible } from '../safe.js';
import { t } from '../texts.js';
import type { Chain, Settlers as Read } from '../types.js';
import { Ago, Chip, Head, Id, Loaded, Figure, Outside, Table } from './parts.js';

const EVERY_MS = 10_000;

/** What it trades, by the symbols and chains of the assets. */
function corridorsOf(corridors: Read['settlers'][number]['corridors'], chains: readonly Chain[]): string {
  const name = (id: string): string => visible(`${assetOf(chains, id)?.symbol ?? id} ${nameOf(chains, chainOf(id))}`);
  return corridors.map(({ source_asset, destination_asset }) => `${name(source_asset)} → ${name(destination_asset)}`).join(', ');
}

/** A count of what is bad. */
const Bad = ({ count }: { count: number }): VNode => <td class={count ? 'number bad' : 'number'}>{countText(count)}</td>;

export function Settlers(): VNode {
  const polled = usePolled<Read>('settlers', EVERY_MS);
  const chains = useChains();
  return (
    <>
      <Head title={t('nav.settlers')} />
      <Loaded of={polled}>
        {({ settlers, has_more }) => (
          <>
            <p class="lead">{t('settlers.all')}</p>
            <Table
              label={t('nav.settlers')}
              isEmpty={!settlers.length}
              empty={t('settlers.none')}
              columns={[
                { name: t('settlers.did') },
                { name: t('settlers.state') },
                { name: t('settlers.asked'), isNumber: true },
                { name: t('settlers.offered'), isNumber: true },
                { name: t('settlers.won'), isNumber: true },
                { name: t('settlers.acknowledged'), isNumber: true },
                { name: t('settlers.refused'), isNumber: true },
                { name: t('settlers.unanswered'), isNumber: true },
                { name: t('settlers.delivered'), isNumber: true },
                { name: t('settlers.late'), isNumber: true },
                { name: t('settlers.missed'), isNumber: true },
                { name: t('settlers.median'), isNumber: true },
                { name: t('settlers.last') },
              ]}
            >
              {settlers.map(({ did, registered, corridors, record }) => {
                const places = corridorsOf(corridors, chains);
                const until = record.passed_over_until;
                return (
                  <tr key={did}>
                    <td><Id id={did} href={hashOf('payments', undefined, { settler: did })} />{places && <span class="sub clamped" title={places}><Outside text={places} /></span>}</td>
                    <td>
                      {registered ? <Chip tone="good">{t('settlers.registered')}</Chip> : <Chip tone="wait">{t('settlers.unregistered')}</Chip>}
                      {until && <> <Chip tone="bad" title={t('settlers.until', { time: visible(timeText(until)) })}>{t('settlers.passed')}</Chip></>}
                    </td>
                    <Figure>{countText(record.asked)}</Figure>
                    <Figure>{countText(record.offered)} <span class="sub">{shareText(record.offered, record.asked)}</span></Figure>
                    <Figure>{countText(record.won)}</Figure>
                    <Figure>{countText(record.acknowledged)} <span class="sub">{shareText(record.acknowledged, record.won)}</span></Figure>
                    <Bad count={record.refused} />
                    <Bad count={record.unanswered} />
                    <Figure>{countText(record.delivered)}</Figure>
                    <Figure>{countText(record.late)}</Figure>
                    <Bad count={record.missed} />
                    <Figure>{secondsText(record.median_delivery_seconds)}</Figure>
                    <td><Ago at={record.last_won_at} /></td>
                  </tr>
                );
              })}
            </Table>
            {has_more && <p class="muted">{t('more.unshown')}</p>}
          </>
        )}
      </Loaded>
    </>
  );
}
