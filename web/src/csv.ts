// Tables as spreadsheets write them (RFC 4180), with commas, semicolons or tabs between the cells.

/** A row, and the line of the text on which it begins, from 1. */
export interface Row {
  line: number;
  cells: string[];
}

/** A cell begins with a quotation mark and never ends, or goes on behind the one at its end. */
export class BadCell extends Error {
  override readonly name = 'BadCell';

  constructor(readonly line: number) {
    super(`line ${line} has a quotation mark that does not close a cell`);
  }
}

const BETWEEN = ['\t', ';', ','] as const;

/** What stands between the cells, by the first line that has any: tabs before semicolons before commas. */
function betweenOf(text: string): string {
  const first = text.split(/\r?\n|\r/).find((line) => line.trim()) ?? '';
  const bare = first.replace(/"[^"]*"/g, '');
  return BETWEEN.find((sign) => bare.includes(sign)) ?? ',';
}

/**
 * The rows that are not empty, their cells without blanks at either end.
 *
 * @throws {BadCell}
 */
export function rowsOf(text: string): Row[] {
  const whole = text.replace(/^\ufeff/, '');
  const between = betweenOf(whole);
  const rows: Row[] = [];
  let row: Row = { line: 1, cells: [] };
  let line = 1;
  let at = 0;
  const ends = (): boolean => at >= whole.length || whole[at] === between || whole[at] === '\n' || whole[at] === '\r';
  const blanks = (): void => {
    while (!ends() && /[^\S\r\n]/.test(whole[at] ?? '')) at += 1;
  };
  const quoted = (): string => {
    const from = line;
    let cell = '';
    for (at += 1; at < whole.length; at += 1) {
      const char = whole[at] ?? '';
      if (char === '"' && whole[at + 1] !== '"') {
        at += 1;
        blanks();
        if (!ends()) throw new BadCell(line);
        return cell;
      }
      if (char === '"') at += 1;
      if (char === '\n' || (char === '\r' && whole[at + 1] !== '\n')) line += 1;
      cell += char;
    }
    throw new BadCell(from);
  };
  const plain = (): string => {
    const from = at;
    while (!ends()) at += 1;
    return whole.slice(from, at);
  };
  while (at <= whole.length) {
    blanks();
    row.cells.push((whole[at] === '"' ? quoted() : plain()).trim());
    if (whole[at] === between) {
      at += 1;
      continue;
    }
    if (row.cells.some(Boolean)) rows.push(row);
    at += whole[at] === '\r' && whole[at + 1] === '\n' ? 2 : 1;
    line += 1;
    row = { line, cells: [] };
  }
  return rows;
}
