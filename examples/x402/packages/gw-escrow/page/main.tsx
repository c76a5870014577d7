// The paywall: what a browser shows of a 402, until it is paid.

import { render, type VNode } from 'preact';
import { useEffect, useState } from 'preact/hooks';

import '../../../../../web/src/page.css';
import './page.css';
import type { Defaults } from '../../../../../sdk/typescript/src/types.js';
import { Busy, Problem } from '../../../../../web/src/views/parts.js';
import { Checkout, Summary } from './checkout.js';
import { isLeft } from './deliver.js';
import { gateway } from './gateway.js';
import { kept, type Kept, onKept, tidy } from './kept.js';
import { handed, offersOf } from './offer.js';
import { Sending } from './sending.js';
import { say } from './texts.js';

/** What this page gave its last load lies there still: the shop does not read it. */
const isPlain = isLeft();

function App(): VNode {
  const [required, setRequired] = useState(handed.required);
  const [payment, setPayment] = useState<Kept | undefined>(kept);
  const [defaults, setDefaults] = useState<Defaults>();
  const [isAway, setAway] = useState(false);
  const { offers, problem } = offersOf(required);

  const load = (): void => {
    setAway(false);
    gateway.defaults().then(setDefaults, () => setAway(true));
  };
  useEffect(load, []);
  useEffect(() => onKept((other) => setPayment((own) => own ?? other)), []);

  const { resource } = required;
  const title = resource.description || resource.url;
  return (
    <article class="checkout">
      <header>
        <h1 id="title" tabIndex={-1}>
          {title}
        </h1>
        <p>{say('lead')}</p>
      </header>
      {defaults && <Summary required={required} defaults={defaults} />}
      {payment ? (
        <Sending
          key={payment.paymentId}
          payment={payment}
          isPlain={isPlain}
          onFree={(now) => {
            if (now) setRequired(now);
            setPayment(undefined);
          }}
        />
      ) : !offers.length ? (
        <Problem
          title={say('unpayable.title')}
          text={problem === undefined ? say('unpayable.scheme') : say('unpayable.broken', { reason: problem })}
        />
      ) : (
        defaults && <Checkout required={required} defaults={defaults} onRequired={setRequired} onSigned={setPayment} />
      )}
      {!defaults && !isAway && offers.length > 0 && <Busy text={say('loading')} />}
      {isAway && !payment && (
        <Problem title={say('away.title')} text={say('away')}>
          <div class="actions">
            <button type="button" onClick={load}>
              {say('error.retry')}
            </button>
          </div>
        </Problem>
      )}
    </article>
  );
}

/** A page that frames this one could have its clicks. */
const Framed = (): VNode => (
  <Problem title={say('title')} text={say('framed')}>
    <p>
      <a href={location.href} target="_blank" rel="noopener">
        {say('framed.open')}
      </a>
    </p>
  </Problem>
);

const main = document.getElementById('main');
if (main) {
  tidy();
  main.replaceChildren();
  render(window.top === window.self ? <App /> : <Framed />, main);
}
