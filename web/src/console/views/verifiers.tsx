// Who attests deliveries, and whether they do.

import type { VNode } from 'preact';

import { countText, shareText } from '../format.js';
import { usePolled } from '../poll.js';
import { t } from '../texts.js';
import type { Surveyed, Verifiers as Read } from '../types.js';
import { Chip, Head, Id, Loaded, Figure, Outside, Table, Time } from './parts.js';

const EVERY_MS = 10_000;

const SurveyedOf = ({ payments, since }: Surveyed): VNode => (
  <p class="lead">{t('surveyed', { count: countText(payments) })} {since && <>{t('surveyed.since')} <Time at={since} /></>}</p>
);

export function Verifiers(): VNode {
  const polled = usePolled<Read>('verifiers', EVERY_MS);
  return (
    <>
      <Head title={t('nav.verifiers')} />
      <Loaded of={polled}>
        {({ surveyed, verifiers, has_more }) => (
          <>
            <SurveyedOf {...surveyed} />
            <Table
              label={t('nav.verifiers')}
              isEmpty={!verifiers.length}
              empty={t('verifiers.none')}
              columns={[
                { name: t('verifiers.name') },
                { name: t('verifiers.trusted') },
                { name: t('verifiers.delivered'), isNumber: true },
                { name: t('verifiers.attested'), isNumber: true },
                { name: t('verifiers.unattested'), isNumber: true },
              ]}
            >
              {verifiers.map(({ endpoint, account, trusted, record }) => (
                <tr key={`${endpoint} ${account}`}>
                  <td><Outside text={endpoint} /><span class="sub"><Id id={account} /></span></td>
                  <td>{trusted ? <Chip tone="good">{t('verifiers.yes')}</Chip> : <Chip tone="wait">{t('verifiers.no')}</Chip>}</td>
                  <Figure>{countText(record.delivered)}</Figure>
                  <Figure>{countText(record.attested)} <span class="sub">{shareText(record.attested, record.delivered)}</span></Figure>
                  <td class={record.unattested ? 'number bad' : 'number'}>{countText(record.unattested)}</td>
                </tr>
              ))}
            </Table>
            {has_more && <p class="muted">{t('more.unshown')}</p>}
          </>
        )}
      </Loaded>
    </>
  );
}
