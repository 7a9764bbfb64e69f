// How times, lengths and counts are written for people.

/** 41 s, 3 min, 2 h 5 min, 3 d 4 h. */
export function length(ms: number): string {
  const s = Math.max(0, Math.round(ms / 1000));
  if (s < 60) return `${s} s`;
  const min = Math.floor(s / 60);
  if (min < 60) return s % 60 && min < 10 ? `${min} min ${s % 60} s` : `${min} min`;
  const h = Math.floor(min / 60);
  if (h < 48) return min % 60 ? `${h} h ${min % 60} min` : `${h} h`;
  const d = Math.floor(h / 24);
  return h % 24 ? `${d} d ${h % 24} h` : `${d} d`;
}

/** The time of day; with the date when that is not today's. */
export function clock(atMs: number, nowMs: number): string {
  const at = new Date(atMs);
  const time = at.toLocaleTimeString([], { hour12: false });
  return at.toDateString() === new Date(nowMs).toDateString() ? time : `${at.toLocaleDateString()} ${time}`;
}

export function count(number: number): string {
  return number.toLocaleString("en").replaceAll(",", "\u202f");
}

const POWERS: [number, string][] = [
  [1e9, "G"],
  [1e6, "M"],
  [1e3, "k"],
];

/** An amount of base units for people: `30.7 kB/s`, `1.5 cpu`, `2`. */
export function amount(value: number, unit: string): string {
  if (unit === "mcpu") return `${rounded(value / 1000)} cpu`;
  if (unit === "ms") return length(value);
  if (unit !== "B/s" && unit !== "B") return count(value);
  const [factor, letter] = POWERS.find(([least]) => value >= least) ?? [1, ""];
  return `${rounded(value / factor)} ${letter}${unit}`;
}

function rounded(value: number): string {
  return String(Number(value.toPrecision(3)));
}

/** `1 lease`, `2 leases`. */
export function some(number: number, one: string, many = `${one}s`): string {
  return `${count(number)} ${number === 1 ? one : many}`;
}

/** `7K4M-Q2` for the 26 letters of a printed id, as the commands show it; all else as it is. */
export function short(id: string): string {
  return /^[0-9A-Z]{26}$/.test(id) ? `${id.slice(0, 4)}-${id.slice(4, 6)}` : id;
}
