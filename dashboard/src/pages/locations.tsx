// Locations: which hosts are heard, what they have to divide, who has which share of it, and what is used of what was granted.
import { located, locations, type Agreed, type Capacity, type Host, type Located, type Term } from "../located";
import { Chart, type Line } from "../parts/chart";
import { usePolled } from "../parts/polled";
import { Rows, type Column } from "../parts/table";
import { remember, sharesOf } from "../shares";
import { matches, shown, theme, who } from "../state";
import { amount, length, some } from "../words";

const EVERY_MS = 3000;
const LIVING = new Set(["offered", "active", "draining"]);
/** Lines differ by their dashes as well as by colour. */
const LOOKS: Omit<Line, "label">[] = [
  { colour: "--held" },
  { colour: "--free", dash: [8, 3] },
  { colour: "--booked", dash: [2, 3] },
  { colour: "--out", dash: [10, 3, 2, 3] },
  { colour: "--bad", dash: [4, 4] },
  { colour: "--dim", dash: [1, 5] },
];

export function Locations() {
  const { found, said } = usePolled("locations", locations, EVERY_MS);
  if (!found) return <Reading said={said} />;
  const chosen = found.find((one) => one.location === shown.value) ?? found.find((one) => one.nodes.includes(who.value?.node ?? "")) ?? found[0];
  if (!chosen)
    return (
      <>
        <h2>Locations</h2>
        <p class="empty">No node is of a location. A node is, whose configuration has location = "…" below [node].</p>
      </>
    );
  return (
    <>
      <h2>Locations</h2>
      <nav class="choices" aria-label="locations">
        {found.map((one) => (
          <a href={`#locations/${encodeURIComponent(one.location)}`} aria-current={one === chosen ? "true" : undefined}>
            {one.location} <span class="dim">{some(one.nodes.length, "node")}</span>
          </a>
        ))}
      </nav>
      <OneLocation key={chosen.location} name={chosen.location} manager={chosen.manager} />
    </>
  );
}

function Reading({ said }: { said: string }) {
  return (
    <>
      <h2>Locations</h2>
      {said ? (
        <p class="bad" role="alert">
          {said}
        </p>
      ) : (
        <p class="empty">reading…</p>
      )}
    </>
  );
}

function OneLocation({ name, manager }: { name: string; manager: string }) {
  const read = async () => {
    const all = await located(name);
    remember(name, all.shares);
    return all;
  };
  const { found, said } = usePolled(name, read, EVERY_MS);
  if (!found) return said ? <p class="bad" role="alert">{said}</p> : <p class="empty">reading…</p>;
  const leases = found.leases.filter((one) => matches(one.lease, one.holder, one.host, one.state, ...one.terms.map((term) => term.name)));
  const hosts = found.hosts.filter((one) => matches(one.host, one.presence, one.state));
  return (
    <>
      {said && <p class="bad" role="alert">{said}</p>}
      {found.unheard.length > 0 && (
        <p>
          <span class="bad">Not heard:</span> {found.unheard.join(", ")}. Of their leases stands here what they said last.
        </p>
      )}
      <h3 class="next">
        Hosts <span class="dim">of {name}, managed by {manager || "nobody who answers"}</span>
      </h3>
      <Rows label={`hosts of ${name}`} rows={hosts} columns={HOSTS} id={(host) => host.host} />
      <div class="cards next">
        {found.capacities
          .filter((one) => matches(one.host, one.term))
          .map((capacity) => (
            <CapacityCard key={`${capacity.host} ${capacity.term}`} location={name} capacity={capacity} />
          ))}
      </div>
      <h3 class="next">Negotiated leases</h3>
      {leases.length ? (
        <Rows label="negotiated leases" rows={leases} columns={leaseColumns(found)} id={(lease) => lease.lease} />
      ) : (
        <p class="empty">{found.leases.length ? "Nothing matches the search." : `Nothing is leased. Ask: holdall location request ${name}`}</p>
      )}
      {found.total > found.leases.length && <p class="dim">And {some(found.total - found.leases.length, "lease")} more: holdall location status</p>}
    </>
  );
}

