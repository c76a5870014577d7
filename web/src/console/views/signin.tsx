// Signing in with a token.

import type { VNode } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';

import { ApiError, apiError, ask, session, signIn } from '../api.js';
import { me } from '../me.js';
import { useStore } from '../store.js';
import { t } from '../texts.js';
import type { Me } from '../types.js';
import { Problem } from './parts.js';

/** What is sent as a header at all. */
const SENDABLE = /^[!-~]{1,200}$/;

export function SignIn(): VNode {
  const { why } = useStore(session);
  const [token, setToken] = useState('');
  const [isAsking, setAsking] = useState(false);
  const [error, setError] = useState<ApiError>();
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => field.current?.focus(), []);
  useEffect(() => {
    document.title = `${t('signin.title')} · ${t('app.name')}`;
  }, []);
  const enter = async (): Promise<void> => {
    const given = token.trim();
    if (!given || isAsking) return;
    if (!SENDABLE.test(given)) return setError(new ApiError(400, '', t('signin.form')));
    setAsking(true);
    setError(undefined);
    try {
      me.set(await ask<Me>('me', { token: given }));
      signIn(given);
    } catch (thrown) {
      setError(apiError(thrown));
      setAsking(false);
      field.current?.focus();
    }
  };
  // A form would be sent somewhere; the page's policy lets none be.
  return (
    <main class="signin">
      <h1>{t('app.name')}</h1>
      <p class="lead">{t('signin.text')}</p>
      {why === 'refused' && !error && (
        <div class="problem" role="alert">
          <p class="problem-title">{t('signin.refused')}</p>
          <p>{t('signin.refused.text')}</p>
        </div>
      )}
      <label for="token">{t('signin.token')}</label>
      <input
        id="token"
        ref={field}
        type="password"
        autocomplete="off"
        autocapitalize="off"
        spellcheck={false}
        placeholder="gwc_…"
        value={token}
        aria-describedby="token-text"
        aria-invalid={error ? 'true' : 'false'}
        onInput={({ currentTarget }) => setToken(currentTarget.value)}
        onKeyDown={({ key }) => key === 'Enter' && void enter()}
      />
      <p class="muted" id="token-text">{t('signin.kept')}</p>
      {error && <Problem isOnce error={error} title={error.status === 401 ? t('signin.wrong') : t('signin.failed')} />}
      <button type="button" class="primary wide" disabled={!token.trim() || isAsking} onClick={() => void enter()}>
        {isAsking ? t('signin.asking') : t('signin.do')}
      </button>
    </main>
  );
}
