// Lines of a graph: where its values are on a surface of a given size.

export interface Surface {
  width: number;
  height: number;
  most: number;
}

/** The next number above that is written with few digits. */
export function roundUp(value: number): number {
  if (!(value > 0) || !Number.isFinite(value)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  const step = [1, 1.5, 2, 3, 4, 5, 6, 8, 10].find((candidate) => candidate * power >= value * (1 - 1e-12)) ?? 10;
  return step * power;
}

export const xOf = (index: number, points: number, width: number): number => (points > 1 ? (index * width) / (points - 1) : width);

/** The lines through the values, one for each run without a gap; a value that stands alone is a short line. */
export function pathOf(values: readonly (number | null)[], { width, height, most }: Surface): string {
  let path = '';
  let isOpen = false;
  values.forEach((value, index) => {
    if (value === null || !Number.isFinite(value)) {
      isOpen = false;
      return;
    }
    const x = xOf(index, values.length, width).toFixed(1);
    const y = (height - (Math.max(0, Math.min(value, most)) / most) * height).toFixed(1);
    path += isOpen ? `L${x} ${y}` : `M${x} ${y}h.1`;
    isOpen = true;
  });
  return path;
}

/** The value under a place of the surface. */
export function indexAt(x: number, points: number, width: number): number {
  if (points < 2 || width <= 0) return 0;
  return Math.max(0, Math.min(points - 1, Math.round((x / width) * (points - 1))));
}
