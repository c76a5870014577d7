// A mandate that was signed: it is handed to the merchant, and ended.

import type { VNode } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';

import { mandateEnds } from '../../../../sdk/typescript/src/mandate-rules.js';
import type { Defaults } from '../../../../sdk/typescript/src/types.js';
import { chainOf } from '../../chains.js';
import { type MandateDocument, returnLink, textOfDocument } from '../../mandate/document.js';
import type { KeptMandate } from '../../mandate/store.js';
import { t } from '../../texts.js';
import { Card, Copied, TransactionLink } from '../parts.js';
import { End } from './end.js';
import { type Shown, Terms } from './terms.js';

/** What is shown of a document. */
export function shownOf({ mandate, source, destination }: MandateDocument, memo?: string): Shown {
  const { merchant, amount, least, begins, period_seconds: periodSeconds, periods, lock_seconds: lockSeconds } = mandate;
  return { merchant, asset: source.asset_identifier, destination, amount, least, begins, periodSeconds, periods, lockSeconds, memo };
}

/** The parts of a document that its address commits to, and who signed. */
export function MandateTerms({ document, memo, defaults }: { document: MandateDocument; memo?: string | undefined; defaults: Defaults }): VNode {
  return (
    <Terms
      shown={shownOf(document, memo)}
      defaults={defaults}
      more={[
        { name: t('field.payer'), value: <code>{document.source.account}</code> },
        { name: t('mandate.address'), value: <code>{document.address}</code> },
      ]}
    />
  );
}

export function Signed({ kept, defaults }: { kept: KeptMandate; defaults: Defaults }): VNode {
  const { document, memo, returnUrl } = kept;
  const [ended, setEnded] = useState(kept.ended);
  const isOver = ended !== undefined || mandateEnds(document.mandate) * 1000 < Date.now();
  const title = useRef<HTMLHeadingElement>(null);
  useEffect(() => title.current?.focus(), []);
  const text = textOfDocument(document);
  // Of a document that was pasted nobody knows who has it.
  const isOwn = kept.at !== '';
  const back = returnUrl === undefined ? undefined : returnLink(returnUrl, document);
  return (
    <article class="checkout">
      <header>
        <h1 id="title" ref={title} tabIndex={-1}>{t(isOver ? 'mandate.over' : isOwn ? 'mandate.signed' : 'mandate.found')}</h1>
        <p role="status">{t(isOver ? 'mandate.over.text' : 'mandate.signed.text')}</p>
        {ended !== undefined && <p><TransactionLink chainId={chainOf(document.source.asset_identifier)} hash={ended} /></p>}
      </header>
      {!isOver && isOwn && (
        <Card title={t('mandate.hand')}>
          <p>{t(returnUrl === undefined ? 'mandate.hand.text' : 'mandate.hand.return')}</p>
          {returnUrl !== undefined && back === undefined && <p>{t('mandate.hand.long')}</p>}
          <div class="actions">
            {returnUrl !== undefined && back !== undefined && (
              <a class="button primary" href={back} rel="noreferrer">{t('mandate.hand.do', { origin: new URL(returnUrl).origin })}</a>
            )}
            <a class="button" href={`data:application/json,${encodeURIComponent(text)}`} download={`mandate-${document.address}.json`}>{t('mandate.download')}</a>
          </div>
          <details>
            <summary>{t('mandate.document')}</summary>
            <Copied text={text} label={t('mandate.copy')} isLong />
          </details>
        </Card>
      )}
      <section class="card" aria-labelledby="title"><MandateTerms document={document} memo={memo} defaults={defaults} /></section>
      {!isOver && <End document={document} onEnded={setEnded} />}
    </article>
  );
}
