// The texts of the page. They stand in one file a language; a further one is a further file of the same names.

import english from '../data/en.json';

export type TextName = keyof typeof english;

/** The text of this name, each `{member}` in it replaced. What is put in is text, and stays text. */
export function t(name: TextName, members: Record<string, string | number> = {}): string {
  return english[name].replace(/\{(\w+)\}/g, (whole, member: string) => (member in members ? String(members[member]) : whole));
}

/** The text whose name is put together; `undefined` where there is none. */
export function maybe(name: string): string | undefined {
  return Object.hasOwn(english, name) ? english[name as TextName] : undefined;
}
