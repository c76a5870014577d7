// The streams of the journal, and its epochs.

import type { VNode } from 'preact';

import { bytesText, countText } from '../format.js';
import { usePolled } from '../poll.js';
import { t } from '../texts.js';
import type { Streams as Read } from '../types.js';
import { Ago, Chip, Head, Loaded, Figure, Outside, Table, Time } from './parts.js';

const EVERY_MS = 10_000;

export function Streams(): VNode {
  const polled = usePolled<Read>('streams', EVERY_MS);
  return (
    <>
      <Head title={t('nav.streams')} />
      <Loaded of={polled}>
        {({ streams, has_more, epochs }) => (
          <>
            <Table
              label={t('nav.streams')}
              isEmpty={!streams.length}
              empty={t('streams.none')}
              columns={[
                { name: t('streams.name') },
                { name: t('streams.messages'), isNumber: true },
                { name: t('streams.bytes'), isNumber: true },
                { name: t('streams.first'), isNumber: true },
                { name: t('streams.last'), isNumber: true },
                { name: t('streams.at') },
                { name: t('streams.replicas'), isNumber: true },
                { name: t('streams.consumers'), isNumber: true },
              ]}
            >
              {streams.map(({ name, messages, bytes, first_sequence, last_sequence, last_at, replicas, consumers }) => (
                <tr key={name}>
                  <td><code><Outside text={name} /></code></td>
                  <Figure>{countText(messages)}</Figure>
                  <Figure>{bytesText(bytes)}</Figure>
                  <Figure>{countText(first_sequence)}</Figure>
                  <Figure>{countText(last_sequence)}</Figure>
                  <td><Ago at={last_at} /></td>
                  <Figure>{countText(replicas)}</Figure>
                  <Figure>{countText(consumers)}</Figure>
                </tr>
              ))}
            </Table>
            {has_more && <p class="muted">{t('more.unshown')}</p>}
            <h2>{t('epochs.title')}</h2>
            <p class="lead">{t('epochs.lead')}</p>
            <Table
              label={t('epochs.title')}
              isEmpty={!epochs.length}
              empty={t('epochs.none')}
              columns={[{ name: t('epochs.number'), isNumber: true }, { name: t('epochs.shards') }, { name: t('epochs.state') }, { name: t('epochs.begun') }]}
            >
              {epochs.map(({ number, first_shard, shards, sealed, begun_at }) => (
                <tr key={number}>
                  <Figure>{number}</Figure>
                  <td>{t('epochs.range', { first: first_shard, last: first_shard + shards - 1, count: shards })}</td>
                  <td>{sealed ? <Chip tone="plain">{t('epochs.sealed')}</Chip> : <Chip tone="good">{t('epochs.open')}</Chip>}</td>
                  <td><Time at={begun_at} /></td>
                </tr>
              ))}
            </Table>
          </>
        )}
      </Loaded>
    </>
  );
}
