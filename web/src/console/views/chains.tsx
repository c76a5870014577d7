// The chains: how far they are, who sends transactions on them, and which nodes tell of them.

import type { VNode } from 'preact';

import { countText, shareText, valueText } from '../format.js';
import { usePolled } from '../poll.js';
import { t } from '../texts.js';
import type { Chains as Read } from '../types.js';
import { Chip, Head, Id, Loaded, Figure, Outside, Rows, Table } from './parts.js';

const EVERY_MS = 10_000;
/** Blocks behind the others from which a node is marked. */
const LAG_MARKED = 3;

export function Chains(): VNode {
  const polled = usePolled<Read>('chains', EVERY_MS);
  return (
    <>
      <Head title={t('nav.chains')} />
      <Loaded of={polled}>{({ chains }) => (chains.length ? <>{chains.map((chain) => <Chain key={chain.chain_id} {...chain} />)}</> : <p class="empty">{t('chains.none')}</p>)}</Loaded>
    </>
  );
}

function Chain({ chain_id, name, ready, cause, head, settled, submitters, nodes }: Read['chains'][number]): VNode {
  return (
    <section class="card">
      <h2><Outside text={name} /> <span class="muted"><Outside text={chain_id} /></span> {ready ? <Chip tone="good">{t('chains.ready')}</Chip> : <Chip tone="bad">{t('chains.unready')}</Chip>}</h2>
      {cause && <p class="note bad"><Outside text={cause} /></p>}
      <Rows
        rows={[
          [t('chains.head'), countText(head)],
          [t('chains.settled'), <>{countText(settled)}{head !== null && settled !== null && <span class="muted"> {t('chains.depth', { count: countText(head - settled) })}</span>}</>],
        ]}
      />
      <h3>{t('chains.submitters')}</h3>
      <Table label={t('chains.submitters')} isEmpty={!submitters.length} empty={t('chains.submitters.none')} columns={[{ name: t('chains.account') }, { name: t('chains.coins'), isNumber: true }, { name: t('chains.nonces'), isNumber: true }]}>
        {submitters.map(({ account, coins, nonces_in_flight }) => (
          <tr key={account}>
            <td><Id id={account} /></td>
            <Figure>{valueText('coins', coins)}</Figure>
            <Figure>{countText(nonces_in_flight)}</Figure>
          </tr>
        ))}
      </Table>
      <h3>{t('chains.nodes')}</h3>
      <Table
        label={t('chains.nodes')}
        isEmpty={!nodes.length}
        empty={t('chains.nodes.none')}
        columns={[
          { name: t('chains.node') },
          { name: t('chains.lag'), isNumber: true },
          { name: t('chains.latency'), isNumber: true },
          { name: t('chains.calls'), isNumber: true },
          { name: t('chains.errors'), isNumber: true },
          { name: t('chains.disagreements'), isNumber: true },
        ]}
      >
        {nodes.map(({ origin, up, head_lag, latency_ms, errors, calls, disagreements }, at) => (
          <tr key={at}>
            <td><Outside text={origin} /> {up === false && <Chip tone="bad">{t('chains.down')}</Chip>}</td>
            <td class={(head_lag ?? 0) >= LAG_MARKED ? 'number bad' : 'number'}>{countText(head_lag)}</td>
            <Figure>{latency_ms === null ? '–' : `${countText(latency_ms)} ms`}</Figure>
            <Figure>{countText(calls)}</Figure>
            <Figure>{countText(errors)} <span class="sub">{errors ? shareText(errors, calls) : ''}</span></Figure>
            <td class={disagreements ? 'number bad' : 'number'}>{countText(disagreements)}</td>
          </tr>
        ))}
      </Table>
    </section>
  );
}
