// Every pool with its units and its line, drawn live; one pool alone as a list that may be long.
import { useEffect, useRef, useState } from "preact/hooks";
import { page } from "../api";
import { Listing } from "../parts/listing";
import type { Column } from "../parts/table";
import { stands, type Pool, type Unit, type Wait } from "../rows";
import { matches, nowMs, open, pools, shown, waiting } from "../state";
import { clock, count, length, short, some } from "../words";

/** A pool of more units is shown as a bar, and its units in a list of their own. */
const SQUARES = 96;
const CARDS = 48;

export function Pools() {
  const chosen = pools.value.find((pool) => pool.id === shown.value);
  if (chosen) return <OnePool pool={chosen} />;
  const found = pools.value.filter((pool) => matches(pool.id, ...lineOf(pool).map((wait) => wait.holder)));
  return (
    <>
      <h2>Pools</h2>
      <Legend />
      {found.length ? (
        <div class="cards">
          {found.slice(0, CARDS).map((pool) => (
            <PoolCard key={pool.id} pool={pool} />
          ))}
        </div>
      ) : (
        <p class="empty">{pools.value.length ? "No pool matches the search." : "No node offers a pool yet."}</p>
      )}
      {found.length > CARDS && (
        <p class="dim">And {some(found.length - CARDS, "pool")} more: search by name, node, label or who waits.</p>
      )}
    </>
  );
}

function Legend() {
  return (
    <p class="dim">
      <span class="free">F free</span> · <span class="held">H held</span> · <span class="booked">B set aside</span> ·{" "}
      <span class="quarantined">Q out of use</span>
    </p>
  );
}

export function PoolCard({ pool }: { pool: Pool }) {
  const labels = Object.entries(pool.labels).map(([name, value]) => `${name}=${value}`);
  return (
    <section class="card" aria-label={`pool ${pool.pool} on ${pool.node}`}>
      <header>
        <h3>
          <a href={`#pools/${encodeURIComponent(pool.id)}`}>{pool.pool}</a> <span class="dim">on {pool.node}</span>
        </h3>
        <span>
          <b>{count(pool.free)}</b> of {count(pool.total)} free
          {pool.state !== "serving" && <span class="bad"> · {pool.state}</span>}
        </span>
      </header>
      {labels.length > 0 && <div class="dim mono">{labels.join(" · ")}</div>}
      <Bar pool={pool} />
      {pool.total <= SQUARES && <Squares pool={pool} />}
      <Line pool={pool} most={5} />
    </section>
  );
}

function Bar({ pool }: { pool: Pool }) {
  const width = (part: number) => ({ width: `${(100 * part) / Math.max(1, pool.total)}%` });
  const said = `${pool.held} held, ${pool.unusable} out of use, ${pool.free} free, of ${pool.total}`;
  return (
    <div class="bar" role="img" aria-label={said} title={said}>
      <i class="held" style={width(pool.held)} />
      <i class="out" style={width(pool.unusable)} />
      <i class="free" style={width(pool.free)} />
    </div>
  );
}

const LETTER: Record<string, string> = {
  free: "F",
  held: "H",
  booked: "B",
  moving: "M",
  preparing: "P",
  cleaning: "C",
  cooldown: "C",
  quarantined: "Q",
  draining: "D",
};

/** Read while they are in sight, and again whenever the pool's own row has changed. */
function Squares({ pool }: { pool: Pool }) {
  const [units, show] = useState<Unit[]>([]);
  const [inSight, see] = useState(false);
  const place = useRef<HTMLUListElement>(null);
  useEffect(() => {
    const watch = new IntersectionObserver((seen) => see(seen.some((one) => one.isIntersecting)));
    if (place.current) watch.observe(place.current);
    return () => watch.disconnect();
  }, []);
  useEffect(() => {
    if (!inSight) return;
    const over = new AbortController();
    page("units", { pool: pool.pool, node: pool.node }, SQUARES, null, over.signal).then(
      (found) => show(found.rows.filter((unit) => sameLabels(unit.labels, pool.labels))),
      () => undefined,
    );
    return () => over.abort();
  }, [pool, inSight]);
  return (
    <ul class="units" ref={place}>
      {units.map((unit) => (
        <li key={unit.id} class={unit.state} title={said(unit)}>
          <span aria-hidden="true">{LETTER[unit.state] ?? "?"}</span>
          <span class="only-read">{said(unit)}</span>
        </li>
      ))}
    </ul>
  );
}

