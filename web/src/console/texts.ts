// The texts of the console, in one file a language.

import english from '../../data/console.en.json';

export type TextName = keyof typeof english;

/** The text of this name, each `{member}` in it replaced. What is put in is text, and stays text. */
export function t(name: TextName, members: Record<string, string | number> = {}): string {
  return english[name].replace(/\{(\w+)\}/g, (whole, member: string) => (Object.hasOwn(members, member) ? String(members[member]) : whole));
}

/** The text whose name is put together with what the API says; that itself where there is none. */
export function named(group: string, name: string): string {
  const full = `${group}.${name}`;
  return Object.hasOwn(english, full) ? english[full as TextName] : name.replaceAll('_', ' ');
}
