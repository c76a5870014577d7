// Who attests deliveries, and whether they do.

import type { VNode } from 'preact';

import { countText, shareText } from '../format.js';
import { usePolled } from '../poll.js';
import { t } from '../texts.js';
import type { ObservedVerifier, Surveyed, Verifiers as Read } from '../types.js';
import { Ago, Chip, Head, Id, Loaded, Figure, Outside, Table, Time, type Tone } from './parts.js';

const EVERY_MS = 10_000;

const SurveyedOf = ({ payments, since }: Surveyed): VNode => (
  <p class="lead">{t('surveyed', { count: countText(payments) })} {since && <>{t('surveyed.since')} <Time at={since} /></>}</p>
);

const TONES: Record<string, Tone> = { ok: 'good', unasked: 'plain', slow: 'wait', silent: 'bad', contradicts: 'bad' };

/** What became of asks, and whether it is bad. */
const ANSWERS = [['attested'], ['pending'], ['refused', true], ['busy'], ['unreachable', true], ['contradiction', true]] as const;

/** How each verifier has answered this gateway. */
const Observed = ({ observed }: { observed: readonly ObservedVerifier[] }): VNode => (
  <section>
    <h2>{t('verifiers.observed')}</h2>
    <p class="lead">{t('verifiers.observed.lead')}</p>
    <Table
      label={t('verifiers.observed')}
      isEmpty={!observed.length}
      empty={t('verifiers.none')}
      columns={[
        { name: t('verifiers.name') },
        { name: t('verifiers.state') },
        ...ANSWERS.map(([answer]) => ({ name: t(`verifiers.answer.${answer}`), isNumber: true })),
        { name: t('verifiers.median'), isNumber: true },
        { name: t('verifiers.last') },
      ]}
    >
      {observed.map(({ endpoint, accounts, answers, median_ms, last_answered_at, state }) => (
        <tr key={endpoint}>
          <td>
            <Outside text={endpoint} />
            {accounts.map(({ account, set, threshold, members }) => (
              <span key={`${account} ${set}`} class="sub"><Id id={account} />{set !== undefined && <> {t('verifiers.of', { threshold, count: members })}</>}</span>
            ))}
          </td>
          <td><Chip tone={TONES[state] ?? 'wait'}><Outside text={state} /></Chip></td>
          {ANSWERS.map(([answer, isBad]) => (
            <td key={answer} class={isBad && answers[answer] ? 'number bad' : 'number'}>{countText(answers[answer] ?? 0)}</td>
          ))}
          <Figure>{median_ms === undefined ? '–' : `${countText(median_ms)} ms`}</Figure>
          <td><Ago at={last_answered_at} /></td>
        </tr>
      ))}
    </Table>
  </section>
);

export function Verifiers(): VNode {
  const polled = usePolled<Read>('verifiers', EVERY_MS);
  return (
    <>
      <Head title={t('nav.verifiers')} />
      <Loaded of={polled}>
        {({ surveyed, verifiers, has_more, observed }) => (
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
              {verifiers.map(({ endpoint, account, set, trusted, record }) => (
                <tr key={`${endpoint} ${account}`}>
                  <td>
                    {set ? t('verifiers.of', { threshold: set.threshold, count: set.members.length }) : <Outside text={endpoint} />}
                    <span class="sub"><Id id={account} /></span>
                    {set?.members.map((member) => (
                      <span key={member.account} class="sub"><Outside text={member.endpoint} /> <Id id={member.account} /></span>
                    ))}
                  </td>
                  <td>{trusted ? <Chip tone="good">{t('verifiers.yes')}</Chip> : <Chip tone="wait">{t('verifiers.no')}</Chip>}</td>
                  <Figure>{countText(record.delivered)}</Figure>
                  <Figure>{countText(record.attested)} <span class="sub">{shareText(record.attested, record.delivered)}</span></Figure>
                  <td class={record.unattested ? 'number bad' : 'number'}>{countText(record.unattested)}</td>
                </tr>
              ))}
            </Table>
            {has_more && <p class="muted">{t('more.unshown')}</p>}
            {observed && <Observed observed={observed} />}
          </>
        )}
      </Loaded>
    </>
  );
}
