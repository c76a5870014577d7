// Text that comes from outside, made so that it shows what it is: nothing in it is unseen, and nothing turns what is beside it.

/**
 * What Unicode lets a screen show nothing of (selectors, fillers, tags, what sets the direction of text), control characters,
 * ends of lines and of paragraphs, marks of annotations, and halves of characters.
 */
const UNSEEN = /[\p{Default_Ignorable_Code_Point}\p{Zl}\p{Zp}\p{Cs}\ufff9-\ufffb]|(?![\t\n])\p{Cc}/gu;

/** The text with what cannot be seen written out as its code. Tabs and line feeds stay. */
export const visible = (text: string): string => text.replace(UNSEEN, (c) => `\\u{${(c.codePointAt(0) ?? 0).toString(16)}}`);

/** Any value of the API as text. */
export const textOf = (value: unknown): string => {
  if (value === null || value === undefined) return '';
  return visible(typeof value === 'string' ? value : typeof value === 'object' ? JSON.stringify(value) : String(value));
};
