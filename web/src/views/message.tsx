// A page that says one thing.

import type { VNode } from 'preact';

import { t, type TextName } from '../texts.js';

export function Message({ title, text, members = {} }: { title: TextName; text: TextName; members?: Record<string, string> }): VNode {
  return (
    <header>
      <h1>{t(title)}</h1>
      <p>{t(text, members)}</p>
    </header>
  );
}
