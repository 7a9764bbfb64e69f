// At one glance: what is free, who waits longest, where it is tight, and how that went in the last minutes.
import { Chart, type Line } from "../parts/chart";
import { Rows, type Column } from "../parts/table";
import type { Lease, Pool, Wait } from "../rows";
import { leases, nodes, nowMs, open, past, pools, theme, totals, waiting } from "../state";
import { count, length } from "../words";
import { ends } from "./leases";
import { PoolCard } from "./pools";
import { place } from "./waits";

const LINES: Line[] = [
  { label: "held", colour: "--held" },
  { label: "free", colour: "--free", dash: [6, 3] },
  { label: "claims that wait", colour: "--booked", dash: [2, 3] },
];

export function Now() {
  const all = totals.value;
  const longest = waiting.value.reduce<Wait | null>(
    (most, wait) => (wait.since_ms && (!most || wait.since_ms < most.since_ms) ? wait : most),
    null,
  );
  const contended = pools.value
    .filter((pool) => pool.waiting > 0)
    .sort((one, other) => other.waiting - one.waiting || one.free - other.free);
  return (
    <>
      <h2>Now</h2>
      <div class="tiles">
        <Tile big={`${count(all.free)} / ${count(all.units)}`} text="units free" />
        <Tile big={count(all.held)} text={`held, by ${count(all.leases)} leases`} />
        <Tile big={count(all.waiting)} text="claims wait" />
        <Tile
          big={longest ? length(nowMs.value - longest.since_ms) : "–"}
          text={longest ? `longest wait: ${longest.holder}` : "nobody waits"}
        />
        <Contended pool={contended[0]} />
        <Heard />
      </div>
      <Chart title="Since this page was opened, at most ten minutes" lines={LINES} data={past.value} theme={theme.value} />
      <div class="two next">
        <section class="card">
          <h3>Waiting longest</h3>
          <Waiting />
        </section>
        <section class="card">
          <h3>Ending next</h3>
          <Ending />
        </section>
      </div>
      <h3 class="next">{contended.length ? "Most contended pools" : "Pools"}</h3>
      <div class="cards">
        {(contended.length ? contended : pools.value).slice(0, 6).map((pool) => (
          <PoolCard key={pool.id} pool={pool} />
        ))}
      </div>
    </>
  );
}

function Contended({ pool }: { pool: Pool | undefined }) {
  if (!pool) return <Tile big="–" text="no pool is contended" />;
  return <Tile big={pool.pool} word text={`most contended: ${count(pool.waiting)} wait on ${pool.node}`} />;
}

function Heard() {
  const not = nodes.value.filter((node) => node.state !== "serving");
  const text = not.length ? `serve; not: ${not.map((node) => node.node).join(", ")}` : "nodes serve";
  return <Tile big={`${nodes.value.length - not.length} / ${nodes.value.length}`} text={text} />;
}

function Waiting() {
  const rows = [...waiting.value].sort((one, other) => one.since_ms - other.since_ms).slice(0, 8);
  if (!rows.length) return <p class="empty">Nobody waits.</p>;
  return (
    <Rows
      label="claims that wait longest"
      rows={rows}
      columns={WAITS}
      id={(wait) => wait.claim}
      choose={(wait) => open({ kind: "wait", id: wait.claim })}
    />
  );
}

function Ending() {
  const rows = [...leases.value].sort((one, other) => end(one) - end(other)).slice(0, 8);
  if (!rows.length) return <p class="empty">Nothing is held.</p>;
  return (
    <Rows
      label="leases that end next"
      rows={rows}
      columns={LEASES}
      id={(lease) => lease.lease}
      choose={(lease) => open({ kind: "lease", id: lease.lease })}
    />
  );
}

function end(lease: Lease): number {
  return lease.until_ms ?? Number.MAX_SAFE_INTEGER;
}

function Tile({ big, text, word = false }: { big: string; text: string; word?: boolean }) {
  return (
    <div class="tile">
      <b class={word ? "word" : ""}>{big}</b>
      <span>{text}</span>
    </div>
  );
}

const WAITS: Column<Wait>[] = [
  { name: "holder", cell: (wait) => wait.holder, text: true },
  { name: "needs", cell: (wait) => wait.needs.map((need) => <div class="mono">{need.spec}</div>) },
  { name: "place", cell: place, number: true, wide: true },
  { name: "waits", cell: (wait) => length(nowMs.value - wait.since_ms), number: true },
];

const LEASES: Column<Lease>[] = [
  { name: "holder", cell: (lease) => lease.holder, text: true },
  { name: "has", cell: (lease) => lease.units.slice(0, 3).map((unit) => <div class="mono">{unit.pool}/{unit.name}</div>) },
  { name: "ends", cell: (lease) => ends(lease, nowMs.value), number: true },
];
