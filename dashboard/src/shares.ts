// How shares of capacities went while somebody looked: some minutes of each, drawn from what is read now and then.
import type uPlot from "uplot";
import type { Share } from "./located";

const POINTS = 300;
const CAPACITIES_MOST = 64;

interface Moment {
  at_s: number;
  /** by holder */
  shares: Map<string, number>;
}

const kept = new Map<string, Moment[]>();

/** One reading of a location. A capacity that nobody wants any more has shares of nobody. */
export function remember(location: string, rows: readonly Share[], at_s = Math.floor(Date.now() / 1000)): void {
  const seen = new Map<string, Map<string, number>>();
  for (const name of kept.keys()) if (name.startsWith(`${location}\n`)) seen.set(name, new Map());
  for (const row of rows) {
    const name = `${location}\n${row.host}\n${row.term}`;
    const shares = seen.get(name) ?? new Map<string, number>();
    shares.set(row.holder, (shares.get(row.holder) ?? 0) + row.share);
    seen.set(name, shares);
  }
  for (const [name, shares] of seen) {
    const moments = kept.get(name) ?? [];
    if (!kept.has(name) && kept.size >= CAPACITIES_MOST) continue;
    if (moments.at(-1)?.at_s === at_s) moments.pop();
    moments.push({ at_s, shares });
    kept.set(name, moments.slice(-POINTS));
  }
}

/** The holders whose newest shares are the largest, in the order of their names, and a line for each. */
export function sharesOf(location: string, host: string, term: string, most: number): { holders: string[]; data: uPlot.AlignedData } {
  const moments = kept.get(`${location}\n${host}\n${term}`) ?? [];
  const largest = new Map<string, number>();
  for (const { shares } of moments) for (const holder of shares.keys()) largest.set(holder, moments.at(-1)?.shares.get(holder) ?? 0);
  const holders = [...largest]
    .sort((one, other) => other[1] - one[1])
    .slice(0, most)
    .map(([holder]) => holder)
    .sort();
  const lines = holders.map((holder) => moments.map(({ shares }) => shares.get(holder) ?? 0));
  return { holders, data: [moments.map((moment) => moment.at_s), ...lines] };
}
