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
  /** the newest rows, as the stream brings them, of a list in this order */
  newest?: readonly Lists[Name][];
  order?: (one: Lists[Name], other: Lists[Name]) => number;
}

export function Listing<Name extends keyof Lists>({ of, label, filters = {}, columns, id, empty, choose, newest = [], order }: Props<Name>) {
  const [starts, turn] = useState<(string | null)[]>([null]);
  const [found, show] = useState<Page<Lists[Name]> | null>(null);
  const [said, say] = useState("");
  const after = starts.at(-1) ?? null;
  const wanted = JSON.stringify({ ...filters, q: search.value });
  useEffect(() => turn([null]), [wanted]);
  const read = useRef({ key: "", atMs: 0, restMs: AGAIN_MS, asOf: -1 });
  const under = useRef<AbortController | null>(null);
  const [ended, end] = useState(0);
  useEffect(
    () => () => {
      under.current?.abort();
      under.current = null;
    },
    [of, wanted, after],
  );
  const changed = changes.value;
  useEffect(() => {
    const key = `${of} ${wanted} ${after}`;
    const again = read.current.key === key;
    // One reading at a time: a browser asks a node few things at once, and slow answers would keep other pages waiting.
    if (again && (under.current || read.current.asOf === changed)) return;
    const begin = () => {
      const atMs = Date.now();
      const mine = new AbortController();
      read.current = { key, atMs, restMs: AGAIN_MS, asOf: changes.value };
      under.current = mine;
      const over = (tell: () => void) => {
        if (mine.signal.aborted) return;
        read.current.restMs = Math.max(AGAIN_MS, REST * (Date.now() - atMs));
        under.current = null;
        tell();
        end((times) => times + 1);
      };
      page(of, JSON.parse(wanted) as Record<string, string>, PAGE, after, mine.signal).then(
        (rows) =>
          over(() => {
            show(rows);
            say("");
          }),
        (problem: Error) => over(() => say(problem.message)),
      );
    };
    const timer = setTimeout(begin, again ? Math.max(0, read.current.atMs + read.current.restMs - Date.now()) : 0);
    return () => clearTimeout(timer);
  }, [of, wanted, after, changed, ended]);

  if (said) return <p class="bad" role="alert">{said}</p>;
  const isFirst = starts.length === 1;
  const rows = isFirst && order && !search.value ? joined(newest, found?.rows ?? [], id, order) : (found?.rows ?? []);
  if (!found && !rows.length) return <p class="empty">reading…</p>;
  if (!rows.length && isFirst) return <p class="empty">{search.value ? "Nothing matches the search." : empty}</p>;
  const first = (starts.length - 1) * PAGE;
  return (
    <>
      <Rows label={label} rows={rows} columns={columns} id={id} choose={choose} />
      {found && found.total > PAGE && (
        <nav class="pages" aria-label={`pages of ${label}`}>
          <button type="button" disabled={isFirst} onClick={() => turn(starts.slice(0, -1))}>
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

/** What was read and what the stream brings, each row once: either may know newer ones, and the stream keeps old ones, too. */
function joined<Row>(
  newest: readonly Row[],
  read: readonly Row[],
  id: (row: Row) => string,
  order: (one: Row, other: Row) => number,
): readonly Row[] {
  const rows = new Map([...newest, ...read].map((row) => [id(row), row]));
  return [...rows.values()].sort(order).slice(0, PAGE);
}
