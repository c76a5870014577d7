// Text that comes from outside, made so that it shows what it is: nothing in it is unseen, and nothing turns what is beside it.

/** Control characters, what sets the direction of text, what has no width, and halves of characters. */
const UNSEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;

/** The text with what cannot be seen written out as its code. Tabs and line feeds stay. */
export const visible = (text: string): string => text.replace(UNSEEN, (c) => `\\u{${c.charCodeAt(0).toString(16)}}`);

/** Any value of the API as text. */
export const textOf = (value: unknown): string => {
  if (value === null || value === undefined) return '';
  return visible(typeof value === 'string' ? value : typeof value === 'object' ? JSON.stringify(value) : String(value));
};
