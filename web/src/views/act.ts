// Something that takes a while: what goes on is told, and what goes wrong, with a way on.

import { useRef, useState } from 'preact/hooks';

import { problemOf, type ProblemText } from '../problems.js';
import type { TextName } from '../texts.js';

export interface Act {
  /** What goes on. */
  busy: string | undefined;
  problem: (ProblemText & { again?: () => void }) | undefined;
  setProblem: (problem: ProblemText | undefined) => void;
  /** Does it; at most one thing at a time. */
  act: (text: string, work: (told: (text: string) => void) => Promise<void>) => Promise<void>;
}

/** @param differs What is said where a signature is asked for over something else than is shown. */
export function useAct(differs: TextName): Act {
  const [busy, setBusy] = useState<string>();
  const [problem, setProblem] = useState<Act['problem']>();
  const isBusy = useRef(false);
  const act: Act['act'] = async (text, work) => {
    if (isBusy.current) return;
    isBusy.current = true;
    setProblem(undefined);
    setBusy(text);
    try {
      await work(setBusy);
    } catch (error) {
      setProblem({ ...problemOf(error, differs), again: () => void act(text, work) });
    } finally {
      isBusy.current = false;
      setBusy(undefined);
    }
  };
  return { busy, problem, setProblem, act };
}
