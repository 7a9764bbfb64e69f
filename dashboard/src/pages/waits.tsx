// Who waits for whom, and why: claims and the leases in their way as a graph, and every claim in full.
import { Graph, type Edge, type Node } from "../parts/graph";
import { Listing } from "../parts/listing";
import type { Column } from "../parts/table";
import { named, stands, type Wait } from "../rows";
import { leases, matches, nowMs, open, totals, waiting } from "../state";
import { count, length, short } from "../words";

const MOST = 40;

export function Waits() {
  const found = waiting.value.filter((wait) =>
    matches(wait.claim, wait.holder, wait.reason, ...wait.needs.map((need) => need.spec)),
  );
  const drawn = found.slice(0, MOST);
  const { nodes, edges } = graphOf(drawn);
  return (
    <>
      <h2>Who waits for whom</h2>
      {drawn.length > 0 && (
        <>
          <p class="dim">
            Arrows run from a claim to what is in its way.{" "}
            {totals.value.waiting > MOST && `Drawn are the ${drawn.length} that wait longest, of ${count(totals.value.waiting)}; search narrows it.`}
          </p>
          <Graph label="who waits for whom" nodes={nodes} edges={edges} />
        </>
      )}
      <h2 class="next">Waiting claims</h2>
      <Listing
        of="queue"
        label="waiting claims"
        columns={COLUMNS}
        id={(wait) => wait.claim}
        empty="Nobody waits."
        choose={(wait) => open({ kind: "wait", id: wait.claim })}
      />
    </>
  );
}

const COLUMNS: Column<Wait>[] = [
  { name: "claim", cell: (wait) => <code>{short(wait.claim)}</code> },
  { name: "holder", cell: (wait) => wait.holder, text: true },
  { name: "reason", cell: (wait) => wait.reason, text: true, wide: true },
  {
    name: "needs",
    cell: (wait) =>
      wait.needs.map((need) => (
        <div class="mono">
          {need.spec} <span class="dim">{need.state}</span>
        </div>
      )),
  },
  { name: "place", cell: (wait) => place(wait), number: true },
  { name: "waits", cell: (wait) => length(nowMs.value - wait.since_ms), number: true },
  { name: "blocked by", cell: (wait) => wait.blockers.slice(0, 2).map((one) => <div>{one.holder || named(one)}</div>), text: true, wide: true },
  { name: "can be passed by", cell: (wait) => passes(wait), number: true, wide: true },
];

/** As `holdall why` tells it: the place in the line that stands for all of its lines, and where that is. */
export function place(wait: Wait): string {
  const own = `${wait.position} of ${wait.waiting}`;
  const standing = wait.lines.filter(stands);
  const told = standing.find((line) => line.position === wait.position && line.waiting === wait.waiting);
  const current = told ?? standing[0] ?? wait.lines.find((line) => line.state !== "has its units") ?? wait.lines[0];
  if (!current) return wait.in_line ? own : "in no line";
  if (stands(current)) return `${own} at ${current.node}`;
  return current.state === "not asked" ? `at ${current.node}, which could not be asked` : `${current.state} at ${current.node}`;
}

export function passes(wait: Wait): string {
  return wait.bounded && (wait.in_line || wait.lines.length) ? `${wait.passes_left} more` : "no bound";
}

function graphOf(waits: readonly Wait[]): { nodes: Node[]; edges: Edge[] } {
  const nodes = new Map<string, Node>();
  const edges = new Map<string, Edge>();
  for (const wait of waits)
    nodes.set(wait.claim, {
      id: wait.claim,
      title: wait.holder || wait.claim,
      text: `waits ${length(nowMs.value - wait.since_ms)} for ${wait.needs.map((need) => need.spec).join(", ")}`,
      kind: "waiting",
      choose: () => open({ kind: "wait", id: wait.claim }),
    });
  for (const wait of waits)
    for (const blocker of wait.blockers) {
      const id = named(blocker);
      if (!nodes.has(id)) {
        const lease = leases.value.find((one) => one.lease === id);
        nodes.set(id, {
          id,
          title: blocker.holder || id,
          text: blocker.waiting ? "waits, too, and is older" : `holds ${blocker.units.join(", ") || blocker.pool}`,
          kind: blocker.waiting ? "waiting" : "holding",
          ...(lease ? { choose: () => open({ kind: "lease", id: lease.lease }) } : {}),
        });
      }
      const key = `${wait.claim}>${id}`;
      const pool = blocker.pool.split("{", 1)[0] ?? "";
      const known = edges.get(key)?.text.split(", ") ?? [];
      edges.set(key, { from: wait.claim, to: id, text: [...new Set([...known, pool])].join(", ") });
    }
  return { nodes: [...nodes.values()], edges: [...edges.values()] };
}
