// The rows about locations, as docs/reference/http.md has them. Amounts are in base units.
import { ask, listed } from "./api";

export interface Location {
  location: string;
  nodes: string[];
  /** the node that leads; empty: none has answered */
  manager: string;
  templates: string[];
}

export interface Host {
  host: string;
  /** what the manager hears: `live`, `suspect`, `gone` */
  presence: string;
  draining: boolean;
  free: Record<string, number>;
  manages: boolean;
  leases: number;
  state: string;
  silent_ms: number | null;
  version: string;
}

export interface Capacity {
  host: string;
  term: string;
  unit: string;
  sharing: string;
  amount: number;
  free: number;
  taken: number;
  demands: number;
}

export interface Share {
  host: string;
  term: string;
  holder: string;
  lease: string;
  place: string;
  asked: number;
  share: number;
  granted: number;
}

export interface Term {
  name: string;
  kind: string;
  requested: number | string | boolean;
  granted: number | string | boolean;
  state?: string;
  used?: { total: number; rate_1s: number; peak_1s: number };
  denied?: number;
  units?: { name: string; node: string; fence: number }[];
}

export interface Agreed {
  lease: string;
  host: string;
  holder: string;
  state: string;
  duration: number;
  remaining_ms?: number;
  host_reachable?: boolean;
  why?: string;
  terms: Term[];
}

export interface Located {
  hosts: Host[];
  capacities: Capacity[];
  shares: Share[];
  leases: Agreed[];
  /** leases that match, of which the first hundreds are told */
  total: number;
  unheard: string[];
}

const MOST = "500";

export async function locations(): Promise<Location[]> {
  return ((await ask(`/v1/locations?limit=${MOST}`)) as { locations: Location[] }).locations;
}

/** All that is known of one location now. */
export async function located(location: string): Promise<Located> {
  const at = `/v1/locations/${encodeURIComponent(location)}`;
  const [hosts, capacities, shares, leases] = await Promise.all([
    listed<Host>(`${at}/hosts`, "hosts", MOST),
    listed<Capacity>(`${at}/capacities`, "capacities", MOST),
    listed<Share>(`${at}/shares`, "shares", MOST),
    listed<Agreed>(`${at}/leases`, "leases", MOST),
  ]);
  const unheard = [...new Set([...shares.unheard, ...leases.unheard])];
  return { hosts: hosts.rows, capacities: capacities.rows, shares: shares.rows, leases: leases.rows, total: leases.total, unheard };
}
