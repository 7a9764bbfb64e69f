// The rows about jobs, as docs/reference/http.md has them. Times are milliseconds.
import { ask } from "./api";

export interface JobRow {
  job: string;
  name: string;
  user: string;
  state: string;
  /** why it ended so, or what keeps it from going on */
  text: string;
  started_ms: number;
  ended_ms: number | null;
  done: number;
  total: number;
  cancel: string;
  node: string;
}

export interface Instance {
  name: string;
  state: string;
  attempt: number | null;
  /** what it waits for or does */
  note: string;
  attempts: Attempt[];
}

export interface Attempt {
  attempt: number;
  ended_ms: number | null;
  /** of what it was granted; empty: it has needed nothing, or has nothing yet */
  lease: string;
  /** pool/unit@node#fence */
  units: string[];
}

export interface Task {
  task: string;
  state: string;
  text: string;
  after: string[];
  when: string;
  waits_for: string[];
  instances: Instance[];
}

export interface Job extends JobRow {
  tasks: Task[];
}

export async function jobs(): Promise<JobRow[]> {
  return ((await ask("/v1/jobs")) as { jobs: JobRow[] }).jobs.reverse();
}

export async function jobOf(id: string): Promise<Job> {
  const { job, tasks } = (await ask(`/v1/jobs/${encodeURIComponent(id)}`)) as { job: JobRow; tasks: Task[] };
  return { ...job, tasks };
}

export const cancelJob = (id: string, reason: string) =>
  ask(`/v1/jobs/${encodeURIComponent(id)}/cancel`, { method: "POST", body: JSON.stringify({ reason }) });
