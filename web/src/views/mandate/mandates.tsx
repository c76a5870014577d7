// The mandates that this browser keeps, and others by their document: each can be handed over again, and ended.

import type { VNode } from 'preact';
import { useRef, useState } from 'preact/hooks';

import { mandateEnds } from '../../../../sdk/typescript/src/mandate-rules.js';
import type { Defaults } from '../../../../sdk/typescript/src/types.js';
import { amountText, shortText, spanText } from '../../format.js';
import { BadDocument, readDocument } from '../../mandate/document.js';
import { forgetMandate, type KeptMandate, keptMandates } from '../../mandate/store.js';
import { t } from '../../texts.js';
import { Card, Time } from '../parts.js';
import { Signed } from './signed.js';

export function Mandates({ defaults }: { defaults: Defaults }): VNode {
  const [kept, setKept] = useState(keptMandates);
  const [chosen, setChosen] = useState<KeptMandate>();
  const [text, setText] = useState('');
  const [fault, setFault] = useState<BadDocument['reason']>();
  const input = useRef<HTMLTextAreaElement>(null);
  const read = (): void => {
    try {
      const document = readDocument(text);
      const known = kept.find((one) => one.document.address === document.address);
      setFault(undefined);
      setChosen(known ?? { document, link: '', at: '' });
    } catch (error) {
      setFault(error instanceof BadDocument ? error.reason : 'damaged');
      input.current?.focus();
    }
  };
  const back = (): void => {
    setKept(keptMandates());
    setChosen(undefined);
  };
  const forget = (address: string): void => {
    forgetMandate(address);
    setKept(keptMandates());
  };
  if (chosen) {
    return (
      <>
        <p><button type="button" class="plain" onClick={back}>{t('mandate.all')}</button></p>
        <Signed kept={chosen} defaults={defaults} />
      </>
    );
  }
  return (
    <article class="checkout">
      <header>
        <h1 id="title" tabIndex={-1}>{t('mandates.title')}</h1>
        <p>{t('mandates.text')}</p>
      </header>
      <Card title={t('mandates.kept')}>
        {kept.length === 0 && <p>{t('mandates.none')}</p>}
        <ul class="wallets">
          {kept.map((one) => (
            <li key={one.document.address}>
              <Kept kept={one} defaults={defaults} onOpen={() => setChosen(one)} onForget={() => forget(one.document.address)} />
            </li>
          ))}
        </ul>
      </Card>
      <Card title={t('mandates.other')}>
        <label for="mandate-document">{t('mandates.document')}</label>
        <textarea
          id="mandate-document"
          ref={input}
          rows={6}
          value={text}
          onInput={({ currentTarget }) => setText(currentTarget.value)}
          aria-describedby="mandate-fault"
          aria-invalid={fault !== undefined}
          autocomplete="off"
          autocapitalize="off"
          spellcheck={false}
        />
        <p id="mandate-fault" class="fault" role="alert">{fault && t(`mandates.bad.${fault}`)}</p>
        <button type="button" class="primary wide" onClick={read}>{t('mandates.read')}</button>
      </Card>
    </article>
  );
}

function Kept({ kept, defaults, onOpen, onForget }: { kept: KeptMandate; defaults: Defaults; onOpen: () => void; onForget: () => void }): VNode {
  const { document, at, ended } = kept;
  const { merchant, amount, period_seconds } = document.mandate;
  const isOver = ended !== undefined || mandateEnds(document.mandate) * 1000 < Date.now();
  return (
    <>
      <button type="button" onClick={onOpen}>
        {t('mandates.one', { amount: amountText(defaults, document.source.asset_identifier, amount), period: spanText(period_seconds), merchant: shortText(merchant) })}
        <span class="muted">{isOver ? t('mandates.over') : <Time at={at} />}</span>
      </button>
      {isOver && <button type="button" class="plain" onClick={onForget}>{t('mandates.forget')}</button>}
    </>
  );
}
