// What happened: grants and all ends, newest first.
import { Listing } from "../parts/listing";
import type { Column } from "../parts/table";
import { UnitList } from "../parts/units";
import type { LogRow } from "../rows";
import { log, nowMs } from "../state";
import { clock, short } from "../words";

export function Log() {
  return (
    <>
      <h2>History</h2>
      <Listing
        of="log"
        label="history"
        columns={COLUMNS}
        id={(row) => `${row.node} ${row.seq} ${row.at_ms}`}
        empty="Nothing has happened yet."
        newest={log.value}
        order={newestFirst}
      />
    </>
  );
}

function newestFirst(one: LogRow, other: LogRow): number {
  return other.at_ms - one.at_ms || Number(one.node < other.node) - Number(one.node > other.node) || other.seq - one.seq;
}

const BAD = new Set(["expired", "lost", "kicked", "quarantined", "node-silent", "node-stopped"]);

const COLUMNS: Column<LogRow>[] = [
  { name: "when", cell: (row) => clock(row.at_ms, nowMs.value) },
  { name: "what", cell: (row) => <span class={BAD.has(row.kind) ? "bad" : ""}>{row.kind}</span> },
  { name: "holder", cell: (row) => row.holder, text: true },
  { name: "units", cell: (row) => <UnitList units={row.units} /> },
  { name: "lease", cell: (row) => <code>{short(row.lease)}</code>, wide: true },
  { name: "node", cell: (row) => row.node, wide: true },
  { name: "said", cell: (row) => row.text, text: true, wide: true },
];
