// What the stream does not bring: read again and again while it is looked at.
import { useEffect, useState } from "preact/hooks";

export interface Polled<Answer> {
  found: Answer | null;
  /** why there is none, or no newer one */
  said: string;
  /** read it at once */
  again: () => void;
}

/** `key` names what is read; another key forgets what was found. The next reading begins `everyMs` after the last has ended. */
export function usePolled<Answer>(key: string, read: () => Promise<Answer>, everyMs: number): Polled<Answer> {
  const [state, show] = useState<{ key: string; found: Answer | null; said: string }>({ key, found: null, said: "" });
  const [asked, ask] = useState(0);
  useEffect(() => {
    let over = false;
    let timer = 0;
    const once = async () => {
      try {
        const found = await read();
        if (!over) show({ key, found, said: "" });
      } catch (problem) {
        if (!over) show((before) => ({ key, found: before.key === key ? before.found : null, said: (problem as Error).message }));
      }
      if (!over) timer = window.setTimeout(() => void once(), everyMs);
    };
    void once();
    return () => {
      over = true;
      clearTimeout(timer);
    };
  }, [key, asked]);
  const known = state.key === key;
  return { found: known ? state.found : null, said: known ? state.said : "", again: () => ask(asked + 1) };
}