/** What one host has of a capacity, how much of it is given, and how its fair shares went while one looked. */
function CapacityCard({ location, capacity }: { location: string; capacity: Capacity }) {
  const { holders, data } = sharesOf(location, capacity.host, capacity.term, LOOKS.length);
  const said = `${amount(capacity.taken, capacity.unit)} of ${amount(capacity.amount, capacity.unit)} given`;
  return (
    <section class="card" aria-label={`${capacity.term} of ${capacity.host}`}>
      <header>
        <h3>
          {capacity.term} <span class="dim">of {capacity.host}</span>
        </h3>
        <span>{said}</span>
      </header>
      <div class="bar" role="img" aria-label={said} title={said}>
        <i class="held" style={{ width: `${(100 * capacity.taken) / Math.max(1, capacity.amount)}%` }} />
      </div>
      {holders.length > 0 ? (
        <Chart
          title={capacity.sharing === "fair" ? "Fair shares, since this page was opened" : "Shares, since this page was opened"}
          lines={holders.map((label, place) => ({ label, ...LOOKS[place % LOOKS.length]! }))}
          data={data}
          theme={theme.value}
          show={(value) => amount(value, capacity.unit)}
        />
      ) : (
        <p class="empty">Nobody wants a part of it.</p>
      )}
    </section>
  );
}

const HOSTS: Column<Host>[] = [
  { name: "host", cell: (host) => host.host },
  {
    name: "heartbeats",
    cell: (host) => <span class={`state ${host.presence === "live" ? "free" : "bad"}`}>{host.presence}</span>,
  },
  {
    name: "state",
    cell: (host) => [host.state || "not known here", host.draining && host.state !== "draining" && "draining", host.manages && "manages"].filter(Boolean).join(", "),
  },
  { name: "heard", cell: (host) => (host.silent_ms === null ? "" : host.silent_ms ? `${length(host.silent_ms)} ago` : "now"), number: true },
  { name: "leases", cell: (host) => host.leases, number: true },
  { name: "version", cell: (host) => host.version, wide: true },
];

function leaseColumns(found: Located): Column<Agreed>[] {
  const unitOf = (lease: Agreed, term: Term) =>
    found.capacities.find((one) => one.host === lease.host && one.term === term.name)?.unit ?? (term.kind === "time" ? "ms" : "");
  return [
    { name: "holder", cell: (lease) => lease.holder, text: true },
    {
      name: "state",
      cell: (lease) => (
        <span class={`state ${lease.state === "active" ? "held" : "dim"}`}>
          {lease.state}
          {lease.host_reachable === false && <span class="bad"> host silent</span>}
        </span>
      ),
    },
    { name: "left", cell: (lease) => (lease.state === "active" ? length(lease.remaining_ms ?? 0) : ""), number: true },
    {
      name: "terms: used of granted, of asked",
      cell: (lease) => lease.terms.map((term) => <TermUse term={term} unit={unitOf(lease, term)} over={!LIVING.has(lease.state)} />),
    },
    { name: "host", cell: (lease) => lease.host, wide: true },
    { name: "why", cell: (lease) => lease.why ?? "", text: true, wide: true },
    { name: "lease", cell: (lease) => <code class="breaks">{lease.lease}</code>, text: true, wide: true },
  ];
}

/** A bar for what has a rate: how much of it was used in the last second. */
function TermUse({ term, unit, over }: { term: Term; unit: string; over: boolean }) {
  const { granted, requested } = term;
  if (typeof granted !== "number" || typeof requested !== "number")
    return (
      <div>
        {term.name} {String(granted)}
      </div>
    );
  const isRate = unit === "B/s" || unit === "mcpu";
  const used = term.used?.rate_1s ?? 0;
  const part = granted && !over ? Math.min(1, used / granted) : 0;
  const units = term.units?.map((one) => one.name).join(" ");
  const asked = requested === granted ? "" : ` of ${amount(requested, unit)} asked`;
  const said = isRate && !over ? `${amount(used, unit)} used of ${amount(granted, unit)}${asked}` : `${amount(granted, unit)}${asked}`;
  return (
    <div class="use">
      {term.name} <span class="dim">{said}</span> {units && <span class="mono">{units}</span>}
      {isRate && !over && (
        <div class="bar" role="img" aria-label={`${term.name}: ${said}`}>
          <i class="held" style={{ width: `${100 * part}%` }} />
        </div>
      )}
    </div>
  );
}
