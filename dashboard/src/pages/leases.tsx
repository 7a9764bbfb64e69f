// Who holds what, since when and until when.
import { Listing } from "../parts/listing";
import type { Column } from "../parts/table";
import { UnitList } from "../parts/units";
import type { Lease } from "../rows";
import { nowMs, open } from "../state";
import { clock, length, short } from "../words";

export function Leases() {
  return (
    <>
      <h2>Leases</h2>
      <Listing
        of="leases"
        label="leases"
        columns={COLUMNS}
        id={(lease) => lease.lease}
        empty="Nothing is held."
        choose={(lease) => open({ kind: "lease", id: lease.lease })}
      />
    </>
  );
}

export function ends(lease: Lease, now: number): string {
  if (lease.silent.length) return `silent: ${lease.silent.join(", ")}`;
  if (lease.until_ms !== null) return `${clock(lease.until_ms, now)}`;
  return lease.renewing || lease.detached ? "renewing" : `in ${length(lease.expires_ms - now)}`;
}

const COLUMNS: Column<Lease>[] = [
  { name: "lease", cell: (lease) => <code>{short(lease.lease)}</code> },
  { name: "holder", cell: (lease) => lease.holder, text: true },
  { name: "reason", cell: (lease) => lease.reason, text: true, wide: true },
  { name: "units", cell: (lease) => <UnitList units={lease.units.map((unit) => `${unit.pool}/${unit.name}#${unit.fence}`)} /> },
  { name: "state", cell: (lease) => lease.state, wide: true },
  { name: "held for", cell: (lease) => length(nowMs.value - lease.since_ms), number: true, wide: true },
  { name: "until", cell: (lease) => ends(lease, nowMs.value), number: true },
  { name: "node", cell: (lease) => lease.node, wide: true },
];
