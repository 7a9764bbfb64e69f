// A list that the node searches and pages: 10,000 rows cost the page no more than the hundred that are shown.
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { page, type Lists, type Page } from "../api";
import { changes, search } from "../state";
import { count } from "../words";
import { Rows, type Column } from "./table";

const PAGE = 100;
/** Changes may come thick; a list is read again at most so often, and rests for so many times what the reading took. */
const AGAIN_MS = 700;
const REST = 4;

interface Props<Name extends keyof Lists> {
  of: Name;
  label: string;
  filters?: Record<string, string>;
  columns: readonly Column<Lists[Name]>[];
  id: (row: Lists[Name]) => string;
  empty: ComponentChildren;
  choose?: (row: Lists[Name]) => void;
  /** the newest rows of a list that has the newest first, as the stream brings them */
  newest?: readonly Lists[Name][];
}

export function Listing<Name extends keyof Lists>({ of, label, filters = {}, columns, id, empty, choose, newest = [] }: Props<Name>) {
  const [starts, turn] = useState<(string | null)[]>([null]);
  const [found, show] = useState<Page<Lists[Name]> | null>(null);
  const [said, say] = useState("");
  const after = starts.at(-1) ?? null;
  const wanted = JSON.stringify({ ...filters, q: search.value });
  useEffect(() => turn([null]), [wanted]);
  const read = useRef({ key: "", atMs: 0, restMs: AGAIN_MS });
  const under = useRef<AbortController | null>(null);
  useEffect(() => () => under.current?.abort(), [of, wanted, after]);
  const changed = changes.value;
  useEffect(() => {
    const key = `${of} ${wanted} ${after}`;
    const again = read.current.key === key;
    const timer = setTimeout(
      () => {
        const atMs = Date.now();
        read.current = { key, atMs, restMs: AGAIN_MS };
        under.current = new AbortController();
        const { signal } = under.current;
        const still = () => read.current.key === key && !signal.aborted;
        page(of, JSON.parse(wanted) as Record<string, string>, PAGE, after, signal).then(
          (rows) => {
            if (!still()) return;
            read.current.restMs = Math.max(AGAIN_MS, REST * (Date.now() - atMs));
            show(rows);
            say("");
          },
          (problem: Error) => still() && say(problem.message),
        );
      },
      again ? Math.max(0, read.current.atMs + read.current.restMs - Date.now()) : 0,
    );
    return () => clearTimeout(timer);
  }, [of, wanted, after, changed]);

  if (said) return <p class="bad" role="alert">{said}</p>;
  if (!found) return <p class="empty">reading…</p>;
  const rows = starts.length === 1 && !search.value ? joined(newest, found.rows, id) : found.rows;
  if (!rows.length && starts.length === 1) return <p class="empty">{search.value ? "Nothing matches the search." : empty}</p>;
  const first = (starts.length - 1) * PAGE;
  return (
    <>
      <Rows label={label} rows={rows} columns={columns} id={id} choose={choose} />
      {found.total > PAGE && (
        <nav class="pages" aria-label={`pages of ${label}`}>
          <button type="button" disabled={starts.length === 1} onClick={() => turn(starts.slice(0, -1))}>
            ‹ back
          </button>
          <span>
            {count(first + 1)} to {count(first + found.rows.length)} of {count(found.total)}
          </span>
          <button type="button" disabled={!found.next} onClick={() => found.next && turn([...starts, found.next])}>
            next ›
          </button>
        </nav>
      )}
    </>
  );
}

/** What the stream has brought since the list was read stands before it. */
function joined<Row>(newest: readonly Row[], read: readonly Row[], id: (row: Row) => string): readonly Row[] {
  const known = new Set(read.map(id));
  return [...newest.filter((row) => !known.has(id(row))), ...read].slice(0, PAGE);
}
