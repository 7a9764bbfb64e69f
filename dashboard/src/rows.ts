// The rows of the HTTP API, as docs/reference/http.md and docs/reference/listings.md have them. Times and lengths are milliseconds.

export interface Totals {
  pools: number;
  units: number;
  free: number;
  held: number;
  unusable: number;
  leases: number;
  waiting: number;
  longest_wait_ms: number;
  /** nodes that are not heard */
  silent: number;
}

export interface Pool {
  id: string;
  pool: string;
  node: string;
  labels: Record<string, string>;
  reach: string;
  state: string;
  total: number;
  free: number;
  held: number;
  unusable: number;
  waiting: number;
}

export interface Unit {
  id: string;
  pool: string;
  node: string;
  labels: Record<string, string>;
  unit: string;
  state: string;
  fence: number;
  lease: string;
  holder: string;
  reason: string;
  since_ms: number | null;
  until_ms: number | null;
  expires_ms: number | null;
  renewing: boolean | null;
  note: string;
  party: string;
}

export interface LeaseUnit {
  pool: string;
  name: string;
  node: string;
  fence: number;
}

export interface Lease {
  lease: string;
  holder: string;
  user: string;
  pid: number | null;
  reason: string;
  state: string;
  units: LeaseUnit[];
  needs: string[];
  since_ms: number;
  waited_ms: number;
  ttl_ms: number;
  until_ms: number | null;
  expires_ms: number;
  renewing: boolean;
  detached: boolean;
  node: string;
  silent: string[];
}

export interface Blocker {
  claim: string;
  holder: string;
  reason: string;
  pool: string;
  units: string[];
  node: string;
  waiting: boolean;
  until_ms: number | null;
  renewing: boolean;
  party?: string;
}

export interface Need {
  spec: string;
  state: string;
  free: number;
  total: number;
}

export interface Line {
  node: string;
  placement: number;
  pools: string[];
  state: string;
  position: number;
  waiting: number;
}

export interface Wait {
  claim: string;
  holder: string;
  reason: string;
  node: string;
  since_ms: number;
  position: number;
  waiting: number;
  ahead: number;
  overtaken: number;
  passes_left: number;
  passes_bound: number;
  in_line: boolean;
  bounded: boolean;
  needs: Need[];
  blockers: Blocker[];
  blockers_more: number;
  lines: Line[];
  note: string;
}

export interface LogRow {
  node: string;
  seq: number;
  at_ms: number;
  kind: string;
  lease: string;
  holder: string;
  units: string[];
  text: string;
}

export interface NodeRow {
  node: string;
  id: string;
  here: boolean;
  state: string;
  address: string;
  location: string;
  silent_ms: number;
  pools: number;
  version: string;
}

export interface NotAsked {
  node: string;
  why: string;
}

const IN_LINE = new Set(["waits", "your limit"]);

/** Whether the claim has a place there: elsewhere it has its units already, or comes later. */
export function stands(line: Line): boolean {
  return IN_LINE.has(line.state);
}

/** What holds a unit or stands in the way, however much is known of it. */
export function named(one: Blocker): string {
  return one.claim || one.party || one.holder || "somebody";
}
