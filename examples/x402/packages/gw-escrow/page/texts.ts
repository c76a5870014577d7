// The texts of this page. Those of wallets and stages are the gateway's pages', in web/data/en.json.

import english from './en.json';

/** The text of this name, each `{member}` in it replaced. What is put in is text, and stays text. */
export function say(name: keyof typeof english, members: Record<string, string | number> = {}): string {
  return english[name].replace(/\{(\w+)\}/g, (whole, member: string) => (member in members ? String(members[member]) : whole));
}
