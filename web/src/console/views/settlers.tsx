// The settlers, and what became of what they were awarded.

import type { VNode } from 'preact';

import { chainOf } from '../../chains.js';
import { assetOf, countText, nameOf, secondsText, shareText } from '../format.js';
import { useChains } from '../me.js';
import { usePolled } from '../poll.js';
import { hashOf } from '../route.js';
import { visible } from '../safe.js';
import { t } from '../texts.js';
import type { Chain, Settlers as Read, Surveyed } from '../types.js';
import { Ago, Chip, Head, Id, Loaded, Figure, Outside, Table, Time } from './parts.js';

const EVERY_MS = 10_000;

export const SurveyedOf = ({ payments, since }: Surveyed): VNode => (
  <p class="lead">{t('surveyed', { count: countText(payments) })} {since && <>{t('surveyed.since')} <Time at={since} /></>}</p>
);

/** What it trades, by the symbols and chains of the assets. */
function corridorsOf(corridors: Read['settlers'][number]['corridors'], chains: readonly Chain[]): string {
  const name = (id: string): string => visible(`${assetOf(chains, id)?.symbol ?? id} ${nameOf(chains, chainOf(id))}`);
  return corridors.map(({ source_asset, destination_asset }) => `${name(source_asset)} → ${name(destination_asset)}`).join(', ');
}

export function Settlers(): VNode {
  const polled = usePolled<Read>('settlers', EVERY_MS);
  const chains = useChains();
  return (
    <>
      <Head title={t('nav.settlers')} />
      <Loaded of={polled}>
        {({ surveyed, settlers, has_more }) => (
          <>
            <SurveyedOf {...surveyed} />
            <Table
              label={t('nav.settlers')}
              isEmpty={!settlers.length}
              empty={t('settlers.none')}
              columns={[
                { name: t('settlers.did') },
                { name: t('settlers.state') },
                { name: t('settlers.awarded'), isNumber: true },
                { name: t('settlers.completed'), isNumber: true },
                { name: t('settlers.failed'), isNumber: true },
                { name: t('settlers.refunded'), isNumber: true },
                { name: t('settlers.flight'), isNumber: true },
                { name: t('settlers.median'), isNumber: true },
                { name: t('settlers.last') },
              ]}
            >
              {settlers.map(({ did, registered, corridors, record }) => {
                const ended = record.completed + record.failed;
                const places = corridorsOf(corridors, chains);
                return (
                  <tr key={did}>
                    <td><Id id={did} href={hashOf('payments', undefined, { settler: did })} />{places && <span class="sub clamped" title={places}><Outside text={places} /></span>}</td>
                    <td>
                      {registered ? <Chip tone="good">{t('settlers.registered')}</Chip> : <Chip tone="wait">{t('settlers.unregistered')}</Chip>}
                    </td>
                    <Figure>{countText(record.awarded)}</Figure>
                    <Figure>{countText(record.completed)} <span class="sub">{shareText(record.completed, ended)}</span></Figure>
                    <Figure>{countText(record.failed)}</Figure>
                    <Figure>{countText(record.refunded)}</Figure>
                    <Figure>{countText(record.in_flight)}</Figure>
                    <Figure>{secondsText(record.median_delivery_seconds)}</Figure>
                    <td><Ago at={record.last_award_at} /></td>
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
