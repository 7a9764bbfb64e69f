// The nodes of the system: whether they are heard, and what they offer.
import { Rows, type Column } from "../parts/table";
import type { NodeRow } from "../rows";
import { matches, nodes, pools } from "../state";
import { length } from "../words";

export function Nodes() {
  const found = nodes.value.filter((node) => matches(node.node, node.state, node.location, node.address));
  return (
    <>
      <h2>Nodes</h2>
      {found.length ? (
        <Rows label="nodes" rows={found} columns={COLUMNS} id={(node) => node.node} />
      ) : (
        <p class="empty">No node matches the search.</p>
      )}
    </>
  );
}

const COLUMNS: Column<NodeRow>[] = [
  { name: "node", cell: (node) => (node.here ? <b>{node.node}</b> : node.node) },
  {
    name: "state",
    cell: (node) => <span class={`state ${node.state === "serving" ? "free" : "bad"}`}>{node.state}</span>,
  },
  { name: "heard", cell: (node) => (node.here ? "this node" : `${length(node.silent_ms)} ago`), number: true },
  { name: "location", cell: (node) => node.location, wide: true },
  {
    name: "pools, free units",
    cell: (node) =>
      pools.value
        .filter((pool) => pool.node === node.node)
        .map((pool) => (
          <div class="mono">
            {pool.pool} {pool.free}/{pool.total}
          </div>
        )),
  },
  { name: "address", cell: (node) => node.address, wide: true },
  { name: "version", cell: (node) => node.version, wide: true },
];
