// The node's HTTP API, as docs/reference/http.md has it.
import type { Lease, LogRow, NotAsked, NodeRow, Pool, Totals, Unit, Wait } from "./rows";

export interface Me {
  node: string;
  version: string;
  user: string;
  via: "socket" | "token" | "login" | "nobody";
  may: string[];
}

export interface Snapshot {
  at_ms: number;
  node: string;
  totals: Totals;
  nodes: NodeRow[];
  pools: Pool[];
  leases: Lease[];
  waiting: Wait[];
  log: LogRow[];
  not_asked: NotAsked[];
}

export interface Part<Row> {
  put: Row[];
  drop: string[];
}

export interface Change {
  at_ms: number;
  totals?: Totals;
  nodes?: Part<NodeRow>;
  pools?: Part<Pool>;
  leases?: Part<Lease>;
  waiting?: Part<Wait>;
  log?: LogRow[];
  not_asked?: NotAsked[];
}

export interface Lists {
  units: Unit;
  leases: Lease;
  queue: Wait;
  log: LogRow;
}

export interface Page<Row> {
  rows: Row[];
  total: number;
  next: string | null;
}

/** What the node said when it refused. */
export class Problem extends Error {
  constructor(
    readonly status: number,
    text: string,
  ) {
    super(text);
  }
}

export async function ask(path: string, options: RequestInit = {}): Promise<unknown> {
  const answer = await fetch(path, { ...options, headers: { "X-Holdall": "1", "Content-Type": "application/json" } });
  const body: unknown = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Problem(answer.status, (body as { detail?: string }).detail ?? `the node answered ${answer.status}`);
  return body;
}

export const me = () => ask("/v1/me") as Promise<Me>;

/** The first rows of a list, and nodes that have no part in it. */
export async function listed<Row>(path: string, field: string, limit: string): Promise<{ rows: Row[]; total: number; unheard: string[] }> {
  const body = (await ask(`${path}?limit=${limit}`)) as { total: number; not_asked: NotAsked[] } & Record<string, Row[]>;
  return { rows: body[field] ?? [], total: body.total, unheard: body.not_asked.map((one) => one.node) };
}

/** One page of a list; filters that are empty are left out. Whoever needs it no longer ends it by `signal`: a browser asks few things at once. */
export async function page<Name extends keyof Lists>(
  name: Name,
  filters: Record<string, string>,
  limit: number,
  after: string | null,
  signal: AbortSignal,
): Promise<Page<Lists[Name]>> {
  const query = new URLSearchParams({ limit: String(limit) });
  for (const [key, value] of Object.entries(filters)) if (value) query.set(key, value);
  if (after) query.set("after", after);
  const body = (await ask(`/v1/${name}?${query}`, { signal })) as { total: number; next: string | null } & Record<string, Lists[Name][]>;
  return { rows: body[name === "queue" ? "waiting" : name] ?? [], total: body.total, next: body.next };
}

/** The lease or the claim in full, whether or not it is among the rows that the page follows. */
export async function leaseOf(id: string): Promise<Lease | null> {
  return ((await ask(`/v1/leases/${encodeURIComponent(id)}`)) as { lease: Lease | null }).lease;
}

export async function waitOf(id: string): Promise<Wait | null> {
  return ((await ask(`/v1/why/${encodeURIComponent(id)}`)) as { why: Wait | null }).why;
}

export const kick = (lease: Lease, reason: string) =>
  ask(`/v1/leases/${encodeURIComponent(lease.lease)}/kick`, { method: "POST", body: JSON.stringify({ reason }) });

export const logOut = () => ask("/v1/logout", { method: "POST", body: "{}" });

interface Hearer {
  snapshot: (all: Snapshot) => void;
  change: (what: Change) => void;
  /** whether the node is heard, and why not */
  heard: (live: boolean, text?: string) => void;
}

/** Follow the node until the answer is called. The browser itself connects again. */
export function follow(hearer: Hearer): () => void {
  const stream = new EventSource("/v1/events");
  const data = (event: Event): unknown => JSON.parse((event as MessageEvent<string>).data);
  stream.addEventListener("snapshot", (event) => {
    hearer.heard(true);
    hearer.snapshot(data(event) as Snapshot);
  });
  stream.addEventListener("change", (event) => hearer.change(data(event) as Change));
  stream.addEventListener("unreachable", (event) => hearer.heard(false, (data(event) as { text: string }).text));
  stream.addEventListener("open", () => hearer.heard(true));
  stream.addEventListener("error", () => hearer.heard(false));
  return () => stream.close();
}