function sameLabels(one: Record<string, string>, other: Record<string, string>): boolean {
  return Object.keys(one).length === Object.keys(other).length && Object.entries(one).every(([key, value]) => other[key] === value);
}

function said(unit: Unit): string {
  const by = unit.holder && ` by ${unit.holder}`;
  const why = unit.reason && ` “${unit.reason}”`;
  const until = unit.until_ms ? `, until ${clock(unit.until_ms, nowMs.value)}` : "";
  return `${unit.unit}: ${unit.state}${by}${why}${until}${unit.note && `, ${unit.note}`}`;
}

/** Claims that stand in the pool's line, in their order: their places at its node, where a claim may wait for several pools at once. */
function lineOf(pool: Pool): Wait[] {
  return waiting.value
    .flatMap((wait) => {
      const position = positionAt(wait, pool);
      return position ? [{ wait, position }] : [];
    })
    .sort((one, other) => one.position - other.position || one.wait.since_ms - other.wait.since_ms)
    .map((one) => one.wait);
}

/** 0: it does not stand in that line. */
function positionAt(wait: Wait, pool: Pool): number {
  const line = wait.lines.find((one) => one.node === pool.node && one.pools.includes(pool.pool) && stands(one));
  if (line) return line.position;
  const wanted = wait.needs.some((need) => (need.spec.split(/[,:]/, 1)[0] ?? "").split("+").includes(pool.pool));
  return !wait.lines.length && wait.in_line && wait.node === pool.node && wanted ? wait.position : 0;
}

function Line({ pool, most }: { pool: Pool; most: number }) {
  if (!pool.waiting) return null;
  const line = lineOf(pool).slice(0, most);
  return (
    <>
      <p class="dim in-line">{some(pool.waiting, "claim")} in line</p>
      <ol class="line">
        {line.map((wait, before) => (
          <li key={wait.claim}>
            <span class="place">{before + 1}.</span>
            <span class="who">
              {wait.holder} {wait.reason && <span class="dim">“{wait.reason}”</span>}
            </span>
            <button type="button" onClick={() => open({ kind: "wait", id: wait.claim })} title={`why ${short(wait.claim)} waits`}>
              {length(nowMs.value - wait.since_ms)}
            </button>
          </li>
        ))}
      </ol>
      {pool.waiting > line.length && <p class="dim">and {count(pool.waiting - line.length)} more</p>}
    </>
  );
}

function OnePool({ pool }: { pool: Pool }) {
  return (
    <>
      <p>
        <a href="#pools">‹ all pools</a>
      </p>
      <h2>
        {pool.pool} <span class="dim">on {pool.node}</span>
      </h2>
      <Bar pool={pool} />
      <Line pool={pool} most={30} />
      <Listing
        of="units"
        label={`units of ${pool.pool}`}
        filters={{ pool: pool.pool, node: pool.node }}
        columns={UNITS}
        id={(unit) => unit.id}
        empty="It has no units."
      />
    </>
  );
}

const UNITS: Column<Unit>[] = [
  { name: "unit", cell: (unit) => unit.unit },
  { name: "state", cell: (unit) => <span class={`state ${unit.state}`}>{unit.state}</span> },
  { name: "holder", cell: (unit) => unit.holder, text: true },
  { name: "reason", cell: (unit) => unit.reason, text: true, wide: true },
  {
    name: "lease",
    cell: (unit) =>
      unit.lease ? (
        <button type="button" class="plain" onClick={() => open({ kind: "lease", id: unit.lease })}>
          {short(unit.lease)}
        </button>
      ) : (
        unit.party
      ),
  },
  { name: "since", cell: (unit) => (unit.since_ms ? clock(unit.since_ms, nowMs.value) : ""), number: true, wide: true },
  { name: "fence", cell: (unit) => unit.fence, number: true },
  { name: "note", cell: (unit) => unit.note, text: true, wide: true },
];
