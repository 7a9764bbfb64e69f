// What the page knows: a snapshot of the system and the changes since, as the node sends them.
import { computed, effect, signal } from "@preact/signals";
import type uPlot from "uplot";
import { follow, me, Problem, type Change, type Me, type Part, type Snapshot } from "./api";
import type { Lease, LogRow, NodeRow, NotAsked, Pool, Totals, Wait } from "./rows";

export const pools = signal<Pool[]>([]);
/** The oldest 500; the listing has all. */
export const leases = signal<Lease[]>([]);
/** The oldest 200. */
export const waiting = signal<Wait[]>([]);
/** The newest. */
export const log = signal<LogRow[]>([]);
export const nodes = signal<NodeRow[]>([]);
export const notAsked = signal<NotAsked[]>([]);
export const totals = signal<Totals>({ pools: 0, units: 0, free: 0, held: 0, unusable: 0, leases: 0, waiting: 0, longest_wait_ms: 0, silent: 0 });
/** Counts changes: lists that are read page by page are read again after one. */
export const changes = signal(0);
export const link = signal<"connecting" | "live" | "lost">("connecting");
export const unreachable = signal("");
export const who = signal<Me | null>(null);
export const refused = signal(false);

/** Whether the one who looks may do this: `see`, `claim`, `kick`. */
export function may(what: string): boolean {
  return who.value?.may.includes(what) ?? false;
}

// ---------------------------------------------------------------- what is shown

const hash = signal(location.hash.slice(1));
addEventListener("hashchange", () => (hash.value = location.hash.slice(1)));
export const page = computed(() => hash.value.split("/", 1)[0] || "now");
/** What the page shows alone: the id of a pool or a job, the name of a location. */
export const shown = computed(() => decoded(hash.value.split("/", 2)[1] ?? ""));

/** Whatever somebody wrote into the address. */
function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

export const search = signal("");
/** Whether all words of the search stand in some of the texts. */
export function matches(...texts: readonly string[]): boolean {
  const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
  const all = texts.join("\n").toLowerCase();
  return words.every((word) => all.includes(word));
}

export interface Opened {
  kind: "wait" | "lease" | "keys";
  id: string;
}
export const opened = signal<Opened | null>(null);
export function open(what: Opened | null): void {
  opened.value = what;
}

const kept = localStorage.getItem("theme");
const asked = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
export const theme = signal<"light" | "dark">(kept === "dark" || kept === "light" ? kept : asked);
effect(() => {
  document.documentElement.dataset["theme"] = theme.value;
});
export function switchTheme(): void {
  theme.value = theme.value === "dark" ? "light" : "dark";
  localStorage.setItem("theme", theme.value);
}

export const nowMs = signal(Date.now());
setInterval(() => (nowMs.value = Date.now()), 1000);

// ---------------------------------------------------------------- how it follows

const LOG_MOST = 200;
let stop: (() => void) | null = null;

/** Say who looks, then follow the node. */
export async function begin(): Promise<void> {
  stop?.();
  try {
    who.value = await me();
    refused.value = !may("see");
  } catch (problem) {
    refused.value = problem instanceof Problem && problem.status === 401;
    link.value = "lost";
    if (!refused.value) setTimeout(() => void begin(), 2000);
  }
  if (who.value && !refused.value) stop = follow({ snapshot: take, change, heard });
}

function heard(live: boolean, text = ""): void {
  link.value = live ? "live" : "lost";
  unreachable.value = live ? "" : text;
}

function take(all: Snapshot): void {
  nodes.value = all.nodes;
  pools.value = all.pools;
  leases.value = all.leases;
  waiting.value = all.waiting;
  log.value = all.log;
  notAsked.value = all.not_asked;
  totals.value = all.totals;
  changes.value++;
}

function change(what: Change): void {
  if (what.nodes) nodes.value = merged(nodes.value, what.nodes, (node) => node.node);
  if (what.pools) pools.value = merged(pools.value, what.pools, (pool) => pool.id);
  if (what.leases) leases.value = merged(leases.value, what.leases, (lease) => lease.lease);
  if (what.waiting) waiting.value = merged(waiting.value, what.waiting, (wait) => wait.claim);
  if (what.log) log.value = [...what.log, ...log.value].slice(0, LOG_MOST);
  if (what.not_asked) notAsked.value = what.not_asked;
  if (what.totals) totals.value = what.totals;
  changes.value++;
}

/** Rows that are known keep their place, so that nothing jumps under the eye. */
function merged<Row>(rows: readonly Row[], part: Part<Row>, id: (row: Row) => string): Row[] {
  const put = new Map(part.put.map((row) => [id(row), row]));
  const drop = new Set(part.drop);
  const kept: Row[] = [];
  for (const row of rows) {
    const name = id(row);
    const fresh = put.get(name);
    put.delete(name);
    if (!drop.has(name)) kept.push(fresh ?? row);
  }
  return [...kept, ...put.values()];
}

// ---------------------------------------------------------------- the last minutes

const POINTS = 600;
const times: number[] = [];
const rows: Record<"held" | "free" | "waiting", number[]> = { held: [], free: [], waiting: [] };
/** Seconds since 1970; units held, units free, claims that wait: one point a second, for ten minutes. */
export const past = signal<uPlot.AlignedData>([[], [], [], []]);

setInterval(() => {
  if (link.value !== "live" || !who.value) return;
  times.push(Math.floor(Date.now() / 1000));
  rows.held.push(totals.value.held);
  rows.free.push(totals.value.free);
  rows.waiting.push(totals.value.waiting);
  for (const row of [times, rows.held, rows.free, rows.waiting]) if (row.length > POINTS) row.shift();
  past.value = [times.slice(), rows.held.slice(), rows.free.slice(), rows.waiting.slice()];
}, 1000);
