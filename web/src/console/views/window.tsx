// A long list of which only what is seen is in the document. Rows have one height, so that a place is a number.

import type { ComponentChildren, VNode } from 'preact';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';

/** Rows beyond what is seen, above and below, and by how many the window moves. */
const BEYOND = 8;
const STEP = 6;
/** How long after the pointer moved over the rows they are held where they are. */
const HELD_MS = 3000;

export interface WindowProps {
  label: string;
  count: number;
  /** Pixels. */
  rowPx: number;
  /** What is in a row. */
  row: (index: number) => { key: string; cells: ComponentChildren; class: string };
  /** The columns' names; they stay at the top. */
  head: ComponentChildren;
  /** What stands behind the last row. */
  foot: ComponentChildren;
  onOpen: (index: number) => void;
  onCopy: (index: number) => void;
  /** The place to begin at, and where one is, so that a list that is come back to is as it was. */
  place: { top: number; focused: string | undefined };
  indexOf: (key: string) => number;
  /** Told the first and the last index that is seen when that changes. */
  onSeen: (firstIndex: number, lastIndex: number) => void;
  /** Told how to find out whether one is at the top and does nothing in the list. */
  onRest?: (isAtRest: () => boolean) => void;
  columns: number;
}

export function Window(props: WindowProps): VNode {
  const { count, rowPx, place, row } = props;
  const box = useRef<HTMLDivElement>(null);
  const held = useRef({ pointerAt: -HELD_MS, isWithin: false });
  const wanted = useRef<string | undefined>(undefined);
  const [first, setFirst] = useState(() => Math.max(0, Math.floor(place.top / rowPx)));
  const [seen, setSeen] = useState(20);
  const [focused, setFocused] = useState(place.focused);

  const tell = (): void => {
    const { scrollTop = 0, clientHeight = 0 } = box.current ?? {};
    props.onSeen(Math.floor(scrollTop / rowPx), Math.ceil((scrollTop + clientHeight) / rowPx));
  };
  const look = (): void => {
    const at = box.current;
    if (!at) return;
    place.top = at.scrollTop;
    const index = Math.floor(at.scrollTop / rowPx / STEP) * STEP;
    setFirst(index);
    tell();
  };

  useLayoutEffect(() => {
    if (box.current) box.current.scrollTop = place.top;
    props.onRest?.(() => {
      const { pointerAt, isWithin } = held.current;
      return (box.current?.scrollTop ?? 0) < rowPx / 2 && !isWithin && performance.now() - pointerAt > HELD_MS;
    });
  }, []);
  useEffect(() => {
    const at = box.current;
    if (!at) return;
    const measured = new ResizeObserver(() => {
      setSeen(Math.ceil(at.clientHeight / rowPx));
      look();
    });
    measured.observe(at);
    return () => measured.disconnect();
  }, [rowPx]);
  useEffect(tell, [count]);

  const from = Math.max(0, Math.min(first, count) - BEYOND);
  const to = Math.min(count, first + seen + STEP + BEYOND);

  // The focus follows its row; when that leaves the document, the box keeps the keys.
  useLayoutEffect(() => {
    const at = box.current;
    if (!at) return;
    if (wanted.current !== undefined) {
      const element = at.querySelector<HTMLElement>(`[data-key="${CSS.escape(wanted.current)}"]`);
      if (element) {
        element.focus({ preventScroll: true });
        wanted.current = undefined;
      }
    } else if (held.current.isWithin && document.activeElement === document.body) at.focus({ preventScroll: true });
  });

  const move = (index: number): void => {
    const at = box.current;
    if (!at || !count) return;
    const target = Math.max(0, Math.min(count - 1, index));
    const { key } = row(target);
    const [top, bottom, headPx] = [target * rowPx, (target + 1) * rowPx, at.querySelector('.thead')?.clientHeight ?? 0];
    if (top < at.scrollTop) at.scrollTop = top;
    else if (bottom + headPx > at.scrollTop + at.clientHeight) at.scrollTop = bottom + headPx - at.clientHeight;
    wanted.current = key;
    place.focused = key;
    setFocused(key);
    look();
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.target instanceof HTMLElement && event.target.closest('button, a, input')) return;
    const at = focused === undefined ? -1 : props.indexOf(focused);
    const page = Math.max(1, seen - 2);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, PageDown: at + page, PageUp: at - page, Home: 0, End: count - 1 }[event.key];
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (to !== undefined) move(to);
    else if (event.key === 'Enter' && at >= 0) props.onOpen(at);
    else if (event.key === 'c' && at >= 0) props.onCopy(at);
    else return;
    event.preventDefault();
  };

  const shown = Array.from({ length: Math.max(0, to - from) }, (_, offset) => ({ index: from + offset, ...row(from + offset) }));
  // One row is always reached by the tabulator: that one was at, or the first that is seen.
  const reached = shown.some(({ key }) => key === focused) ? focused : shown[Math.max(0, first - from)]?.key;
  return (
    <div
      class="list"
      ref={box}
      tabIndex={-1}
      onScroll={look}
      onKeyDown={onKeyDown}
      onPointerMove={() => void (held.current.pointerAt = performance.now())}
      onFocusIn={() => void (held.current.isWithin = true)}
      onFocusOut={({ relatedTarget }) => {
        // Without a next one the row that had it may have gone, which is not leaving.
        if (relatedTarget && !box.current?.contains(relatedTarget as Node)) held.current.isWithin = false;
      }}
    >
      <div role="grid" aria-label={props.label} aria-rowcount={count + 1} aria-colcount={props.columns}>
        <div class="thead" role="row" aria-rowindex={1}>{props.head}</div>
        <div role="rowgroup" class="rows" style={{ height: `${count * rowPx}px` }}>
          {shown.map(({ index, key, cells, class: name }) => (
            <div
              key={key}
              data-key={key}
              role="row"
              aria-rowindex={index + 2}
              tabIndex={key === reached ? 0 : -1}
              class={name}
              style={{ transform: `translateY(${index * rowPx}px)`, height: `${rowPx}px` }}
              onFocus={({ currentTarget, target }) => {
                if (target !== currentTarget) return;
                place.focused = key;
                setFocused(key);
              }}
              onClick={({ target }) => {
                if (target instanceof Element && target.closest('a, button')) return;
                if (!getSelection()?.toString()) props.onOpen(index);
              }}
            >
              {cells}
            </div>
          ))}
        </div>
      </div>
      <div class="foot">{props.foot}</div>
    </div>
  );
}
